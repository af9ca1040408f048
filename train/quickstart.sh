#!/bin/sh
# Usage: sh train/quickstart.sh
# From a bare Debian 12 machine to a sparse model that speaks, in at most six minutes on two cores: installs, builds,
# prepares a corpus, trains configs/quickstart.yaml, shows how many neurons fire, generates, and trains the same model
# without the L1 term beside it. Everything it makes is in build/release and runs/quickstart.
set -eu
cd "$(dirname "$0")/.."

# Threads that wait for each other spin for tens of microseconds, not longer: on a machine that others keep busy, a
# spinning thread holds the core that the other one needs (60 steps there: 24 s with the default, 9 s with this).
export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-100000}"

run=runs/quickstart
ember=build/release/ember
started=$(date +%s)

round() { LC_ALL=C awk -v digits="$1" -v value="$2" 'BEGIN { printf "%.*f", digits, value }'; }
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
# Documents of about 16 KB, so that the held-out share comes from all over the text; smaller ones where the novels
# could not be had and the text is short.
block=16384
if [ "$(cat "$run"/text/* | wc -c)" -lt 1000000 ]; then block=4096; fi
"$ember" data prepare "$run"/text/* --tokenizer bytes -o "$run/train.h5" --valid "$run/valid.h5" \
    --document "blocks:$block" --valid-fraction 0.03 --force
"$ember" data info "$run/train.h5"

# train_and_measure FOLDER SETTINGS...: a fresh run; sets model, and bits, percent and seconds of its validation.
train_and_measure() {
    folder=$1
    shift
    rm -rf "$folder"
    before=$(date +%s)
    "$ember" train configs/quickstart.yaml --set "run.output=$folder" "$@"
    seconds=$(($(date +%s) - before))
    model=$(ls "$folder"/step_*.h5 | tail -n 1)
    "$ember" eval "$model" "$run/valid.h5" --json > "$folder/eval.json"
    # The figures of the whole model stand before those of the layers.
    figures=$(sed 's/"layers".*//' "$folder/eval.json")
    bits=$(printf '%s' "$figures" | sed -n 's/.*"bits_per_byte": *\([0-9.eE+-]*\).*/\1/p')
    percent=$(printf '%s' "$figures" | sed -n 's/.*"nonzero_percent": *\([0-9.eE+-]*\).*/\1/p')
    if [ -z "$bits" ] || [ -z "$percent" ]; then
        echo "quickstart: $folder/eval.json lacks bits_per_byte or nonzero_percent" >&2
        exit 1
    fi
}

say 'train'
train_and_measure "$run/sparse"
sparse=$model
sparse_bits=$bits
sparse_percent=$percent
sparse_seconds=$seconds

say 'which neurons fire'
"$ember" stats "$sparse"

say 'it speaks'
"$ember" generate "$sparse" --prompt 'It was ' -n 120 --temperature 0.7 --seed 1
echo

say 'the twin without the L1 term, same seed and steps'
train_and_measure "$run/twin" --set sparsity.l1=0

total=$(($(date +%s) - started))
say "done; the model is $sparse"
echo "SPARSE bits_per_byte=$(round 3 "$sparse_bits") nonzero_percent=$(round 2 "$sparse_percent") training_seconds=$sparse_seconds"
echo "TWIN   bits_per_byte=$(round 3 "$bits") nonzero_percent=$(round 2 "$percent") training_seconds=$seconds (lambda 0)"
echo "RESULT bits_per_byte=$(round 3 "$sparse_bits") nonzero_percent=$(round 2 "$sparse_percent") seconds=$total"
