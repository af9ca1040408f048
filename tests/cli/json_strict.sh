#!/bin/sh
# Everything that prints JSON or CSV, for models at the edges: a weight that is no number, neurons that never fire, lambda 0,
# nothing in the window, names with quotes, control bytes and broken UTF-8. JSON is JSON (no NaN, no Infinity, no duplicate
# key), CSV has the same number of fields in each line.
set -u
. "$(dirname "$0")/cli_scratch.sh"
command -v python3 > /dev/null || { echo "skipped: python3 is missing" && exit 77; }

cat > strict.py <<'END'
import json, sys
def pairs(items):
    assert len(dict(items)) == len(items), "a key is there twice"
    return dict(items)
for name in sys.argv[1:]:
    text = open(name, encoding="utf-8").read()
    rows = text.splitlines() if name.endswith("lines") else [text]
    assert rows, name + " is empty"
    for row in rows:
        json.loads(row, parse_constant=lambda word: 1 / 0, object_pairs_hook=pairs)
END
# strict NAME COMMAND...: standard output is one JSON text, for NAME.lines one a line
strict() {
    name=$1
    shift
    "$@" > "$name" 2> err || fail "$*: $(cat err)"
    python3 strict.py "$name" 2> err || fail "$*: $(tail -1 err): $(head -c 300 "$name")"
}
csv() {
    name=$1
    shift
    "$@" > "$name" 2> err || fail "$*: $(cat err)"
    awk -F , 'NR == 1 { n = NF } NF != n { exit 1 } END { if (NR < 2) exit 1 }' "$name" || fail "$* is not rectangular: $(head -3 "$name")"
    grep -Eiq '(^|,)-?(nan|inf)' "$name" && fail "$*: a word that is no number"
}

i=0
while [ $i -lt 60 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
# Two folders of another program: one with gate weights that are no number, one whose gates are all 0, so that no neuron
# ever fires, and none learns to.
python3 - <<'END'
import json, os, struct
d, h, v = 8, 12, 257
p = "model.layers.0."
shapes = {"model.embed_tokens.weight": [v, d], "model.norm.weight": [d], p + "input_layernorm.weight": [d],
          p + "post_attention_layernorm.weight": [d], p + "mlp.gate_proj.weight": [h, d], p + "mlp.up_proj.weight": [h, d],
          p + "mlp.down_proj.weight": [d, h]}
for name in "qkvo":
    shapes[p + "self_attn.%s_proj.weight" % name] = [d, d]
for folder, gate in ("nan", float("nan")), ("mute", 0.0):
    header, data = {}, b""
    for name, shape in sorted(shapes.items()):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [0.01 * (i % 7 - 3) for i in range(n)]
        if name.endswith("gate_proj.weight"):
            values = [gate] * n
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
        data += struct.pack("<%df" % n, *values)
    text = json.dumps(header).encode()
    os.mkdir(folder)
    open(folder + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
    json.dump({"model_type": "llama", "vocab_size": v, "hidden_size": d, "intermediate_size": h, "num_hidden_layers": 1,
               "num_attention_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
               "hidden_act": "relu", "bos_token_id": 0, "eos_token_id": 256}, open(folder + "/config.json", "w"))
END
for name in nan mute; do
    "$ember" import $name -o $name.h5 > out 2> err || fail "import: $(cat err)"
done
odd=$(printf 'q"b\\c\001\377\302')
cat > run.yaml <<'END'
run: {threads: 1}
model: {hidden_size: 8, intermediate_size: 12, num_hidden_layers: 1, num_attention_heads: 2, tie_word_embeddings: true}
data: {train: shard.h5, valid: shard.h5}
train: {steps: 6, batch_size: 2, sequence_length: 8}
sparsity: {l1: 0.1, dead_after_tokens: 40, window_tokens: 64}
ffn: {mode: twell}
eval: {every: 2, sequences: 5}
END
"$ember" train run.yaml --set run.output=silent --set init.from=mute.h5 > out 2> err || fail "silent: $(cat err)"
"$ember" train run.yaml --set run.output=zero --set sparsity.l1=0 --set train.steps=2 > out 2> err || fail "zero: $(cat err)"
grep -q '"l0": \[0\]' silent/metrics.jsonl || fail "the layer is not silent: $(tail -1 silent/metrics.jsonl)"
cp silent/step_6.h5 "$odd.h5"
cp shard.h5 "$odd.shard"
for run in silent zero; do
    cp $run/metrics.jsonl $run.lines
    python3 strict.py $run.lines || fail "$run/metrics.jsonl"
    strict json "$ember" stats $run --json -
    csv csv "$ember" stats $run --csv -
    csv csv "$ember" stats $run --neurons -
    csv csv "$ember" stats $run --history -
done
"$ember" stats silent --json json > out 2> err || fail "stats: $(cat err)"
grep -q '"nonzero_window": 0, .*"dead": 12, .*"hottest_1_percent": 0,' json || fail "a silent layer is not 0: $(cat json)"
strict json "$ember" stats "$odd.h5" --json -
strict json "$ember" eval silent/step_6.h5 shard.h5 --json --threads 1
grep -q '"l0": 0[,}]' json || fail "eval: a silent layer is not 0: $(cat json)"
strict json "$ember" eval "$odd.h5" "$odd.shard" --json --threads 1
strict json "$ember" inspect "$odd.h5" --json
strict json "$ember" inspect shard.h5 --json
strict lines "$ember" data info "$odd.shard" --json
strict json "$ember" info --json
cp run.yaml "$odd.yaml"
strict json "$ember" plan "$odd.yaml" --json
strict lines "$ember" bench step "$odd.yaml" --json --repeat 1
strict lines "$ember" bench ffn --json --tokens 5 --hidden 8 --neurons 20 --density 0,1 --repeat 1
strict lines "$ember" bench ops --json --op add --repeat 1

# A weight that is no number.
strict json "$ember" eval nan.h5 shard.h5 --json --force --threads 1
grep -q '"loss": null' json || fail "eval of a model with NaN: $(cat json)"
"$ember" eval nan.h5 shard.h5 --force --threads 1 > out 2> err || fail "eval, table: $(cat err)"
grep -q 'the loss is no number' out || fail "eval, table: $(cat out)"
strict json "$ember" inspect nan.h5 --json
"$ember" generate nan.h5 --ids -n 2 > out 2> err && fail "generate with a model of NaN"
grep -q 'nan' err || fail "generate: $(cat err)"
# Training from it stops, and says where.
"$ember" train run.yaml --set init.from=nan.h5 --set run.output=from_nan > out 2> err && fail "trained from NaN"
grep -q 'step 1' err || fail "training from NaN: $(cat err)"
strict json cat from_nan/nonfinite_step_1.json

[ $failed = 0 ] && echo "json_strict: all passed"
exit $failed
