#!/bin/sh
# data prepare and data info: round trips, odd inputs, refusals, and nothing left behind.
set -eu
ember=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $1"
    exit 1
}
# expect RC PART COMMAND...: exit code and a part of stderr.
expect() {
    wanted=$1
    part=$2
    shift 2
    rc=0
    "$@" >out.txt 2>err.txt || rc=$?
    [ "$rc" -eq "$wanted" ] || { cat out.txt err.txt; fail "exit code $rc, not $wanted: $*"; }
    grep -qF -- "$part" err.txt || { cat err.txt; fail "stderr lacks \"$part\": $*"; }
}
field() { sed "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/"; }

# A file with everything that is not text; three documents.
printf 'one\r\n\r\nt\377\000wo\n\n\nthree <|endoftext|> 3' >odd.txt
"$ember" data prepare odd.txt --tokenizer bytes -o odd.h5 --document blank-line >out.txt 2>err.txt
grep -q 'odd.h5: 39 tokens, 3 documents, 36 bytes of text' out.txt || { cat out.txt; fail "counts of odd.txt"; }
[ ! -s err.txt ] || fail "stderr is not empty"
"$ember" data info odd.h5 >out.txt
grep -q 'one at the end of each document' out.txt || fail "separators agree"
grep -q 'every dataset has the hash of the manifest' out.txt || fail "verified"
"$ember" data info odd.h5 --json >info.json
[ "$(field tokens <info.json)" = 39 ] || fail "tokens in JSON"
[ "$(field separators <info.json)" = 3 ] || fail "the text <|endoftext|> made a separator"
[ "$(field separators_agree <info.json)" = true ] || fail "separators_agree in JSON"
[ "$(field median_document <info.json)" = 9 ] || { cat info.json; fail "median document"; }

# An output that exists, and --force.
expect 1 "--force" "$ember" data prepare odd.txt --tokenizer bytes -o odd.h5
"$ember" data prepare odd.txt --tokenizer bytes -o odd.h5 --force >/dev/null
[ "$("$ember" data info odd.h5 --json | field documents)" = 1 ] || fail "--force did not replace"

# Usage.
expect 2 "--tokenizer" "$ember" data prepare odd.txt -o x.h5
expect 2 "-o SHARD" "$ember" data prepare odd.txt --tokenizer bytes
expect 2 "usage" "$ember" data prepare --tokenizer bytes -o x.h5
expect 2 "paragraph" "$ember" data prepare odd.txt --tokenizer bytes -o x.h5 --document paragraph
expect 2 "contradict" "$ember" data prepare odd.txt --tokenizer bytes -o x.h5 --no-eos --eos x
expect 2 "both training and validation" "$ember" data prepare odd.txt --tokenizer bytes -o x.h5 --valid ./x.h5
expect 2 "both training and validation" "$ember" data prepare odd.txt --tokenizer bytes -o "$work/x.h5" --valid x.h5
expect 2 "both a text to read and the output" "$ember" data prepare odd.txt --tokenizer bytes -o ./odd.txt --force
printf '{"format":"ember-tokenizer","type":"bytes"}' >tokenizer.json
expect 2 "both the tokenizer and the output" "$ember" data prepare odd.txt --tokenizer . -o tokenizer.json --force
expect 2 "both the tokenizer and the output" "$ember" data prepare odd.txt --tokenizer tokenizer.json -o x.h5 --valid ./tokenizer.json --force
expect 2 "1.5" "$ember" data prepare odd.txt --tokenizer bytes -o x.h5 --seed 1.5
expect 2 "frobnicate" "$ember" data frobnicate
expect 2 "prepare or info" "$ember" data

# Refusals.
: >empty.txt
expect 1 "no text" "$ember" data prepare empty.txt --tokenizer bytes -o x.h5
expect 1 "missing.txt" "$ember" data prepare odd.txt missing.txt --tokenizer bytes -o x.h5
expect 1 "folder" "$ember" data prepare . --tokenizer bytes -o x.h5
expect 1 "no/such" "$ember" data prepare odd.txt --tokenizer bytes -o no/such/x.h5
expect 1 "256 embedding rows" "$ember" data prepare odd.txt --tokenizer bytes -o x.h5 --vocab-size 256
expect 1 "not in the vocabulary" "$ember" data prepare odd.txt --tokenizer bytes -o x.h5 --eos '<none>'
head -c 20000 /dev/zero >zeros.txt
expect 1 "100.00 %" "$ember" data prepare zeros.txt --tokenizer bytes -o x.h5
expect 1 "line 2" sh -c "printf '{\"text\":\"a\"}\n{\"txt\":\"b\"}\n' | '$ember' data prepare - --tokenizer bytes -o x.h5 --document jsonl"
expect 1 "odd.txt" "$ember" data info odd.txt
expect 1 "missing.h5" "$ember" data info missing.h5
[ ! -e x.h5 ] || fail "a refusal left its output"
[ -z "$(find . -name '*.tmp*')" ] || fail "temporary files are left"
"$ember" data prepare zeros.txt --tokenizer bytes -o zeros.h5 --force >/dev/null
[ "$("$ember" data info zeros.h5 --json | field source_bytes)" = 20000 ] || fail "NUL bytes were lost"

