#!/bin/sh
# The manual page holds every command, option and config key, and roff has no complaint about it.
set -u
ember=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

page="$folder/ember.1"
sh "$SOURCE_FOLDER/train/man_page.sh" "$ember" > "$page" || fail "man_page.sh: exit code $?"
# Hyphens are written as \- there.
sed 's/\\-/-/g' "$page" > "$folder/plain"

"$ember" help > "$folder/list" || fail "help: exit code $?"
for command in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' "$folder/list") 'data prepare' 'data info' 'bench ffn' 'bench step' 'bench ops'; do
    grep -qx "\.SS ember $command" "$folder/plain" || fail "no section of $command"
    sed -n "/^\.SS ember $command\$/,/^\.S[SH] /p" "$folder/plain" | sed 1d > "$folder/section"
    "$ember" $command --help > "$folder/help" || fail "$command --help: exit code $?"
    sed -n 's/^  \(-[^ ]*\).*/\1/p' "$folder/help" > "$folder/options"
    while read -r option; do
        grep -qE -- "^\.B $option( |\$)" "$folder/section" || fail "$option of $command is missing"
    done < "$folder/options"
done
"$ember" help config > "$folder/config" || fail "help config: exit code $?"
grep -E '^[a-z0-9_]+\.[a-z0-9_]+$' "$folder/config" > "$folder/keys"
[ "$(wc -l < "$folder/keys")" -ge 50 ] || fail "help config lists $(wc -l < "$folder/keys") keys"
while read -r key; do
    grep -qxF ".B $key" "$folder/plain" || fail "the config key $key is missing"
done < "$folder/keys"
grep -q '0 done, 1 failed' "$folder/plain" || fail "no exit status"

printf '.TH A 1\n.SH NAME\na\n' > "$folder/smallest.1"
if command -v man > /dev/null && man -l "$folder/smallest.1" 2> /dev/null | grep -q NAME; then
    MANWIDTH=80 man -l --warnings "$page" > "$folder/shown" 2> "$folder/complaints" || fail "man: exit code $?"
    [ ! -s "$folder/complaints" ] || fail "man complains: $(head -n 5 "$folder/complaints")"
    grep -q 'train.sequence_length' "$folder/shown" || fail "man does not show train.sequence_length"
else
    echo "not tried: man -l is not here"
fi

# A program that fails makes no page.
printf '#!/bin/sh\nexit 3\n' > "$folder/broken"
chmod +x "$folder/broken"
if sh "$SOURCE_FOLDER/train/man_page.sh" "$folder/broken" > "$folder/out" 2> /dev/null; then fail "a page of a program that fails"; fi
exit "$failed"
