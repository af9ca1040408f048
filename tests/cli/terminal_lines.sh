#!/bin/sh
# Only a terminal that can redraw a line gets carriage returns or escapes: not a dumb one, not one without a name, not a
# pipe, not a file; the same for every command that works for a while.
set -u
ember=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
python3 -c 'import pty; pty.openpty()' 2> /dev/null || { echo "skipped: no python3 or no pseudo-terminals" && exit 77; }

i=0
while [ $i -lt 3000 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > out 2> err || { cat err && exit 1; }
cat > run.yaml <<'END'
run: {threads: 1, output: run}
model: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: shard.h5, valid: shard.h5}
train: {steps: 4, batch_size: 2, sequence_length: 64}
eval: {every: 2, sequences: 4}
END
"$ember" train run.yaml > out 2> err || { cat err && exit 1; }

python3 - "$ember" <<'END'
import os, pty, shutil, subprocess, sys
ember = sys.argv[1]
def on_terminal(term, words):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.pop("TERM", None)
        if term is not None:
            os.environ["TERM"] = term
        os.execv(ember, [ember] + words)
    text = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text
    return text.replace(b"\r\n", b"\n")
commands = [
    ["train", "run.yaml", "--set", "run.output=new"],
    ["train", "run.yaml", "--set", "run.output=new", "--set", "ffn.mode=dense"],
    ["data", "prepare", "text", "--tokenizer", "bytes", "-o", "new/shard.h5"],
    ["eval", "run/step_4.h5", "shard.h5", "--threads", "1"],
    ["plan", "run.yaml"],
    ["stats", "run"],
    ["inspect", "run/step_4.h5"],
    ["bench", "step", "run.yaml", "--repeat", "1"],
]
redrawn = 0
for words in commands:
    for term in (None, "", "dumb", "xterm"):
        shutil.rmtree("new", ignore_errors=True)
        if words[0] == "data":
            os.mkdir("new")
        text = on_terminal(term, words)
        assert text, words
        if term == "xterm":
            redrawn += b"\r" in text
        else:
            assert b"\r" not in text and b"\x1b" not in text, (term, words, text)
    shutil.rmtree("new", ignore_errors=True)
    if words[0] == "data":
        os.mkdir("new")
    piped = subprocess.run([ember] + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "TERM": "xterm"})
    assert piped.returncode == 0, piped.stdout
    assert b"\r" not in piped.stdout and b"\x1b" not in piped.stdout, (words, piped.stdout)
    for line in piped.stdout.decode("latin-1").split("\n"):
        assert line.count("tokens/s") <= 1, line
assert redrawn >= 2, "no command redraws on a terminal that can"
print("terminal_lines: all passed")
END
