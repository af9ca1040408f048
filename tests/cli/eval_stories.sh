#!/bin/sh
# Evaluation of the stories model on its own story: every target once, figures that agree with each other, and
# the refusals.
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

"$ember" import "$model" -o s.h5 >/dev/null 2>err || fail "import"
"$ember" data prepare "$model/stories_greedy.txt" --tokenizer "$model/tokenizer.json" -o story.h5 >/dev/null 2>err || fail "data prepare"

"$ember" eval s.h5 story.h5 --json --threads 2 >first.json 2>err || fail "eval --json"
"$ember" eval s.h5 story.h5 --json --batch 1 --threads 1 >second.json 2>err || fail "eval --batch 1"
"$ember" eval s.h5 story.h5 --threads 1 --json --sequence-length 64 >short.json 2>err || fail "eval --sequence-length"
"$ember" eval s.h5 story.h5 --threads 1 --json --sequence-length 64 --sequences 2 >part.json 2>err || fail "eval --sequences"
"$ember" eval s.h5 story.h5 >table 2>err || fail "eval"
grep -q "bits per byte" table || fail "the table has no bits per byte"
[ "$(grep -c '^ *[0-9]' table)" -eq 5 ] || fail "the table has not one line a layer"

python3 - "$(wc -c <"$model/stories_greedy.txt")" <<'P' || fail "the figures"
import json, math, sys
def refuse(word):
    raise ValueError(word)
a, b, short, part = [json.load(open(name), parse_constant=refuse) for name in ("first.json", "second.json", "short.json", "part.json")]
n_bytes = int(sys.argv[1])
assert abs(a["loss"] - b["loss"]) < 1e-6 * a["loss"], (a["loss"], b["loss"])
assert 0.2 < a["loss"] < 1.0, a["loss"]   # its own greedy text is easy for it
assert abs(a["perplexity"] - math.exp(a["loss"])) < 1e-6 * a["perplexity"]
tokens = a["n_targets"] + 1
assert abs(a["bits_per_byte"] - a["loss"] / math.log(2) * tokens / n_bytes) < 1e-6
assert a["n_targets"] == short["n_targets"] == a["n_inputs"], "every target once, whatever the sequence length"
assert short["loss"] > a["loss"], "less context, more loss"
assert part["n_targets"] == 128
for layer in a["layers"]:
    assert layer["neurons"] == 172 and layer["l0"] == 172 and layer["nonzero_percent"] == 100, layer   # silu
assert len(a["layers"]) == 5
P

printf 'Some other text, as bytes.' >other.txt
"$ember" data prepare other.txt --tokenizer bytes -o other.h5 >/dev/null 2>err || fail "data prepare bytes"
"$ember" eval s.h5 other.h5 >out 2>err
[ $? -eq 2 ] || fail "another tokenizer is not refused"
grep -q "tokenizer" err || fail "the refusal does not name the tokenizer"
[ -s out ] && fail "figures in spite of the refusal"
"$ember" eval s.h5 other.h5 --force --json >out 2>err || fail "--force"
for options in "--batch 0" "--sequences -1" "--sequence-length -1" "--sequence-length 513" "--threads 2000"; do
    "$ember" eval s.h5 story.h5 $options >out 2>err
    [ $? -eq 2 ] || fail "$options is not refused"
done
"$ember" eval s.h5 >out 2>err
[ $? -eq 2 ] || fail "no shard is not refused"
"$ember" eval s.h5 no_such.h5 >out 2>err
[ $? -eq 1 ] || fail "a missing shard does not end with 1"
exit 0
