#!/bin/sh
# `ember plan`: parameters and bytes of known models, JSON, a model far larger than this machine in little memory.
set -u
. "$(dirname "$0")/cli_scratch.sh"

cat > tiny.yaml <<'END'
model: {vocab_size: 64, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 1}
data: {train: synthetic}
train: {steps: 4, batch_size: 2, sequence_length: 8}
END
value() { python3 -c 'import json,sys; print(json.load(open("json"), parse_constant=lambda c: 1/0)[sys.argv[1]])' "$1"; }

# Embedding 64 * 16; a layer: q, o 16 * 16, k, v 8 * 16, three FFN matrices 24 * 16, two norms; the final norm; the head.
"$ember" plan tiny.yaml --json --set model.tie_word_embeddings=false > json 2> err || fail "plan: $(cat err)"
[ "$(value parameters)" = $((64 * 16 + 2 * (768 + 1152 + 32) + 16 + 64 * 16)) ] || fail "parameters: $(value parameters)"
[ "$(value weight_bytes)" -ge $((4 * $(value parameters))) ] || fail "weight bytes: $(value weight_bytes)"
[ "$(value head_parameters)" = 1024 ] || fail "head parameters: $(value head_parameters)"
untied=$(value flop_per_token)
# Tied: the matrix is counted once, its products twice over as before.
"$ember" plan tiny.yaml --json --set model.tie_word_embeddings=true > json 2> err || fail "plan: $(cat err)"
[ "$(value parameters)" = $((64 * 16 + 2 * (768 + 1152 + 32) + 16)) ] || fail "tied parameters: $(value parameters)"
[ "$(value head_parameters)" = 0 ] || fail "tied head parameters: $(value head_parameters)"
[ "$(value flop_per_token)" = "$untied" ] || fail "tying changes the FLOP: $(value flop_per_token), $untied"
sum=0
for class in weight gradient optimizer activation ffn workspace tracker; do
    sum=$((sum + $(value ${class}_bytes)))
done
[ "$(value total_bytes)" = $sum ] || fail "total is $(value total_bytes), the classes sum to $sum"
"$ember" plan tiny.yaml > table 2> err || fail "table: $(cat err)"
grep -q "^  total .* bytes" table || fail "the table: $(cat table)"
[ ! -e runs ] || fail "plan wrote something"

# Smaller micro-batches need less; the smallest model plans.
big=$(value total_bytes)
"$ember" plan tiny.yaml --json --set train.micro_batch_size=1 > json 2> err || fail "plan: $(cat err)"
[ "$(value total_bytes)" -lt "$big" ] || fail "a smaller micro-batch does not need less"
"$ember" plan tiny.yaml --json --set model.hidden_size=8 --set model.num_attention_heads=1 --set model.num_hidden_layers=1 \
    --set model.intermediate_size=1 --set model.vocab_size=2 > json 2> err || fail "the smallest model: $(cat err)"

# Two billion parameters: 8 GB of weights alone, 50 GB in all, planned in 2 GB of address space.
if [ -n "${SOURCE_FOLDER:-}" ] && [ -e "$SOURCE_FOLDER/configs/2b.yaml" ]; then
    limit=2000000
    # A sanitizer reserves terabytes of addresses.
    if sh -c 'ulimit -v "$1" && "$2" info; exit $?' sh $limit "$ember" > /dev/null 2>&1; then
        (ulimit -v $limit && "$ember" plan "$SOURCE_FOLDER/configs/2b.yaml" --json) > json 2> err || fail "2b: $(cat err)"
    else
        "$ember" plan "$SOURCE_FOLDER/configs/2b.yaml" --json > json 2> err || fail "2b: $(cat err)"
    fi
    # V 49152, d 2048, h 5632, 38 layers, tied: every count below is from these numbers.
    [ "$(value embedding_parameters)" = $((49152 * 2048)) ] || fail "2b embedding: $(value embedding_parameters)"
    [ "$(value ffn_parameters)" = $((38 * 3 * 5632 * 2048)) ] || fail "2b FFN: $(value ffn_parameters)"
    [ "$(value weight_bytes)" -gt 8000000000 ] || fail "2b weights: $(value weight_bytes)"
fi

# Without a vocabulary the shards have to say it.
"$ember" plan tiny.yaml --set model.vocab_size=0 > out 2> err && fail "no vocabulary"
grep -q 'model.vocab_size' err || fail "no vocabulary: $(cat err)"
"$ember" plan tiny.yaml --set model.vocab_size=0 --set data.train=absent.h5 > out 2> err && fail "absent shards"
grep -q 'absent.h5' err || fail "absent shards: $(cat err)"

"$ember" info > out 2> err || fail "info: $(cat err)"
grep -q '^backends *cpu' out || fail "info does not name the backend"
grep -q '^hdf5 *1\.' out || fail "info does not name the HDF5 version"
"$ember" info --json > json 2> err || fail "info --json: $(cat err)"
[ "$(value version)" = "$("$ember" --version | cut -d ' ' -f 2)" ] || fail "info --json: $(cat json)"

[ $failed = 0 ] && echo "plan_numbers: all passed"
exit $failed
