#!/bin/sh
# `ember help config` is the schema table, and configs/README.md is what it prints as markdown.
set -u
ember=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

"$ember" help config > "$folder/help" || fail "help config: exit code $?"
for key in run.seed model.hidden_size data.train train.lr sparsity.l1 ffn.mode log.every; do
    grep -q "^$key\$" "$folder/help" || fail "help config does not list $key"
done
grep -q 'Default: 0.001. Allowed: 0 to 10' "$folder/help" || fail "help config does not give default and bounds of train.lr"

"$ember" help config --markdown > "$folder/page" || fail "help config --markdown: exit code $?"
cmp "$folder/page" "$SOURCE_FOLDER/configs/README.md" || fail "configs/README.md is old; run: ember help config --markdown > configs/README.md"

# Every subcommand that the list names has its own help, through both spellings.
"$ember" help > "$folder/list" || fail "help: exit code $?"
commands=$(sed -n 's/^  \([a-z]*\)  .*/\1/p' "$folder/list")
[ "$(echo "$commands" | wc -l)" -ge 10 ] || fail "help lists too few commands: $commands"
for command in $commands; do
    if [ "$command" = help ]; then continue; fi
    "$ember" help "$command" > "$folder/a" 2>&1 || fail "help $command: exit code $?"
    "$ember" "$command" --help > "$folder/b" 2>&1 || fail "$command --help: exit code $?"
    cmp -s "$folder/a" "$folder/b" || fail "help $command and $command --help differ"
    grep -q "ember $command" "$folder/a" || fail "help $command does not show its usage"
done

expect_usage_error() {
    "$ember" "$@" > "$folder/out" 2> "$folder/err"
    code=$?
    [ "$code" = 2 ] || fail "$*: exit code $code, not 2"
    [ ! -s "$folder/out" ] || fail "$*: wrote to standard output"
    [ -s "$folder/err" ] || fail "$*: says nothing"
}
expect_usage_error help nonsense
expect_usage_error help config extra
expect_usage_error help train --markdown
expect_usage_error help config --nonsense
expect_usage_error nonsense

# A full disk behind standard output is an error.
if [ -w /dev/full ]; then
    "$ember" help config > /dev/full 2> "$folder/err"
    [ $? = 1 ] || fail "a write error of standard output went unnoticed"
fi
exit "$failed"
