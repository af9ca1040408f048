#!/bin/sh
# A model trained here on bytes, so that nothing from outside is needed: every option of generate and eval does what it says,
# at its edges too.
set -u
. "$(dirname "$0")/cli_scratch.sh"

i=0
while [ $i -lt 200 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
head -c 900 text > held
"$ember" data prepare text --tokenizer bytes --document line -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
"$ember" data prepare held --tokenizer bytes --document line -o held.h5 > out 2> err || fail "prepare: $(cat err)"
cat > run.yaml <<'END'
run: {threads: 1, output: run}
model: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 40, batch_size: 4, sequence_length: 32, lr: 0.01}
ffn: {mode: dense}
END
"$ember" train run.yaml > out 2> err || fail "train: $(cat err)"
model=run/step_40.h5

# gives FILE OPTIONS...: exit code 0, the text in FILE, the ids in err
gives() {
    to=$1
    shift
    "$ember" generate $model --threads 1 --ids "$@" > "$to" 2> err || fail "generate $*: $(cat err)"
    sed -n 's/^new_ids: *//p' err | tr ' ' '\n' | awk 'NF && !($1 >= 0 && $1 < 257) { exit 1 }' || fail "generate $*: an id out of range: $(cat err)"
}
same() { cmp -s "$1" "$2" || fail "$3"; }
differs() { if cmp -s "$1" "$2"; then fail "$3"; fi; }
new_ids() { sed -n 's/^new_ids: *//p' err | wc -w; }
prompt_ids() { sed -n 's/^prompt_ids: *//p' err | wc -w; }

gives greedy --prompt line -n 12 --temperature 0
gives again --prompt line -n 12 --temperature 0 --seed 5 --top-k 3 --top-p 0.4
same greedy again "temperature 0 is not greedy whatever the rest"
gives again --prompt line -n 12 --temperature 1e-30
same greedy again "temperature 1e-30 is not greedy"
for options in "--top-k 1" "--top-p 0" "--top-p 1e-9"; do
    gives again --prompt line -n 12 --temperature 3 $options
    same greedy again "$options is not greedy"
done
gives one --prompt line -n 12 --temperature 1 --top-p 1 --seed 1
for options in "--top-k 0" "--top-k 257" "--top-k 258" "--top-p 1 --top-k 1000000"; do
    gives again --prompt line -n 12 --temperature 1 --top-p 1 --seed 1 $options
    same one again "$options is not off"
done
gives again --prompt line -n 12 --temperature 1e30 --seed 1
differs one again "temperature 1e30 is temperature 1"
gives again --prompt line -n 12 --temperature 1 --top-k 2 --top-p 1 --seed 1
differs one again "--top-k 2 does nothing"
gives again --prompt line -n 12 --temperature 1 --top-p 0.3 --seed 1
differs one again "--top-p 0.3 does nothing"
n=0
for seed in 0 1 2 4294967297 1099511627777 18446744073709551615; do
    gives seed_$n --prompt line -n 16 --temperature 1 --top-p 1 --seed $seed
    gives again --prompt line -n 16 --temperature 1 --top-p 1 --seed $seed
    same seed_$n again "seed $seed gives two texts"
    other=0
    while [ $other -lt $n ]; do
        differs seed_$n seed_$other "seed $seed and another give one text"
        other=$((other + 1))
    done
    n=$((n + 1))
done
for mode in dense twell auto; do
    gives again --prompt "line 7 of" -n 12 --temperature 0 --ffn $mode
    [ $mode = dense ] && cp again dense
    same dense again "--ffn $mode tells another story"
done
printf 'line' > prompt
gives again --prompt-file prompt -n 12 --temperature 0
same greedy again "--prompt-file differs from --prompt"

