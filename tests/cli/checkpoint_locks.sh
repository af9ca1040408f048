#!/bin/sh
# Another process holds a lock on the checkpoint, as a viewer does: it is complete and never changes, so it is read all
# the same. And several commands read one file at once.
set -u
ember=$1
command -v flock > /dev/null || { echo "skipped: flock is missing" && exit 77; }
folder=$(mktemp -d)
holder=
trap 'if [ -n "$holder" ]; then kill $holder; fi; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset HDF5_USE_FILE_LOCKING # who sets it wants locks
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

i=0
while [ $i -lt 60 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
cat > run.yaml <<'END'
run: {threads: 1, output: run}
model: {hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 8, batch_size: 2, sequence_length: 16, stop_after: 4}
ffn: {mode: dense}
END
"$ember" train run.yaml > out 2> err || fail "train: $(cat err)"
"$ember" eval run/step_4.h5 shard.h5 --json > free 2> err || fail "eval: $(cat err)"

# The lock is there once the file `held` is; a lock that is asked for then is refused.
flock -F -x run/step_4.h5 sh -c 'touch held; exec sleep 600' &
holder=$!
n=0
while [ ! -e held ] && [ $n -lt 1000 ]; do
    n=$((n + 1))
    sleep 0.01
done
if flock -n -s run/step_4.h5 true; then fail "nobody holds the lock"; fi
"$ember" inspect run/step_4.h5 > out 2> err || fail "inspect of a locked file: $(cat err)"
"$ember" eval run/step_4.h5 shard.h5 --json > locked 2> err || fail "eval of a locked file: $(cat err)"
cmp -s free locked || fail "eval of a locked file: other figures"
"$ember" generate run/step_4.h5 --prompt line -n 3 > out 2> err || fail "generate from a locked file: $(cat err)"
"$ember" train run.yaml --resume --set train.stop_after=0 > out 2> err || fail "resume from a locked file: $(cat err)"
grep -q '^step 8/8' out && [ -f run/step_8.h5 ] || fail "resume from a locked file: $(cat out)"
if flock -n -s run/step_4.h5 true; then fail "the lock was lost on the way"; fi
kill $holder
wait $holder 2> /dev/null
holder=

"$ember" eval run/step_4.h5 shard.h5 --json > one 2> err_one &
first=$!
"$ember" eval run/step_4.h5 shard.h5 --json > two 2> err_two &
second=$!
wait $first || fail "the first of two: $(cat err_one)"
wait $second || fail "the second of two: $(cat err_two)"
cmp -s free one && cmp -s free two || fail "two at once: other figures"

[ $failed = 0 ] && echo "checkpoint_locks: all passed"
exit $failed
