#!/bin/sh
# The sample corpus script: makes text, finds it again, and touches no folder of somebody else.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
script=$SOURCE_FOLDER/data/sample_corpus.sh
fail() {
    echo "FAILED: $1"
    exit 1
}
cd "$work"
# Without the tools of the first way, the second one is taken (or a message says that there is no text).
mkdir tools
for tool in sh dirname mktemp rm mkdir find sort cat awk head cksum cmp cp wc ls; do
    ln -s "$(command -v $tool)" tools/$tool
done
if PATH=$work/tools sh "$script" local >out.txt 2>err.txt; then
    [ "$(cat local/*.txt | wc -c)" -gt 10000 ] || fail "hardly any text"
    PATH=$work/tools sh "$script" local >again.txt
    grep -q "already there" again.txt || fail "the second run"
    first=$(ls local/*.txt | head -n 1)
    rm "$first"
    PATH=$work/tools sh "$script" local >again.txt 2>/dev/null
    [ -s "$first" ] || fail "an incomplete folder was taken for a complete one"
else
    grep -q "no English text" err.txt || fail "no message"
fi
mkdir mine
echo precious >mine/notes.txt
! sh "$script" mine >/dev/null 2>err.txt || fail "took over a folder"
[ "$(cat mine/notes.txt)" = precious ] || fail "touched a file"
! sh "$script" >/dev/null 2>&1 || fail "no argument"
echo "ok"
