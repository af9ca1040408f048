#!/bin/sh
# What training prints and where: plain lines in a log, one refreshed line on a terminal, log.every, a
# metrics file of strict JSON, the summary, exit codes.
set -u
. "$(dirname "$0")/cli_scratch.sh"

cat > tiny.yaml <<'END'
run: {threads: 1}
model: {vocab_size: 64, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: synthetic}
train: {steps: 12, batch_size: 2, sequence_length: 8}
ffn: {mode: twell}
log: {every: 5}
END

"$ember" train tiny.yaml > out 2> err || fail "train: $(cat err)"
tr -d '[:print:]\n' < out > odd
[ ! -s odd ] || fail "control bytes in the output of a log"
[ ! -s err ] || fail "a plain run wrote to standard error: $(cat err)"
# The first step, every fifth, the last.
grep '^step .*tokens/s' out | cut -d ' ' -f 2 | tr '\n' ' ' > steps
[ "$(cat steps)" = '1/12 5/12 10/12 12/12 ' ] || fail "steps printed: $(cat steps)"
grep -Eq '^step 12/12  loss [0-9.]+  nonzero [0-9.]+ %  dead [0-9]+  [1-9][0-9]* tokens/s  ETA 0s$' out || fail "the last line: $(cat out)"
grep -q '^checkpoint: runs/tiny/step_12.h5$' out || fail "the summary does not name the checkpoint"
grep -q '^L0 per layer: ' out || fail "the summary has no L0 per layer"
[ "$(wc -l < runs/tiny/metrics.jsonl)" = 12 ] || fail "metrics.jsonl does not have a line a step"
"$ember" train tiny.yaml --set log.every=3 --set run.output=three > out 2> err || fail "log.every=3: $(cat err)"
grep '^step .*tokens/s' out | cut -d ' ' -f 2 | tr '\n' ' ' > steps
[ "$(cat steps)" = '1/12 3/12 6/12 9/12 12/12 ' ] || fail "log.every=3 printed: $(cat steps)"

if python3 -c 'import pty; pty.openpty()' 2> /dev/null; then
    python3 - "$ember" <<'END' || fail "on a terminal"
import json, os, pty, re, sys
ember = sys.argv[1]
def on_terminal(term, output):
    os.environ["TERM"] = term
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(ember, [ember, "train", "tiny.yaml", "--set", "run.output=" + output])
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
redrawn = on_terminal("xterm", "terminal")
assert b"\rstep 12/12" in redrawn, redrawn
assert b"\x1b" not in redrawn
dumb = on_terminal("dumb", "dumb")
assert b"\r" not in dumb and b"\x1b" not in dumb, dumb
assert b"step 12/12" in dumb
for line in open("runs/tiny/metrics.jsonl"):
    row = json.loads(line, parse_constant=lambda c: 1 / 0)
    assert row["tokens_per_s"] > 0 and row["valid_loss"] is None and len(row["l0"]) == 2
END
fi

# Exit codes: usage and config 2, failures 1.
code() {
    wanted=$1
    part=$2
    shift 2
    "$ember" train "$@" > out 2> err
    got=$?
    [ "$got" = "$wanted" ] || fail "$*: exit code $got, not $wanted: $(cat err)"
    grep -qF -- "$part" err || fail "$*: \"$(cat err)\" does not say \"$part\""
}
code 2 'CONFIG is missing'
code 2 'unknown option' tiny.yaml --bogus
code 2 '--resume' tiny.yaml --allow-change train.lr
code 2 'checkpoints of an earlier run' tiny.yaml
code 1 'no GPU backend' tiny.yaml --set run.device=cuda --set run.output=cuda
code 1 'absent' tiny.yaml --set run.output=absent --resume
code 1 'absent.h5' tiny.yaml --set run.output=new --resume absent.h5
code 2 'model.vocab_size' tiny.yaml --set model.vocab_size=0 --set run.output=new
printf 'x' > file
code 1 'file' tiny.yaml --set run.output=file/below
for left in cuda absent new; do
    [ ! -e "$left" ] || fail "a refused run left $left"
done
# Zero steps to do is said, and is success.
code 0 'nothing to do' tiny.yaml --resume

# A folder in use: flock(1) holds the lock as a run would.
if command -v flock > /dev/null; then
    mkdir busy
    flock -x busy/.lock "$ember" train tiny.yaml --set run.output=busy > out 2> err && fail "two runs in one folder"
    grep -q 'another run is using this folder' err || fail "a folder in use: $(cat err)"
fi

# Paths are bytes: blanks, quotes, a newline, letters outside ASCII.
odd=$(printf 'a b"c\047d\nl\303\266we')
mkdir "$odd"
cp tiny.yaml "$odd/con fig.yaml"
(cd "$odd" && "$ember" train 'con fig.yaml' --set train.stop_after=2 > out 2> err) || fail "an odd path: $(cat "$odd/err")"
"$ember" train "$odd/con fig.yaml" --set run.output=plain --set train.stop_after=2 > out 2> err || fail "an odd config path: $(cat err)"
"$ember" stats "$odd/runs/con fig" --json "$odd/s.json" > out 2> err || fail "stats of an odd path: $(cat err)"

[ $failed = 0 ] && echo "train_progress: all passed"
exit $failed
