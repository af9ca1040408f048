#!/bin/sh
# Usage: tree_rules.sh ROOT | tree_rules.sh --selftest
# The design's rules about the tree that no compiler checks: which room may include which, names that occur once, the
# fixed top level, marks of unfinished work, paths of one machine. Prints every violation; exit 1 when there is one.
# --selftest runs it on small bad trees and fails unless each is refused for the right reason.
set -eu

# Files of the tree, relative to it: the tracked ones, or, outside git, all but the ignored folders.
list_files() {
    top=$(git rev-parse --show-toplevel 2>/dev/null || true)
    if [ "$top" = "$(pwd -P)" ]; then
        git ls-files | while IFS= read -r file; do
            if [ -f "$file" ]; then printf '%s\n' "$file"; fi
        done
    else
        find . \( -path ./.git -o -path ./build -o -path ./runs \) -prune -o -type f -print | sed 's|^\./||'
    fi
}

check_top_level() {
    awk -F/ '
        $1 ~ /^(lib|kernels|train|data|configs|checkpoints|tests)$/ && NF > 1 { next }
        $0 ~ /^(CMakeLists\.txt|README\.md|LICENSE|CMakePresets\.json)$/ || $1 ~ /^\./ { next }
        { print $0 ": the top level is fixed; nothing new belongs there" }'
}

check_unique_names() {
    awk -F/ '
        $NF ~ /^(README\.md|FORMAT\.md|CMakeLists\.txt)$/ { next }
        $NF in first { print $0 ": has the name of " first[$NF] "; file names are unique in the tree" ; next }
        { first[$NF] = $0 }'
}

# Quoted includes are relative to the root, exist, and follow the arrows; some system headers have one home.
check_includes() {
    { grep -E '^(lib|kernels|data|checkpoints|train|tests)/.*\.(c|h|cu|cuh)$' || true; } | tr '\n' '\0' |
        xargs -0 -r grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' |
        sed -E 's|^([^:]*):[[:space:]]*#[[:space:]]*include[[:space:]]*([<"][^>"]*)[>"].*|\1 \2|' | awk '
        function room(path,    part) {
            if (path == "lib/ember.h") return "ember"
            split(path, part, "/")
            return part[1] == "lib" ? part[2] : part[1]
        }
        BEGIN {
            may["ember"] = " "
            may["base"] = " base "
            may["h5"] = " h5 base "
            may["config"] = " config base "
            may["kernels"] = " kernels base "
            may["model"] = " model kernels base "
            may["data"] = " data h5 base "
            may["checkpoints"] = " checkpoints h5 base "
            may["api"] = " api model config data checkpoints kernels h5 base "
            may["train"] = " train" may["api"]
            may["tests"] = " tests" may["train"]
        }
        {
            file = $1
            kind = substr($2, 1, 1)
            header = substr($2, 2)
            from = room(file)
        }
        kind == "\"" {
            to = room(header)
            if (!(to in may)) { print file ": includes \"" header "\"; write the path from the root of the tree"; next }
            if (to != "ember" && index(may[from], " " to " ") == 0) print file ": room " from " may not include \"" header "\""
            if (header ~ /^train\/(cmd|cli)\.h$/ && from != "tests" && file !~ /^train\/(main|cli|cmd_[a-z0-9_]*)\.[ch]$/ && file !~ /^train\/cmd\.h$/)
                print file ": includes \"" header "\", which is no part of libember"
        }
        kind == "<" {
            if (header ~ /^(hdf5(_hl)?|H5[A-Za-z]*)\.h$/ && from != "h5" && from != "tests") print file ": hdf5.h is included under lib/h5 alone"
            if (header ~ /^(nccl|cublasLt)\.h$/ && from != "tests") {
                if ((header in home) && home[header] != file) print file ": " header " is included in one file, " home[header]
                home[header] = file
            }
        }'
}

# Nothing of HDF5 or of OpenMP survives a fork, so the product starts no process, by no name.
check_processes() {
    { grep -E '^(lib|kernels|data|checkpoints|train)/.*\.(c|h|cu|cuh)$' || true; } | tr '\n' '\0' |
        xargs -0 -r grep -nHE '(^|[^A-Za-z0-9_])(v?fork|popen|system|posix_spawnp?)[[:space:]]*\(' | sed 's/$/   <- a process is started/'
}