# Paths are bytes.
name=$(printf 'a \342\202\254 "q" \377\n[x].txt')
cp odd.txt "$name"
"$ember" data prepare "$name" --tokenizer bytes -o "$name.h5" >/dev/null
"$ember" data info "$name.h5" --json >info.json
[ "$(field tokens <info.json)" = 37 ] || fail "odd path"
if command -v python3 >/dev/null; then
    python3 -c 'import json,sys; json.load(sys.stdin, parse_constant=lambda c: 1/0)' <info.json || fail "JSON is not JSON"
fi

# The shard does not depend on threads, nor on how the text arrives; the held-out part is that of the seed.
i=0
while [ $i -lt 3000 ]; do
    echo "This is line $i of a text, and it says $((i * 7919 % 1000))."
    [ $((i % 50)) -ne 49 ] || echo
    i=$((i + 1))
done >text.txt
"$ember" data prepare text.txt --tokenizer bytes -o t1.h5 --document blocks:1000 --valid v1.h5 --valid-fraction 0.1 --threads 1 >/dev/null
cat text.txt | "$ember" data prepare - --tokenizer bytes -o t4.h5 --document blocks:1000 --valid v4.h5 --valid-fraction 0.1 --threads 4 >/dev/null
"$ember" data prepare text.txt --tokenizer bytes -o t5.h5 --document blocks:1000 --valid v5.h5 --valid-fraction 0.1 --seed 9 >/dev/null
for part in t v; do
    for n in 1 4 5; do
        "$ember" data info $part$n.h5 --json --top 1000 | sed 's/"path":"[^"]*",//' >$part$n.json
    done
    cmp ${part}1.json ${part}4.json || fail "threads change the shard"
    ! cmp -s ${part}1.json ${part}5.json || fail "the seed changes nothing"
done
train=$(field documents <t1.json)
valid=$(field documents <v1.json)
[ "$valid" -ge $(((train + valid) / 10)) ] && [ "$valid" -le $(((train + valid) / 10 + 1)) ] || fail "$valid of $((train + valid)) held out"

# One long line.
head -c 3000000 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >line.txt
"$ember" data prepare line.txt --tokenizer bytes -o line.h5 --document line >/dev/null
[ "$("$ember" data info line.h5 --json | field source_bytes)" = 6000000 ] || fail "a long line lost bytes"

# A limit on file sizes is an error, not a signal.
expect 1 "ulimit -f" sh -c "ulimit -f 2000; exec '$ember' data prepare line.txt --tokenizer bytes -o limited.h5"
[ -z "$(find . -name '*limited*')" ] || fail "a failed write left a file"

# Stopped by a signal: nothing appears, no carriage return in a log, exit code 1.
mkfifo pipe
"$ember" data prepare pipe --tokenizer bytes -o stopped.h5 >out.txt 2>err.txt &
child=$!
{ cat text.txt; sleep 1; kill -INT $child; sleep 5; } >pipe 2>/dev/null &
feeder=$!
rc=0
wait $child || rc=$?
[ $rc -eq 1 ] || { cat err.txt; fail "exit code $rc after SIGINT"; }
grep -q "no shard was written" err.txt || fail "the message after SIGINT"
kill $feeder 2>/dev/null || true
[ ! -e stopped.h5 ] || fail "SIGINT left a shard"
[ -z "$(find . -name '.*stopped*')" ] || fail "SIGINT left a temporary file"
! grep -q "$(printf '\r')" err.txt || fail "a carriage return in a log"
! grep -q "$(printf '\033')" err.txt || fail "an escape in a log"

# Killed: nothing under the name either, and the next run works.
"$ember" data prepare pipe --tokenizer bytes -o killed.h5 >out.txt 2>err.txt &
child=$!
{ cat text.txt; sleep 1; kill -KILL $child; } >pipe 2>/dev/null &
wait $child 2>/dev/null || true
[ ! -e killed.h5 ] || fail "a killed run left a shard"
"$ember" data prepare text.txt --tokenizer bytes -o killed.h5 >/dev/null || fail "the run after a killed one"
echo "ok"
