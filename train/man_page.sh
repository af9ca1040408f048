#!/bin/sh
# Usage: man_page.sh EMBER > ember.1
# The manual page, made of what the program says of itself: `ember help`, the --help of each command, `ember help config`.
set -eu
ember=$1
common=$("$ember" help)
config=$("$ember" help config)

# roff: no line starts a request, backslashes and hyphens are themselves.
escape() {
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\\([.']\\)/\\\\\\&\\1/"
}

# A help text: usage lines as they are, paragraphs filled, "  name   meaning" as a list.
command_section() {
    printf '%s\n' "$1" | escape | awk '
        NR == 1 { sub(/^usage: /, ""); print ".nf"; in_usage = 1 }
        in_usage && /^$/ { print ".fi"; in_usage = 0 }
        in_usage { sub(/^ +/, ""); print; next }
        /^$/ { print ".PP"; next }
        /^options:$/ { next }
        match($0, /^  (\\-[^ ]*( \[?[A-Z][A-Z=]*\]?)?|[a-z]+ ) +/) {
            name = substr($0, 3, RLENGTH - 2)
            sub(/ +$/, "", name)
            print ".TP"
            print ".B " name
            print substr($0, RLENGTH + 1)
            next
        }
        { print }
        END { if (in_usage) print ".fi" }'
}

first=$(printf '%s\n' "$common" | sed -n 1p)
version=$(printf '%s\n' "$first" | sed 's/:.*//')
cat << END
.TH EMBER 1 "" "$version" "User Commands"
.SH NAME
ember \\- $(printf '%s\n' "$first" | sed 's/^[^:]*: //' | escape)
.SH SYNOPSIS
.B ember
.I COMMAND
[words and options]
.SH COMMANDS
END
commands=$(printf '%s\n' "$common" | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ -n "$commands" ]
for command in $commands; do
    text=$("$ember" "$command" --help)
    printf '.SS ember %s\n' "$command"
    command_section "$text"
    # Commands of two words, such as `ember data prepare` and `ember bench ffn|step|ops`.
    seconds=$(printf '%s\n' "$text" | sed -n -e "s/^usage: ember $command \\([a-z|]*[a-z]\\) .*/\\1/p" -e "s/^       ember $command \\([a-z]*\\) .*/\\1/p" | tr '|' ' ')
    for second in $seconds; do
        text=$("$ember" "$command" "$second" --help)
        printf '.SS ember %s %s\n' "$command" "$second"
        command_section "$text"
    done
done

printf '.SH CONFIGURATION\n'
printf '%s\n' "$config" | escape | awk '
    /^[a-z0-9_]+\.[a-z0-9_]+$/ { print ".TP"; print ".B " $0; next }
    /^$/ { next }
    /^    / { sub(/^ +/, ""); if (/^[.]/) $0 = "\\&" $0 }
    { print }'

printf '.SH EXIT STATUS\n'
printf '%s\n' "$common" | sed -n 's/^exit codes: //p' | escape
