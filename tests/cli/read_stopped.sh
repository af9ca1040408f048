#!/bin/sh
# Reading what never ends: a pipe that somebody holds open and writes nothing to. SIGTERM stops every command that was
# given one, and none leaves a file.
set -u
ember=$1
folder=$(mktemp -d)
holder=
trap 'if [ -n "$holder" ]; then kill $holder; fi; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}
mkfifo pipe
sleep 600 <> pipe &
holder=$!
printf 'some text, more than one line of a sequence\n' > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
cat > run.yaml <<'END'
run: {threads: 1, output: run}
model: {hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 1, batch_size: 1, sequence_length: 8}
END

# ended PID: it is gone, or waits to be asked for its exit code
ended() { [ ! -d "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2> /dev/null; }
# stops WORDS...: the command is gone soon after SIGTERM, by the signal or with exit code 1. It gets the signal when it
# waits in a read of the pipe; one that ends before that has refused the pipe, which is as good.
stops() {
    "$ember" "$@" < pipe > out 2> err &
    pid=$!
    n=0
    while [ $n -lt 50 ] && ! ended $pid; do
        grep -q pipe_read "/proc/$pid/wchan" 2> /dev/null && [ $n -gt 10 ] && break
        n=$((n + 1))
        sleep 0.02
    done
    kill -TERM $pid 2> /dev/null
    n=0
    while ! ended $pid && [ $n -lt 500 ]; do
        n=$((n + 1))
        sleep 0.02
    done
    ended $pid || { fail "$*: SIGTERM does not stop it" && kill -KILL $pid; }
    wait $pid 2> /dev/null
    code=$?
    case $code in
    143 | 1 | 137) ;; # 137 is told above
    *) fail "$*: exit code $code: $(cat err)" ;;
    esac
    [ ! -s out ] || fail "$*: it printed $(cat out)"
    [ ! -e new.h5 ] && [ ! -e run/step_1.h5 ] && [ -z "$(find . -name '.*tmp*')" ] || fail "$*: files are left: $(find .)"
    rm -rf run
}
stops generate shard.h5 --prompt-file pipe
stops generate shard.h5 --prompt-file /dev/stdin
stops train pipe
stops train run.yaml --set ffn.costs=pipe
stops train run.yaml --set data.train=pipe --set ffn.mode=dense
stops train run.yaml --set init.from=pipe --set ffn.mode=dense
stops train run.yaml --resume pipe
stops plan pipe
stops eval pipe shard.h5
stops stats pipe
stops inspect pipe
stops bench ffn --costs pipe
stops data prepare pipe --tokenizer bytes -o new.h5
stops data prepare - --tokenizer bytes -o new.h5
stops data prepare text --tokenizer pipe -o new.h5
stops data info pipe
stops import pipe -o new.h5

[ $failed = 0 ] && echo "read_stopped: all passed"
exit $failed
