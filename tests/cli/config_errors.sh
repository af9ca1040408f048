#!/bin/sh
# `ember train --dry-run`: what a bad config gives, and what a good one prints. Nothing is written either way.
set -u
. "$(dirname "$0")/cli_scratch.sh"

cat > good.yaml <<'END'
model: {vocab_size: 64, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: synthetic}
train:
  steps: 4
  batch_size: 2
  sequence_length: 8
END

# refused PART ARGUMENTS...: exit code 2, the message holds PART, nothing on standard output.
refused() {
    part=$1
    shift
    "$ember" train "$@" --dry-run > out 2> err
    code=$?
    [ "$code" = 2 ] || fail "$*: exit code $code, not 2: $(cat err)"
    grep -qF -- "$part" err || fail "$*: \"$(cat err)\" does not say \"$part\""
    [ ! -s out ] || fail "$*: wrote to standard output"
}

printf 'model:\n  hidden_size: 16\n  hiden_size: 16\n' > bad.yaml
refused 'bad.yaml:3: unknown key model.hiden_size; the nearest known one is model.hidden_size' bad.yaml
printf 'train:\n  lr: 0,5\n' > bad.yaml
refused 'bad.yaml:2: train.lr is 0,5' bad.yaml
printf 'train:\n  lr: 0.5\n  lr: 0.5\n' > bad.yaml
refused 'bad.yaml:3: train.lr is given twice, first in line 2' bad.yaml
printf 'train: {lr: 0.5\n' > bad.yaml
refused 'bad.yaml:' bad.yaml
printf 'run: {name: \377}\n' > bad.yaml
refused 'UTF-8' bad.yaml
head -c 1100000 /dev/zero > bad.yaml
refused 'bad.yaml' bad.yaml

refused 'train.lr' good.yaml --set train.lr=fast
refused 'train.batch_size' good.yaml --set train.batchsize=4
refused 'section.key=value' good.yaml --set train.lr
for seed in -1 18446744073709551616 1.5 ''; do
    refused 'run.seed' good.yaml --set "run.seed=$seed"
done

"$ember" train absent.yaml --dry-run > out 2> err
[ $? = 1 ] || fail "an absent file: exit code is not 1"
grep -q 'absent.yaml' err || fail "an absent file is not named"

"$ember" train good.yaml --set train.lr=0.25 --set run.seed=18446744073709551615 --dry-run > out 2> err || fail "dry run: $(cat err)"
grep -q '^train.steps .* 4 .*good.yaml:4.*read by' out || fail "dry run does not show train.steps and its line"
grep -q '^train.lr .* 0.25 .*--set' out || fail "dry run does not show train.lr and its origin"
grep -q '^run.seed .* 18446744073709551615 ' out || fail "dry run does not show the seed"
grep -q '^train.clip .* default' out || fail "dry run does not show a default"

# Paths are bytes: blanks, quotes, a newline, letters beyond ASCII.
odd="a b'c\"d
e"$(printf '\303\244').yaml
cp good.yaml "$odd"
"$ember" train "$odd" --dry-run > out 2> err || fail "an odd path: $(cat err)"

rm -f out err bad.yaml good.yaml "$odd"
[ -z "$(ls -A)" ] || fail "something was left behind: $(ls -A)"
exit "$failed"
