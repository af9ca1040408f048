#!/bin/sh
# The stories model, imported, tells its story: the reference's text and ids, where generation starts and ends,
# and every edge of the sampler's options.
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
# expect CODE WORDS...: runs generate on the stories model on one thread, stdout to out, stderr to err
expect() {
    wanted=$1
    shift
    "$ember" generate s.h5 --threads 1 "$@" >out 2>err
    code=$?
    [ $code -eq "$wanted" ] || fail "generate $* ended with $code, not $wanted"
}

"$ember" import "$model" -o s.h5 >/dev/null 2>err || fail "import"

# text and ids of the reference, begin-of-text included
expect 0 --prompt "" --temperature 0 -n 256 --ids
cmp out "$model/stories_greedy.txt" || fail "the greedy text is not the reference's"
tr -d '[] \n' <"$model/stories_greedy_ids.json" | tr ',' '\n' >wanted_ids
{ sed -n 's/^prompt_ids: //p' err; sed -n 's/^new_ids: //p' err; } | tr ' ' '\n' >ids
echo >>wanted_ids
grep -v '^$' wanted_ids >a
grep -v '^$' ids >b
cmp a b || fail "the greedy ids are not the reference's"
cp out greedy

# no prompt is the empty prompt; a file is a prompt; the default mode of the FFN does not matter
expect 0 --temperature 0 -n 256
cmp out greedy || fail "no --prompt is not the empty prompt"
printf 'Once upon a time' >prompt
expect 0 --prompt-file prompt --temperature 0 -n 20
cp out from_file
expect 0 --prompt "Once upon a time" --temperature 0 -n 20
cmp out from_file || fail "--prompt-file differs from --prompt"
{ printf 'Once upon a time'; cat out; } >whole
head -c "$(wc -c <whole)" greedy >start
cmp whole start || fail "a prompt from the story does not continue the story (the leading blank?)"

# greedy by other names
for options in "--temperature 1e-30" "--temperature 1 --top-k 1" "--temperature 5 --top-p 0" "--temperature 5 --top-p 1e-9" \
    "--temperature 0 --top-k 7 --top-p 0.5 --seed 9"; do
    expect 0 --prompt "" -n 256 $options
    cmp out greedy || fail "$options is not greedy"
done

# off by several names; the seed matters at temperature exactly 1
expect 0 --prompt "" -n 60 --temperature 1 --top-p 1 --seed 1
cp out seed_1
for options in "--top-k 0" "--top-k 512" "--top-k 513"; do
    expect 0 --prompt "" -n 60 --temperature 1 --top-p 1 --seed 1 $options
    cmp out seed_1 || fail "$options is not off"
done
for seed in 0 2 4294967297 1099511627777 18446744073709551615; do
    expect 0 --prompt "" -n 60 --temperature 1 --top-p 1 --seed $seed
    cmp -s out seed_1 && fail "seeds 1 and $seed give the same text"
    cp out again
    expect 0 --prompt "" -n 60 --temperature 1 --top-p 1 --seed $seed --threads 2
    cmp out again || fail "seed $seed gives two texts"
done
expect 0 --prompt "" -n 60 --temperature 1e30 --ids
sed -n 's/^new_ids: //p' err | tr ' ' '\n' | awk '$1 >= 512 { bad = 1 } END { exit bad }' || fail "an id of 512 or more"

# refused, with the option's name, and nothing on stdout
for options in "--temperature -1" "--temperature nan" "--temperature inf" "--top-k -1" "--top-p 1.1" "--top-p nan" "--top-p -0.5" "--seed -1" \
    "--seed 18446744073709551616" "--seed 1.5" "--seed=" "-n -1" "-n 1e3" "--prompt a --prompt-file prompt" "--device tpu" "--ffn fast" \
    "--ffn twell" "--threads -1"; do
    wanted=2
    [ "$options" = "--ffn twell" ] && wanted=1 # understood, but silu does not run sparse
    expect $wanted --prompt "" $options
    [ -s out ] && fail "$options printed text"
    [ -s err ] || fail "$options said nothing"
done

# the context: 512 tokens, prompt and new ones together
expect 0 --prompt "" -n 0
[ -s out ] && fail "-n 0 printed text"
expect 0 --prompt "" -n 100000 --ignore-eos --ids
[ "$(sed -n 's/^new_ids: //p' err | wc -w)" -eq 511 ] || fail "-n beyond the context does not end at it"
grep -q "context of 512 tokens is full" err || fail "a full context is not told"
# " a" is one token for this tokenizer, and "a" (with the begin token) two
tokens() { # N: a prompt of N tokens
    awk -v n=$(($1 - 1)) 'BEGIN { for (i = 0; i < n; i++) printf i ? " a" : "a" }'
}
expect 0 --prompt "$(tokens 511)" -n 5 --ids --temperature 0
[ "$(sed -n 's/^prompt_ids: //p' err | wc -w)" -eq 511 ] || fail "the prompt has not 511 tokens"
[ "$(sed -n 's/^new_ids: //p' err | wc -w)" -eq 1 ] || fail "C - 1 tokens leave room for one"
expect 0 --prompt "$(tokens 512)" -n 5
[ -s out ] && fail "a prompt that fills the context continued"
grep -q "context of 512 tokens is full" err || fail "a full context is not told"
expect 2 --prompt "$(tokens 513)" -n 5
grep -q "513 tokens" err || fail "the refusal does not say how long the prompt is"

# the begin token once, also when the prompt spells it
expect 0 --prompt "<s>Once" --temperature 0 -n 5 --ids
[ "$(sed -n 's/^prompt_ids: //p' err)" = "1 403" ] || fail "begin-of-text is not there once: $(grep prompt_ids err)"
grep -q "^note: .*once" err || fail "the double begin-of-text was dropped in silence"
expect 0 --prompt "Once" --temperature 0 -n 5 --ids
[ "$(sed -n 's/^prompt_ids: //p' err)" = "1 403" ] || fail "begin-of-text is missing: $(grep prompt_ids err)"

# text as bytes, through a pipe, whatever a token cuts apart
for seed in 1 2 3; do
    "$ember" generate s.h5 --threads 1 --prompt "" --temperature 5 --top-p 1 -n 300 --seed $seed 2>err | cat >a || fail "through a pipe"
    expect 0 --prompt "" --temperature 5 --top-p 1 -n 300 --seed $seed
    cmp out a || fail "seed $seed: a pipe and a file differ"
done

# a closed pipe is an error, not a death by signal
{ "$ember" generate s.h5 --threads 1 --prompt "" --ignore-eos -n 511 2>err; echo $? >code; } | head -c 1 >/dev/null
[ "$(cat code)" -le 1 ] || fail "a closed pipe ended with $(cat code)"

"$ember" generate no_such.h5 --prompt a >out 2>err
[ $? -eq 1 ] || fail "a missing file does not end with 1"
grep -q "no_such.h5" err || fail "the missing file is not named"
"$ember" generate --help >out 2>err || fail "--help"
grep -q -- "--temperature" out || fail "--help does not list the options"
exit 0