# The patterns are written in pieces so that this file does not hold what it looks for.
check_words() {
    marks='(^|[^A-Za-z_])(TO''DO|FIX''ME|XX''X)([^A-Za-z_]|$)|(^|[^A-Za-z_])st''ub(s|bed)?([^A-Za-z_]|$)|not (yet )?imple''mented'
    paths='(^|[^A-Za-z0-9_.$}/-])/(wo''rk|ho''me|ro''ot|Us''ers)/'
    hosts='(py''pi|crat''es|np''mjs|gol''ang|deb''ian)\.(org|io|com)'
    copy=$(tr '\n' '\001')
    look() { printf '%s' "$copy" | tr '\001' '\0' | xargs -0 -r grep -nIHE -- "$1" | sed "s|\$|   <- $2|"; }
    look "$marks" 'a mark of unfinished work'
    look "$paths" 'a path of one machine'
    look "$hosts" 'the host of a package registry'
}

check_tree() {
    cd "$1"
    list=$(mktemp)
    found=$(mktemp)
    trap 'rm -f "$list" "$found"' EXIT
    list_files > "$list"
    if [ ! -s "$list" ]; then
        echo "no files under $1"
        return 1
    fi
    { check_top_level < "$list"; check_unique_names < "$list"; check_includes < "$list"; check_processes < "$list"; check_words < "$list"; } > "$found"
    cat "$found"
    if [ -s "$found" ]; then
        echo "$(wc -l < "$found") violations in $(wc -l < "$list") files"
        return 1
    fi
    echo "$(wc -l < "$list") files follow the rules"
}

# expect NAME PART: the tree in $tree must be refused with a line that holds PART.
expect() {
    if output=$(sh "$script" "$tree" 2>&1); then
        echo "FAILED: $1 was accepted"
        failed=1
    elif ! printf '%s\n' "$output" | grep -qF -- "$2"; then
        echo "FAILED: $1 is refused without saying \"$2\": $output"
        failed=1
    fi
    rm -rf "$tree"
    mkdir -p "$tree/lib/base" "$tree/lib/model" "$tree/data" "$tree/checkpoints" "$tree/kernels/cpu" "$tree/train" "$tree/tests"
    echo '/* good */' > "$tree/lib/base/good.h"
}

selftest() {
    script=$1
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    failed=0
    expect "an empty tree" "no files"
    if ! sh "$script" "$tree" > /dev/null; then
        echo "FAILED: a good tree is refused"
        failed=1
    fi
    echo '#include "lib/model/model.h"' > "$tree/kernels/cpu/a.c"; expect "kernels to model" 'room kernels may not include "lib/model/model.h"'
    echo '  #  include "data/shard.h"' > "$tree/checkpoints/a.c"; expect "checkpoints to data" 'room checkpoints may not include'
    echo '#include "kernels/ops.h"' > "$tree/lib/base/a.c"; expect "base to kernels" 'room base may not include'
    echo '#include "train/trainer.h"' > "$tree/lib/model/a.h"; expect "model to train" 'room model may not include'
    echo '#include "tests/check.h"' > "$tree/train/a.c"; expect "train to tests" 'room train may not include'
    echo '#include "train/cli.h"' > "$tree/train/trainer.c"; expect "the library to the command line" 'no part of libember'
    echo '#include "good.h"' > "$tree/lib/base/a.c"; expect "a bare name" 'path from the root'
    echo '#include <hdf5.h>' > "$tree/data/a.c"; expect "hdf5.h in data" 'lib/h5 alone'
    echo '#include <nccl.h>' > "$tree/train/a.c"; cp "$tree/train/a.c" "$tree/train/b.c"; expect "nccl.h twice" 'in one file'
    for call in 'fork()' 'vfork ()' 'popen(command, "r")' 'system(command)' 'posix_spawn(&pid, path, 0, 0, argv, 0)' 'posix_spawnp(&pid, name, 0, 0, argv, 0)'; do
        echo "x = $call;" > "$tree/train/a.c"; expect "a call of ${call%%[ (]*}" 'a process is started'
    done
    echo > "$tree/data/good.h"; expect "a name used twice" 'unique'
    mkdir "$tree/extra"; echo > "$tree/extra/a"; expect "a new folder" 'top level'
    echo > "$tree/notes.txt"; expect "a new file" 'top level'
    echo 'x /* TO''DO: y */' > "$tree/data/a.c"; expect "unfinished work" 'unfinished'
    echo 'this is not imple''mented' > "$tree/data/a.md"; expect "unfinished words" 'unfinished'
    echo 'path = "/ho''me/someone/x"' > "$tree/data/a.sh"; expect "a machine path" 'one machine'
    if [ "$failed" = 0 ]; then echo "every bad tree is refused"; fi
    return "$failed"
}

case ${1-} in
    --selftest) selftest "$0" ;;
    '') echo "usage: $0 ROOT | --selftest" >&2; exit 2 ;;
    *) check_tree "$1" ;;
esac
