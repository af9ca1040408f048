#!/bin/sh
# Real English to try Ember on: six novels by Jane Austen (4 MB, public domain), one text file each, out of
# the Debian package r-cran-janeaustenr, which is downloaded and not installed. Where that does not work
# (no network, no package lists, no python3), English that a Debian machine already has.
#
# usage: sh data/sample_corpus.sh OUT_FOLDER
# Needs no root. A second run finds the complete folder and does nothing.
set -eu
export LC_ALL=C

if [ $# -ne 1 ] || [ -z "$1" ]; then
    echo "usage: sh data/sample_corpus.sh OUT_FOLDER" >&2
    exit 2
fi
case $1 in
    /*) out=$1 ;;
    *) out=$PWD/$1 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
list=.contents.cksum # hidden: OUT_FOLDER/* names the texts alone
package=r-cran-janeaustenr
novels="emma mansfieldpark northangerabbey persuasion prideprejudice sensesensibility"

# The folder holds exactly what its list says.
is_complete() {
    [ -s "$out/$list" ] && (cd "$out" && cksum -- *.txt 2>/dev/null | cmp -s - "$list")
}

report() {
    echo "$1: $(find "$out" -name '*.txt' | wc -l) files, $(cat "$out"/*.txt | wc -c) bytes of text in $out"
}

if is_complete; then
    report "already there"
    exit 0
fi

# An unfinished folder of ours is made anew; anything else is somebody's.
if [ -d "$out" ] && [ ! -e "$out/$list" ] && [ -n "$(ls -A "$out")" ]; then
    echo "sample_corpus.sh: $out holds other files; name a new or an empty folder" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/text"

# Sets why when the novels cannot be had.
take_novels() {
    for tool in python3 apt-get dpkg-deb; do
        why="there is no $tool"
        command -v "$tool" >/dev/null || return 1
    done
    why="apt-get download $package failed: no network, or no package lists (apt-get update)"
    (cd "$work" && apt-get -qq download "$package" >apt.log 2>&1) || return 1
    why="the package $package is not as expected"
    dpkg-deb -x "$work/$package"_*.deb "$work/tree" || return 1
    database=$(find "$work/tree" -name '*.rdx' -path '*/data/*' | head -n 1)
    [ -n "$database" ] || return 1
    # shellcheck disable=SC2086
    python3 "$here/rdb_text.py" "${database%.rdx}" "$work/text" $novels || return 1
}

# Licences, and the manual pages inside Perl modules: English prose, if dry.
take_local_text() {
    rm -f "$work"/text/*
    find /usr/share/common-licenses -type f 2>/dev/null | sort | while read -r file; do
        cat "$file"
        echo
    done >"$work/text/licences.txt"
    find /usr/share/perl /usr/share/perl5 /usr/lib/*/perl /usr/lib/*/perl-base -type f \( -name '*.pod' -o -name '*.pm' \) 2>/dev/null |
        sort | head -n 4000 | while read -r file; do
        awk '/^=cut/ { on = 0; next } /^=[a-z]/ { on = 1; next } on' "$file"
        echo
    done | head -c 4000000 >"$work/text/manuals.txt"
    find /usr/share/doc -type f -name 'README*' ! -name '*.gz' -size +1k 2>/dev/null | sort | head -n 2000 | while read -r file; do
        cat "$file"
        echo
    done | head -c 2000000 >"$work/text/readmes.txt"
    find "$work/text" -name '*.txt' -size -2 -exec rm -f {} +
    [ -n "$(find "$work/text" -name '*.txt')" ]
}

if take_novels; then
    made="six novels of Jane Austen"
elif take_local_text; then
    echo "note: not the novels: $why" >&2
    made="text of this machine instead of the novels"
else
    echo "sample_corpus.sh: $why; and no English text was found on this machine; any folder of .txt files does as well" >&2
    exit 1
fi

mkdir -p "$out"
if [ -s "$out/$list" ]; then
    while read -r _ _ name; do rm -f "$out/$name"; done <"$out/$list"
fi
(cd "$work/text" && cksum -- *.txt) >"$work/$list"
cp "$work/$list" "$out/$list"
cp "$work"/text/*.txt "$out/"
report "$made"
