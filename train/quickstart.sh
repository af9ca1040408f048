#!/bin/sh
# Usage: sh train/quickstart.sh
# From a bare Debian 12 machine to a sparse model that speaks, in at most six minutes on two cores: installs, builds,
# prepares a corpus, trains configs/quickstart.yaml, shows how many neurons fire, generates, and trains the same model
# without the L1 term beside it. Everything it makes is in build/release and runs/quickstart.
set -eu
cd "$(dirname "$0")/.."

run=runs/quickstart
ember=build/release/ember
started=$(date +%s)

say() { printf '\n== %s\n' "$*"; }

say 'packages'
sh tests/setup.sh build

say 'build'
mkdir -p build "$run"
if ! { cmake --preset release -DEMBER_TESTS=OFF && cmake --build build/release --parallel --target ember; } > "$run/build.log" 2>&1; then
    tail -n 40 "$run/build.log" >&2
    echo "quickstart: the build failed; the whole log is $run/build.log" >&2
    exit 1
fi
"$ember" info

say 'corpus'
sh data/sample_corpus.sh "$run/text"
"$ember" data prepare "$run"/text/* --tokenizer bytes -o "$run/train.h5" --valid "$run/valid.h5"
"$ember" data info "$run/train.h5"

# train_and_measure FOLDER SETTINGS...: a fresh run; sets bits, percent and seconds from its validation shard.
train_and_measure() {
    folder=$1
    shift
    rm -rf "$folder"
    before=$(date +%s)
    "$ember" train configs/quickstart.yaml --set "run.output=$folder" "$@"
    seconds=$(($(date +%s) - before))
    "$ember" eval "$folder" "$run/valid.h5" --json > "$folder/eval.json"
    bits=$(sed -n 's/.*"bits_per_byte": *\([0-9.eE+-]*\).*/\1/p' "$folder/eval.json")
    percent=$(sed -n 's/.*"nonzero_percent": *\([0-9.eE+-]*\).*/\1/p' "$folder/eval.json")
    if [ -z "$bits" ] || [ -z "$percent" ]; then
        echo "quickstart: $folder/eval.json lacks bits_per_byte or nonzero_percent" >&2
        exit 1
    fi
}

say 'train'
train_and_measure "$run/sparse"
sparse_bits=$bits
sparse_percent=$percent
sparse_seconds=$seconds

say 'which neurons fire'
"$ember" stats "$run/sparse"

say 'it speaks'
"$ember" generate "$run/sparse" --prompt 'It was ' -n 200 --temperature 0.7 --seed 1
echo

say 'the twin without the L1 term, same seed and steps'
train_and_measure "$run/twin" --set sparsity.l1=0

say "done in $(($(date +%s) - started)) s; the model is in $run/sparse"
echo "TWIN   bits_per_byte=$bits nonzero_percent=$percent seconds=$seconds (lambda 0)"
echo "RESULT bits_per_byte=$sparse_bits nonzero_percent=$sparse_percent seconds=$sparse_seconds"
