#!/bin/sh
# A checkpoint of mode 0444 in a folder of mode 0555, for a user who owns neither. Root may write everywhere, so another
# user is needed, and only root can be one.
set -u
ember=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo "skipped: only root can run as another user" && exit 77; }
command -v setpriv > /dev/null || { echo "skipped: setpriv is missing" && exit 77; }
nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}
# The build may lie where others have no way in.
cp "$ember" ember && chmod 0755 . ember || exit 1
$nobody ./ember --version > out 2> err || { echo "skipped: another user cannot run programs here: $(cat err)" && exit 77; }

i=0
while [ $i -lt 60 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
./ember data prepare text --tokenizer bytes -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
cat > run.yaml <<'END'
run: {threads: 1, output: run}
model: {hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 2, batch_size: 2, sequence_length: 16}
ffn: {mode: dense}
END
./ember train run.yaml > out 2> err || fail "train: $(cat err)"
mkdir closed && mv run/step_2.h5 shard.h5 closed && chmod 0444 closed/* && chmod 0555 closed
model=closed/step_2.h5
if $nobody sh -c "echo >> $model" 2> /dev/null || $nobody touch closed/new 2> /dev/null; then fail "the folder is open to others"; fi

./ember eval $model closed/shard.h5 --json > wanted 2> err || fail "eval: $(cat err)"
$nobody ./ember inspect $model > out 2> err || fail "inspect: $(cat err)"
grep -q ' 0 damaged' out || fail "inspect: $(cat out)"
$nobody ./ember eval $model closed/shard.h5 --json > given 2> err || fail "eval: $(cat err)"
cmp -s wanted given || fail "eval: other figures"
./ember generate $model --prompt line -n 5 --temperature 0 > wanted 2> err || fail "generate: $(cat err)"
$nobody ./ember generate $model --prompt line -n 5 --temperature 0 > given 2> err || fail "generate: $(cat err)"
[ -s given ] && cmp -s wanted given || fail "generate: another text"
[ "$(ls closed | wc -l)" = 2 ] || fail "files were left: $(ls closed)"

[ $failed = 0 ] && echo "checkpoint_readonly: all passed"
exit $failed
