#!/bin/sh
# The same bits with 1, 2 and 4 threads, and stopped after 10 steps and resumed on another number of threads, for every
# FFN mode together with what moves between steps: controller, revival, document masks, a mixture of sources, both kinds.
set -u
# Four threads may share two processors.
export OMP_WAIT_POLICY=passive
. "$(dirname "$0")/cli_scratch.sh"
command -v h5dump > /dev/null || { echo "skipped: h5dump is missing" && exit 77; }

text() {
    i=0
    while [ $i -lt "$1" ]; do
        echo "line $i of a text that is told again, a little different each time: $((i * i % $2)) $((i * 7 % 13))"
        i=$((i + 1))
    done
}
text 200 97 > one
text 90 31 | tr 'a-m' 'n-z' > two
for name in one two; do
    "$ember" data prepare $name --tokenizer bytes --document line -o $name.h5 > out 2> err || fail "prepare: $(cat err)"
done
head -c 400 one > held
"$ember" data prepare held --tokenizer bytes --document line -o valid.h5 > out 2> err || fail "prepare: $(cat err)"

cat > run.yaml <<'END'
model: {hidden_size: 32, intermediate_size: 300, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: one.h5, valid: valid.h5}
train: {steps: 20, batch_size: 4, micro_batch_size: 2, sequence_length: 33, lr: 0.01, warmup_steps: 2}
sparsity: {l1: 0.01}
eval: {every: 4}
checkpoint: {every: 6}
END

# Name, dtype, shape and hash of every object of a verified checkpoint; speeds, and the config with its thread count, left out.
hashes() {
    "$ember" inspect "$1" > inspected 2> err || fail "inspect $1: $(cat err)"
    h5dump -d /manifest "$1" | sed 's/\\000//g' | awk '/^ *"/ { gsub(/[",]/, ""); row = row " " $1 } /^ *}/ { if (row != "") print row; row = "" }' |
        grep -v -e '^ /history/tokens_per_s ' -e '^ /config '
}

# matrix NAME KEY=VALUE...: four runs that must end in one and the same file
matrix() {
    name=$1
    shift
    for setting in "$@"; do
        set -- "$@" --set "$setting"
        shift
    done
    for threads in 1 2 4; do
        "$ember" train run.yaml "$@" --set run.output=${name}_$threads --set run.threads=$threads > out 2> err || fail "$name: $(cat err)"
        hashes ${name}_$threads/step_20.h5 > hashes_$threads
    done
    "$ember" train run.yaml "$@" --set run.output=${name}_r --set run.threads=2 --set train.stop_after=10 > out 2> err || fail "$name: $(cat err)"
    "$ember" train run.yaml "$@" --set run.output=${name}_r --set run.threads=3 --resume > out 2> err || fail "$name: $(cat err)"
    hashes ${name}_r/step_20.h5 > hashes_r
    [ "$(wc -l < hashes_1)" -gt 60 ] || fail "$name: only $(wc -l < hashes_1) objects"
    for other in 2 4 r; do
        diff hashes_1 hashes_$other > difference || fail "$name, $other: $(head -3 difference)"
    done
}

matrix auto ffn.mode=auto ffn.costs=costs.json
matrix dense ffn.mode=dense
matrix twell ffn.mode=twell ffn.compression=16
matrix moving ffn.mode=auto ffn.costs=costs.json sparsity.target=0.1 sparsity.target_rate=0.3 sparsity.revive_every=3 \
    sparsity.dead_after_tokens=400 'data.train=[one.h5, two.h5]' 'data.weights=[2, 1]' data.mask_documents=true
matrix plain ffn.mode=twell ffn.kind=plain ffn.activation=relu2 ffn.compression=2 data.mask_documents=true \
    sparsity.target=0.1 sparsity.target_rate=0.3 model.tie_word_embeddings=false
matrix silu ffn.activation=silu model.qkv_bias=true model.qk_norm=true
# Sizes that divide by nothing.
matrix odd ffn.mode=twell model.intermediate_size=257 model.hidden_size=22 model.num_attention_heads=1 train.sequence_length=17 \
    train.batch_size=7 train.micro_batch_size=7

[ $failed = 0 ] && echo "repeatable_matrix: all passed"
exit $failed