# The context is 32 tokens, prompt and new ones together.
tokens() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "a" }'; }
gives out -n 0 --prompt abc
[ ! -s out ] || fail "-n 0 printed text"
gives out -n 1000 --prompt abc --ignore-eos
[ $(($(prompt_ids) + $(new_ids))) = 32 ] || fail "-n beyond the context: $(cat err)"
gives out -n 5 --prompt "$(tokens 31)" --ignore-eos
[ "$(new_ids)" = 1 ] || fail "C - 1 tokens leave room for one: $(cat err)"
gives out -n 5 --prompt "$(tokens 32)"
[ ! -s out ] && grep -q 'context of 32 tokens is full' err || fail "C tokens leave no room: $(cat err)"
"$ember" generate $model --prompt "$(tokens 33)" > out 2> err
[ $? = 2 ] && grep -q '33 tokens' err || fail "C + 1 tokens: $(cat err)"
gives out -n 3 --prompt '' --ignore-eos
[ "$(prompt_ids)" = 1 ] && [ "$(new_ids)" = 3 ] || fail "the empty prompt: $(cat err)"

refused() {
    "$ember" generate $model --prompt a "$@" > out 2> err
    code=$?
    [ $code = 2 ] || fail "generate $*: exit code $code: $(cat err)"
    [ ! -s out ] || fail "generate $*: text in spite of the refusal"
    grep -qF -- "${1#--}" err || [ "$1" = -n ] || fail "generate $*: \"$(cat err)\" does not name it"
}
for value in -1 nan inf -inf '' x 1,5; do refused --temperature "$value"; done
for value in -1 1.5 x ''; do refused --top-k "$value"; done
for value in -0.1 1.1 nan ''; do refused --top-p "$value"; done
for value in -1 18446744073709551616 1.5 ''; do refused --seed "$value"; done
for value in -1 1.5 99999999999999999999; do refused -n "$value"; done
for value in -1 5000; do refused --threads "$value"; done

# eval FILE OPTIONS...
evaluates() {
    to=$1
    shift
    "$ember" eval $model "$@" --json --threads 1 > "$to" 2> err || fail "eval $*: $(cat err)"
    grep -q '"loss": [0-9]' "$to" || fail "eval $*: $(cat "$to")"
}
value() { sed -n "s/.*\"$2\": \\([-0-9.e+]*\\)[,}].*/\\1/p" "$1" | head -1; }
close_to() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b < 1e-5 && b - a < 1e-5) }'; }
evaluates all held.h5
for options in "--batch 1" "--batch 3" "--ffn dense" "--ffn twell"; do
    evaluates again held.h5 $options
    close_to "$(value all loss)" "$(value again loss)" || fail "eval $options: $(value again loss), not $(value all loss)"
    [ "$(value all n_targets)" = "$(value again n_targets)" ] || fail "eval $options: other targets"
done
evaluates again held.h5 --sequences 2
[ "$(value again n_targets)" = 64 ] || fail "--sequences 2 of 32 tokens: $(value again n_targets) targets"
evaluates again held.h5 --sequence-length 16
[ "$(value again n_targets)" = "$(value all n_targets)" ] || fail "--sequence-length changes the targets"
differs all again "--sequence-length does nothing"
evaluates again held.h5 --mask-documents
[ "$(value again n_targets)" -lt "$(value all n_targets)" ] || fail "--mask-documents: the last token of a document still predicts the next one"
evaluates again held.h5 held.h5
[ "$(value again n_targets)" = $((2 * $(value all n_targets))) ] || fail "two shards: $(value again n_targets) targets"
close_to "$(value all loss)" "$(value again loss)" || fail "a shard twice has another loss"
# The average is over tokens and not over shards.
evaluates long shard.h5
evaluates both shard.h5 held.h5
close_to "$(awk -v a="$(value long loss)" -v n="$(value long n_targets)" -v b="$(value all loss)" -v m="$(value all n_targets)" 'BEGIN { printf "%.9g", (a * n + b * m) / (n + m) }')" "$(value both loss)" ||
    fail "an average of averages: $(value both loss)"

[ $failed = 0 ] && echo "eval_generate_options: all passed"
exit $failed
