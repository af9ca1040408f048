#!/bin/sh
# `ember stats`: the table, strict JSON, CSV with equal fields in each line, numbers that agree with each other, and the
# edges: a silent layer, no window, lambda 0, a weight that is no number, paths that no text encoding explains.
set -u
. "$(dirname "$0")/cli_scratch.sh"

cat > tiny.yaml <<'END'
run: {threads: 1, output: run}
model: {vocab_size: 64, hidden_size: 16, intermediate_size: 40, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: synthetic}
train: {steps: 12, batch_size: 2, sequence_length: 8}
sparsity: {dead_after_tokens: 64, window_tokens: 64}
ffn: {mode: dense}
END
"$ember" train tiny.yaml > out 2> err || fail "train: $(cat err)"

"$ember" stats run > table 2> err || fail "stats of a folder: $(cat err)"
"$ember" stats run/step_12.h5 > table2 2> err || fail "stats of a file: $(cat err)"
diff table table2 > difference || fail "folder and file differ: $(cat difference)"
grep -q 'run/step_12.h5' table || fail "the table does not name the checkpoint"
[ "$(grep -Ec '^(0|1|all) ' table)" = 3 ] || fail "the table: $(cat table)"
"$ember" stats run --csv layers.csv --json all.json --neurons neurons.csv --history history.csv > table3 2> err || fail "files: $(cat err)"
diff table table3 > difference || fail "with files the table differs: $(cat difference)"
"$ember" stats run --json - > stdout.json 2> err || fail "--json -: $(cat err)"
cmp all.json stdout.json || fail "--json FILE and --json - differ"

# Every line of a CSV file has the fields of its header.
for file in layers.csv neurons.csv history.csv; do
    awk -F , 'NR == 1 { n = NF } NF != n { exit 1 } END { if (NR < 3) exit 1 }' $file || fail "$file is not rectangular"
done
[ "$(wc -l < layers.csv)" = 3 ] || fail "layers.csv: $(cat layers.csv)"
[ "$(wc -l < neurons.csv)" = 81 ] || fail "neurons.csv has $(wc -l < neurons.csv) lines"
[ "$(wc -l < history.csv)" = 13 ] || fail "history.csv has $(wc -l < history.csv) lines"
if grep -Eiq 'nan|inf' layers.csv neurons.csv history.csv all.json; then fail "a word that is no number"; fi

python3 - <<'END' || fail "the numbers do not agree"
import csv, json
report = json.load(open("all.json"), parse_constant=lambda c: 1 / 0)
neurons = list(csv.DictReader(open("neurons.csv")))
history = list(csv.DictReader(open("history.csv")))
layers = list(csv.DictReader(open("layers.csv")))
assert report["step"] == 12 and report["tokens_seen"] == 192 and report["window_tokens"] == 64
assert report["dead_after_tokens"] == 64
for i, layer in enumerate(report["layers"]):
    mine = [n for n in neurons if int(n["layer"]) == i]
    assert len(mine) == layer["neurons"] == 40
    window = sorted((int(n["window_count"]) for n in mine), reverse=True)
    assert abs(layer["l0_window"] - sum(window) / 64) < 1e-9
    assert abs(layer["nonzero_window"] - sum(window) / 64 / 40) < 1e-9
    assert abs(layer["hottest_10_percent"] - sum(window[:4]) / sum(window)) < 1e-9
    assert abs(layer["hottest_1_percent"] - window[0] / sum(window)) < 1e-9
    assert layer["dead"] == sum(192 - int(n["last_fired"]) >= 64 for n in mine) == sum(int(n["dead"]) for n in mine)
    assert abs(layer["l0"] - float(history[-1]["l0_%d" % i])) < 1e-6
    assert layer["dead"] == int(history[-1]["dead_%d" % i])
    # Since the start: the sum of all steps' L0 (16 tokens each).
    fired = sum(float(row["l0_%d" % i]) * 16 for row in history)
    assert abs(fired - sum(int(n["fire_count"]) for n in mine)) < 1e-3 * fired
    assert float(layers[i]["l0"]) == layer["l0"] and int(layers[i]["dead"]) == layer["dead"]
assert all(row["valid_loss"] == "" for row in history)
END

# A folder without checkpoints, weights alone, no checkpoint at all.
mkdir empty
"$ember" stats empty > out 2> err && fail "stats of an empty folder"
"$ember" stats tiny.yaml > out 2> err && fail "stats of a YAML file"
grep -q 'tiny.yaml' err || fail "the YAML file is not named: $(cat err)"
"$ember" stats > out 2> err
[ $? = 2 ] || fail "stats of nothing: exit code is not 2"

# Bytes in a path that are not UTF-8, quotes, a backslash, a control byte.
odd=$(printf 'q"b\\c\001\377')
cp run/step_12.h5 "$odd.h5"
"$ember" stats "$odd.h5" --json odd.json > out 2> err || fail "an odd path: $(cat err)"
python3 -c 'import json; json.load(open("odd.json"), parse_constant=lambda c: 1/0)' || fail "odd.json is not JSON"

[ $failed = 0 ] && echo "stats_formats: all passed"
exit $failed
