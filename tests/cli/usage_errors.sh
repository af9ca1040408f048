#!/bin/sh
# Every subcommand with wrong words, unknown options, missing files, folders, empty files, a checkpoint where a shard is
# wanted and the reverse: exit code 1 or 2, the word is named, standard output stays empty, nothing is left behind, and
# nothing that was read is changed.
set -u
ember=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/place"
cd "$folder/place" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

# refused CODE PART WORDS...
refused() {
    wanted=$1
    part=$2
    shift 2
    "$ember" "$@" > ../out 2> ../err < /dev/null
    code=$?
    [ "$code" = "$wanted" ] || fail "$*: exit code $code, not $wanted: $(cat ../err)"
    [ ! -s ../out ] || fail "$*: wrote to standard output: $(head -c 100 ../out)"
    grep -qF -- "$part" ../err || fail "$*: \"$(cat ../err)\" does not say \"$part\""
    tail -c 1 ../err | grep -q . && fail "$*: the message does not end its line"
}

i=0
while [ $i -lt 60 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > ../out 2> ../err || fail "prepare: $(cat ../err)"
cat > good.yaml <<'END'
run: {threads: 1, output: run}
model: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 2, batch_size: 2, sequence_length: 8}
ffn: {mode: dense}
END
"$ember" train good.yaml > ../out 2> ../err || fail "train: $(cat ../err)"
mv run/step_2.h5 model.h5
rm -r run
: > empty
mkdir folder
find . | sort > ../before
cksum text shard.h5 good.yaml model.h5 > ../sums

commands="train generate eval stats import inspect plan info bench data help"
for command in $commands; do
    refused 2 bogus "$command" --bogus
    refused 2 '-z' "$command" -z
    if [ "$command" != eval ]; then refused 2 '' "$command" word too many words; fi
done
refused 1 word eval word too many words
for command in train generate eval stats import inspect plan bench data; do
    refused 2 '' "$command"
    refused 2 '' "$command" ''
done
refused 2 'no command'
refused 2 'trian' trian good.yaml
refused 2 '' ''
refused 2 'prepare' data folder
refused 2 'folder' bench folder
refused 2 'word' info word

# Files that are missing, folders, empty, of another kind.
for command in train plan 'bench step'; do
    refused 1 absent $command absent
    refused 1 folder $command folder
    refused 2 empty $command empty
    refused 2 model.h5 $command model.h5
    refused 2 text $command text
done
for command in generate stats inspect; do
    refused 1 absent $command absent
    refused 1 folder $command folder
    refused 1 empty $command empty
    refused 1 text $command text
    refused 1 /dev/null $command /dev/null
done
for command in generate stats; do
    refused 1 'shard.h5: its format is "ember-tokens"' $command shard.h5
done
for file in absent folder empty text; do
    refused 1 $file eval model.h5 $file
    refused 1 $file eval $file shard.h5
    refused 1 $file data info $file
    refused 1 $file train good.yaml --set data.train=$file
    refused 1 $file train good.yaml --set data.valid=$file
    refused 1 $file train good.yaml --set init.from=$file
    refused 1 $file train good.yaml --resume $file
    refused 1 $file import $file -o new.h5
done
for file in absent folder; do
    refused 1 $file data prepare $file --tokenizer bytes -o new.h5
    refused 1 $file generate model.h5 --prompt-file $file
done
refused 1 'model.h5: its format is "ember-checkpoint"' eval model.h5 model.h5
refused 1 'shard.h5: its format is "ember-tokens"' eval shard.h5 model.h5
refused 1 'model.h5: its format is "ember-checkpoint"' train good.yaml --set data.train=model.h5
refused 1 'shard.h5: its format is "ember-tokens"' train good.yaml --set init.from=shard.h5
refused 1 'shard.h5: its format is "ember-tokens"' train good.yaml --resume shard.h5
refused 1 'model.h5' data info model.h5
refused 1 'good.yaml' data prepare text --tokenizer good.yaml -o new.h5
refused 1 'absent' data prepare text --tokenizer absent -o new.h5

# Outputs: missing, in the way, over what is read.
refused 2 '-o' data prepare text --tokenizer bytes
refused 2 '--tokenizer' data prepare text -o new.h5
refused 2 '-o' import folder
refused 2 'text' data prepare text --tokenizer bytes -o text
refused 1 'shard.h5' data prepare text --tokenizer bytes -o shard.h5
refused 1 'absent/new.h5' data prepare text --tokenizer bytes -o absent/new.h5
refused 2 'model.h5 is the checkpoint that is read' stats model.h5 --json model.h5
refused 2 'model.h5 is the checkpoint that is read' stats model.h5 --neurons ./model.h5
refused 2 'given for two outputs' stats model.h5 --json - --csv -
refused 2 'given for two outputs' stats model.h5 --history new --csv new
refused 1 'absent/' stats model.h5 --json absent/new
refused 1 'good.yaml: exists and is not a folder' train good.yaml --set run.output=good.yaml

# Values.
refused 2 '--set' train good.yaml --set
refused 2 'section.key=value' train good.yaml --set =
refused 2 'section.key=value' train good.yaml --set =5
refused 2 'section' train good.yaml --set run=5
refused 2 'run.seed.x' train good.yaml --set run.seed.x=5
refused 2 'train.steps is a list' train good.yaml --set 'train.steps=[1, 2]'
refused 2 'mapping' train good.yaml --set 'train.steps={a: 1}'
for value in 010 0x10 1e3 1_000 +1 '1 2' nan '' true; do
    refused 2 'train.steps' train good.yaml --set "train.steps=$value"
done
for value in nan inf 1e400 1,5 0x1p3 '1 2' -1; do
    refused 2 'train.lr' train good.yaml --set "train.lr=$value"
done
for value in 1 yes on maybe; do
    refused 2 'data.shuffle' train good.yaml --set "data.shuffle=$value"
done
refused 2 '--allow-change' train good.yaml --allow-change run.seed
refused 2 '--batch' eval model.h5 shard.h5 --batch 1.5
refused 2 'no value' eval model.h5 shard.h5 --json=1
refused 2 '-n' generate model.h5 -n

find . | sort > ../after
diff ../before ../after > ../out || fail "left behind: $(cat ../out)"
cksum text shard.h5 good.yaml model.h5 | cmp -s - ../sums || fail "a file that was read has changed"
[ $failed = 0 ] && echo "usage_errors: all passed"
exit $failed
