#!/bin/sh
# 20 steps at once = 10 and 10 = stopped by a signal at some moment and resumed, in every dataset but the speeds,
# with one thread and with two, under ffn.mode auto with one shared cost table.
set -u
. "$(dirname "$0")/cli_scratch.sh"

i=0
while [ $i -lt 400 ]; do
    echo "line $i of a text that is told again and again, a little different each time: $((i * i % 97)) $((i * 7 % 13))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o train.h5 > out 2> err || fail "prepare: $(cat err)"
head -c 3000 text > held
"$ember" data prepare held --tokenizer bytes -o valid.h5 > out 2> err || fail "prepare: $(cat err)"

cat > run.yaml <<'END'
run: {output: run, threads: 1}
model: {hidden_size: 32, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 2, tie_word_embeddings: true}
data: {train: ../train.h5, valid: ../valid.h5}
train: {steps: 20, batch_size: 4, micro_batch_size: 2, sequence_length: 64, lr: 0.01, warmup_steps: 2}
sparsity: {l1: 0.01, target: 0.1, target_rate: 0.1, dead_after_tokens: 600, revive_every: 5}
ffn: {mode: auto, costs: ../costs.json}
eval: {every: 4}
checkpoint: {every: 3}
END

# Name, dtype, shape and hashes of every object of a verified checkpoint, one a line, the speeds left out.
hashes() {
    "$ember" inspect "$1" > inspected 2> err || fail "inspect $1: $(cat err)"
    h5dump -d /manifest "$1" | sed 's/\\000//g' | awk '/^ *"/ { gsub(/[",]/, ""); row = row " " $1 } /^ *}/ { if (row != "") print row; row = "" }' |
        grep -v '^ /history/tokens_per_s '
}

same() {
    hashes straight/run/step_20.h5 > a
    hashes "$1/run/step_20.h5" > b
    [ "$(wc -l < a)" -gt 60 ] || fail "only $(wc -l < a) objects were compared"
    diff a b > difference || fail "$1 differs: $(head -4 difference)"
}

go() {
    place=$1
    shift
    mkdir -p "$place"
    (cd "$place" && "$ember" train ../run.yaml "$@" > out 2> err)
}

go straight || fail "straight: $(cat straight/err)"
go halves --set train.stop_after=10 || fail "first half: $(cat halves/err)"
grep -q 'train.stop_after' halves/out || fail "stop_after is not said"
[ ! -e halves/run/step_20.h5 ] || fail "stop_after did not stop"
go halves --resume || fail "second half: $(cat halves/err)"
go two_threads --set run.threads=2 || fail "two threads: $(cat two_threads/err)"

# SIGTERM and SIGINT at whatever moment, where two signals do not harm the save; SIGKILL in the last two rounds.
for round in 1 2 3 4 5 6 7 8; do
    place=signal_$round
    mkdir -p $place
    (cd $place && exec "$ember" train ../run.yaml > out 2> err) &
    pid=$!
    sleep "0.$((round * 3 % 10))$round"
    case $round in
    7 | 8) kill -KILL $pid 2> /dev/null ;;
    2 | 4 | 6) kill -INT $pid 2> /dev/null ;;
    *) kill -TERM $pid 2> /dev/null ;;
    esac
    kill -TERM $pid 2> /dev/null
    wait $pid
    code=$?
    case $code in
    0) ;;
    1)
        grep -Eq 'Resume with: ember train ../run.yaml --resume|Start again with: ember train ../run.yaml' $place/err ||
            fail "round $round does not say how to resume: $(cat $place/err)"
        if ls $place/run/step_*.h5 > /dev/null 2>&1; then
            go $place --resume || fail "round $round, resumed: $(cat $place/err)"
        else
            go $place || fail "round $round, again: $(cat $place/err)"
        fi
        ;;
    143 | 130 | 137) # before the handlers were there, or SIGKILL
        if ls $place/run/step_*.h5 > /dev/null 2>&1; then
            go $place --resume || fail "round $round, resumed: $(cat $place/err)"
        else
            go $place || fail "round $round, again: $(cat $place/err)"
        fi
        ;;
    *) fail "round $round: exit code $code: $(cat $place/err)" ;;
    esac
    [ "$(wc -l < $place/run/metrics.jsonl)" = 20 ] || fail "round $round: metrics.jsonl has $(wc -l < $place/run/metrics.jsonl) lines"
    set -- $place/run/.*tmp
    [ ! -e "$1" ] || fail "round $round left a temporary file"
done

if command -v h5dump > /dev/null; then
    same halves
    for round in 1 2 3 4 5 6 7 8; do
        same signal_$round
    done
    # The number of threads is in the stored config and nowhere else.
    hashes straight/run/step_20.h5 | grep -v '^ /config ' > a
    hashes two_threads/run/step_20.h5 | grep -v '^ /config ' > b
    diff a b > difference || fail "two threads differ from one: $(head -4 difference)"
    # The comparison sees what is to be seen: another seed is another file.
    go other --set run.seed=1 || fail "another seed: $(cat other/err)"
    hashes other/run/step_20.h5 > b
    diff a b | grep -q 'embed_tokens' || fail "another seed shows no difference"
else
    [ $failed = 0 ] && echo "h5dump is missing: datasets were not compared" && exit 77
fi

[ $failed = 0 ] && echo "resume_bitwise: all passed"
exit $failed
