#!/bin/sh
# The stories model with keys taken out of its config.json one at a time: optional ones have the default that is printed,
# the others are named in the refusal; and the norm's epsilon is used, which its own greedy text shows.
ember=$1
model=$SHARED_FOLDER/models/stories260K
if [ ! -f "$model/model.safetensors" ]; then
    echo "skipped: $model is not there"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $1"
    [ -f err ] && cat err
    exit 1
}
mkdir folder
cp "$model/model.safetensors" "$model/tokenizer.json" folder
# without KEY: the folder's config lacks the key; a list may go over several lines
without() {
    sed -e "/\"$1\": \[ *\$/,/\]/d" -e "/\"$1\":/d" "$model/config.json" | sed -z 's/,\n}/\n}/' > folder/config.json
    cmp -s folder/config.json "$model/config.json" && fail "the config has no $1 to take out"
}
# loss_of FILE: of the greedy text, on one thread
loss_of() {
    "$ember" eval "$1" story.h5 --json --threads 1 > out 2> err || fail "eval $1"
    sed -n 's/.*"loss": \([-0-9.e+]*\)[,}].*/\1/p' out | head -n 1
}
# apart A B LIMIT: |A - B| > LIMIT
apart() { awk -v a="$1" -v b="$2" -v limit="$3" 'BEGIN { exit !(a - b > limit || b - a > limit) }'; }

"$ember" import "$model" -o good.h5 > out 2> err || fail "import"
"$ember" generate good.h5 --prompt '' --temperature 0 -n 200 --threads 1 > story.txt 2> err || fail "generate"
"$ember" data prepare story.txt --tokenizer "$model/tokenizer.json" --add-bos --no-eos -o story.h5 > out 2> err || fail "data prepare"
good=$(loss_of good.h5)
awk -v loss="$good" 'BEGIN { exit !(loss > 0.473 && loss < 0.474) }' || fail "the greedy text has the loss $good"

while read -r key default; do
    without "$key"
    "$ember" import folder -o part.h5 --force > out 2> err || fail "import without $key"
    if [ -n "$default" ]; then grep -qxF "$key: $default (default)" out || fail "without $key: no default $default in: $(grep "^$key" out)"; fi
    loss=$(loss_of part.h5)
    apart "$loss" "$good" 0.001 && fail "without $key: the loss is $loss, not $good"
done << 'END'
rope_theta 1e+04
rms_norm_eps 1e-06
attention_bias false
mlp_bias false
max_position_embeddings 2048
bos_token_id 1
torch_dtype
architectures
END

for key in hidden_size vocab_size model_type intermediate_size num_hidden_layers num_attention_heads; do
    without $key
    "$ember" import folder -o none.h5 > out 2> err
    code=$?
    [ $code = 1 ] && grep -q "$key" err && [ ! -e none.h5 ] || fail "without $key: exit code $code"
done

# epsilon VALUE: the loss with it
epsilon() {
    sed "s/\"rms_norm_eps\": [^,]*/\"rms_norm_eps\": $1/" "$model/config.json" > folder/config.json
    grep -q "rms_norm_eps\": $1" folder/config.json || fail "the config has no rms_norm_eps"
    "$ember" import folder -o part.h5 --force > out 2> err || fail "import with rms_norm_eps $1"
    loss_of part.h5
}
small=$(epsilon 1e-6)
apart "$small" "$good" 0.001 && fail "rms_norm_eps 1e-6 changes the loss: $small, not $good"
large=$(epsilon 0.1)
awk -v loss="$large" 'BEGIN { exit !(loss > 1.085 && loss < 1.087) }' || fail "with rms_norm_eps 0.1 the loss is $large, not 1.0861"
echo "import_defaults: all passed (loss $good, with rms_norm_eps 0.1 $large)"
