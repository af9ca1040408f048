#!/bin/sh
# Signals in each phase of a run: while the costs are measured, during an evaluation (the run's and the command's), many
# of them during a save; SIGKILL at random moments with a checkpoint after each step. What is there afterwards is complete.
set -u
ember=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export OMP_WAIT_POLICY=passive
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

i=0
while [ $i -lt 150 ]; do
    echo "line $i of a text that is told again and again, a little different each time: $((i * i % 97)) $((i * 7 % 13))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
cat > slow.yaml <<'END'
run: {output: run, threads: 1}
model: {hidden_size: 128, intermediate_size: 1024, num_hidden_layers: 4, num_attention_heads: 4}
data: {train: shard.h5, valid: shard.h5}
train: {steps: 4, batch_size: 2, micro_batch_size: 1, sequence_length: 128, lr: 0.001}
eval: {every: 2}
log: {every: 1}
END

# until FILE TEXT: waits until FILE says TEXT, a minute at most
until_says() {
    n=0
    until grep -q -- "$2" "$1" 2> /dev/null; do
        n=$((n + 1))
        [ $n -lt 3000 ] || { fail "$1 never says \"$2\": $(cat "$1")" && return; }
        sleep 0.02
    done
}

# Measuring the costs: a first run leaves nothing behind.
"$ember" train slow.yaml > out 2> err &
until_says err 'measuring'
kill -TERM $!
wait $!
code=$?
if [ $code = 1 ] && grep -q 'measuring' err && ! grep -q 'saved as' err; then
    grep -q 'Start again with: ember train slow.yaml$' err || fail "calibration: $(cat err)"
    [ ! -e run ] || fail "calibration: the folder stays"
else
    [ $code -le 1 ] || fail "calibration: exit code $code: $(cat err)"
fi
rm -rf run

# The evaluation after step 2 takes a hundred micro-batches; the step is saved and the evaluation made up for.
"$ember" train slow.yaml --set ffn.mode=dense > out 2> err &
until_says out '^step 2/4'
kill -TERM $!
wait $!
code=$?
[ $code = 1 ] || fail "evaluation: exit code $code: $(cat err)"
grep -q 'validation loss' out && fail "evaluation: it was not cut short: $(cat out)"
grep -q 'stopped after step 2 of 4; saved as run/step_2.h5. Resume with: ember train slow.yaml --set ffn.mode=dense --resume' err ||
    fail "evaluation: $(cat err)"
"$ember" train slow.yaml --set ffn.mode=dense --resume > out 2> err || fail "evaluation, resumed: $(cat err)"
[ "$(grep -c 'validation loss' out)" = 2 ] || fail "the evaluation was not made up for: $(cat out)"
[ "$(grep -c '"valid_loss": [0-9]' run/metrics.jsonl)" = 2 ] || fail "metrics.jsonl lacks a validation loss"

# The command of the same name.
"$ember" eval run/step_4.h5 shard.h5 --threads 1 --batch 1 > out 2> err &
sleep 0.3
kill -TERM $!
wait $!
code=$?
case $code in
0) [ -s out ] || fail "eval: nothing was printed" ;;
1) grep -q 'stopped' err && [ ! -s out ] || fail "eval: $(cat out err)" ;;
143) ;; # before the handler was there
*) fail "eval: exit code $code: $(cat err)" ;;
esac

# Many signals, through saves and all: one checkpoint, complete, and the run goes on from it.
rm -rf run
"$ember" train slow.yaml --set ffn.mode=dense --set eval.every=0 --set checkpoint.every=1 > out 2> err &
pid=$!
until_says out 'saved run/step_1.h5'
while kill -TERM $pid 2> /dev/null && kill -INT $pid 2> /dev/null; do
    sleep 0.002
done
wait $pid
code=$?
[ $code -le 1 ] || fail "many signals: exit code $code: $(cat err)"
for file in run/*.h5; do
    "$ember" inspect "$file" > out 2> err || fail "many signals: $(cat err)"
done
"$ember" train slow.yaml --set ffn.mode=dense --set eval.every=0 --set checkpoint.every=1 --resume > out 2> err || fail "many signals, resumed: $(cat err)"

# SIGKILL again and again until the run is through.
cat > fast.yaml <<'END'
run: {output: killed, threads: 1}
model: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: shard.h5, valid: shard.h5}
train: {steps: 120, batch_size: 2, sequence_length: 16}
ffn: {mode: dense}
checkpoint: {every: 1}
eval: {every: 10, sequences: 4}
END
kills=0
round=0
while [ $round -lt 50 ]; do
    round=$((round + 1))
    resume=
    if ls killed/step_*.h5 > /dev/null 2>&1; then resume=--resume; fi
    "$ember" train fast.yaml $resume > out 2> err &
    pid=$!
    sleep "0.0$((round * 7 % 10))$((round * 3 % 10))"
    kill -KILL $pid 2> /dev/null
    wait $pid 2> /dev/null
    code=$?
    case $code in
    137) kills=$((kills + 1)) ;;
    0) break ;;
    *) fail "kill $round: exit code $code: $(cat err)" ;;
    esac
done
resume=
if ls killed/step_*.h5 > /dev/null 2>&1; then resume=--resume; fi
if [ $code != 0 ]; then "$ember" train fast.yaml $resume > out 2> err || fail "after $kills kills: $(cat err)"; fi
[ $kills -ge 3 ] || fail "only $kills runs were killed"
[ "$(wc -l < killed/metrics.jsonl)" = 120 ] || fail "after $kills kills metrics.jsonl has $(wc -l < killed/metrics.jsonl) lines"
[ -z "$(find killed -name '*.tmp')" ] || fail "temporary files stay: $(find killed -name '*.tmp')"
"$ember" train fast.yaml --set run.output=straight > out 2> err || fail "straight: $(cat err)"
for run in killed straight; do
    sed 's/"tokens_per_s": [^,]*,//' $run/metrics.jsonl > $run.jsonl
done
cmp -s killed.jsonl straight.jsonl || fail "after $kills kills other numbers"

[ $failed = 0 ] && echo "signals_phases: all passed ($kills runs killed)"
exit $failed
