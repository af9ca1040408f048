#!/bin/sh
# Completion in bash, by the words of a command line as bash splits them.
set -u
ember=$1
if ! command -v bash > /dev/null; then echo "skipped: no bash here"; exit 77; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

cat > "$folder/complete.bash" << 'END'
set -u
source "$SOURCE_FOLDER/train/ember.bash-completion"
[[ $(complete -p ember) == *'-F _ember ember' ]] || { echo "not registered"; exit 1; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_ember "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
if [[ ${#COMPREPLY[@]} -gt 0 ]]; then printf '%s\n' "${COMPREPLY[@]}"; fi
END
# completes WORD...: the answers for the last word, sorted, in $folder/out.
completes() {
    bash "$folder/complete.bash" "$ember" "$@" > "$folder/raw" 2> "$folder/err" || fail "$*: exit code $?"
    [ ! -s "$folder/err" ] || fail "$*: $(cat "$folder/err")"
    sort "$folder/raw" > "$folder/out"
}
# expect ANSWERS WORD...: exactly these answers, on one line.
expect() {
    wanted=$1
    shift
    completes "$@"
    said=$(tr '\n' ' ' < "$folder/out")
    [ "${said% }" = "$wanted" ] || fail "$*| gives \"$said\", not \"$wanted\""
}

"$ember" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort > "$folder/commands"
[ "$(wc -l < "$folder/commands")" -ge 10 ] || fail "help lists too few commands"
completes ''
cmp "$folder/out" "$folder/commands" || fail "the commands differ"
expect 'train' tr
expect 'config' help conf
expect 'generate' help gen
expect '--help info prepare' data ''
expect 'prepare' data p
expect 'ffn' bench f
expect '' nonsense --
expect '' '[' --
expect '' ./a/b --

# Options: those of the --help, of every command.
for command in $(cat "$folder/commands") 'data prepare' 'data info' 'bench ffn' 'bench step' 'bench ops'; do
    case $command in data | bench | help) continue ;; esac
    { "$ember" $command --help | sed -n 's/^  \(-[^ ]*\).*/\1/p'; echo --help; } | sort > "$folder/options"
    completes $command -
    cmp -s "$folder/out" "$folder/options" || fail "options of $command: $(cat "$folder/out")"
done
expect '--dry-run' train small.yaml --dr
expect '--valid --valid-fraction' data prepare text --va
expect '--temperature' generate x.h5 --prompt 'two words' --te

# Config keys and their values.
"$ember" help config | sed -n 's/^\([a-z0-9_]*\.[a-z0-9_]*\)$/\1=/p' | sort > "$folder/keys"
[ "$(wc -l < "$folder/keys")" -ge 50 ] || fail "help config lists too few keys"
completes train small.yaml --set ''
cmp "$folder/out" "$folder/keys" || fail "the keys differ"
expect 'ffn.mode=' train small.yaml --set ffn.mo
expect 'ffn.mode=' train small.yaml --set = ffn.mo
expect 'ffn.mode' train small.yaml --resume --allow-change ffn.mo
expect 'auto dense twell' train small.yaml --set ffn.mode =
expect 'dense' train small.yaml --set ffn.mode = d
expect 'dense' train small.yaml --set = ffn.mode = d
expect 'false true' bench step small.yaml --set data.shuffle =
expect '' train small.yaml --set train.steps =

# Files are left to bash: no answer of ours.
expect '' train sma
expect '' generate x.h5 --prompt-file te
expect '' import folder -o ''

# A program that is not there answers nothing and says nothing.
ember="$folder/absent"
expect '' ''
expect '' train -
expect '' train x --set f
exit "$failed"
