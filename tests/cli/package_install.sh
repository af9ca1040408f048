#!/bin/sh
# The build is installed under a prefix of its own; a program outside is built with it in every documented way and runs.
# The shared library exports the functions of ember.h and nothing else.
set -u
ember=$1
build=$(cd "$(dirname "$ember")" && pwd)
for tool in cmake pkg-config nm readelf; do
    if ! command -v "$tool" > /dev/null; then echo "skipped: no $tool here"; exit 77; fi
done
if [ ! -f "$build/CMakeCache.txt" ]; then echo "skipped: $build is no build folder"; exit 77; fi
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
if [ "$(cached EMBER_PORTABLE)" = ON ]; then echo "skipped: a portable build has no libraries"; exit 77; fi
compiler=$(cached CMAKE_C_COMPILER)
sanitize=
if [ "$(cached EMBER_SANITIZE)" = ON ]; then sanitize='-fsanitize=address,undefined'; fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

# A prefix with a space, which no path of the build knows.
prefix="$folder/a prefix"
cmake --install "$build" --prefix "$prefix" > out 2>&1 || { fail "install: $(cat out)"; exit 1; }
lib=$(cd "$prefix" && dirname "$(find . -name libember.a | sed 's|^\./||')")
for file in bin/ember include/ember.h "$lib/libember.a" "$lib/libember.so" "$lib/libember.so.0" "$lib/pkgconfig/ember.pc" \
    "$lib/cmake/ember/ember-config.cmake" share/ember/configs/quickstart.yaml share/ember/configs/tiny.yaml share/man/man1/ember.1 \
    share/bash-completion/completions/ember; do
    [ -s "$prefix/$file" ] || fail "$file is not installed"
done
for path in "$build" "$SOURCE_FOLDER" "$prefix"; do
    if grep -rqF -- "$path" "$prefix/$lib/pkgconfig" "$prefix/$lib/cmake"; then fail "an installed file names $path"; fi
done
readelf -d "$prefix/$lib/libember.so" > dynamic
grep -q 'SONAME.*\[libember\.so\.0\]' dynamic || fail "soname: $(cat dynamic)"
if readelf -d "$prefix/bin/ember" "$prefix/$lib/libember.so" | grep -E 'R(UN)?PATH' | grep -qF "$build"; then fail "a run path into the build folder"; fi

# Names: the header's functions are what is exported by the shared library, and what is global in the archive.
sed -n 's/^[A-Za-z_].*[ *]\(ember_[a-z0-9_]*\)(.*/\1/p' "$prefix/include/ember.h" | sort > declared
[ "$(wc -l < declared)" -ge 17 ] || fail "found only $(wc -l < declared) functions in ember.h"
nm -D --defined-only "$prefix/$lib/libember.so" | awk '{ print $3 }' | sort > exported
diff declared exported > difference || fail "declared (<) and exported (>) differ: $(cat difference)"
if [ -z "$sanitize" ]; then
    # (Names with a point in front are locks of the OpenMP runtime.)
    nm -g --defined-only "$prefix/$lib/libember.a" | awk 'NF == 3 && $3 !~ /^[.]/ { print $3 }' | sort > global
    diff declared global > difference || fail "declared (<) and global in the archive (>) differ: $(cat difference)"
fi

# No instruction set of the builder: whatever runs beyond the baseline is chosen at run time.
if [ -f "$build/compile_commands.json" ]; then
    if grep -qE -- '-m(arch|tune|cpu|avx|fma|sse4)' "$build/compile_commands.json"; then fail "compiled for one processor"; fi
fi

# A checkpoint of two steps, and what the program itself generates from it.
awk 'BEGIN { for (i = 0; i < 60; i++) print "line " i " of a text that is told again and again" }' > text
"$prefix/bin/ember" data prepare text --tokenizer bytes -o shard.h5 > out 2>&1 || fail "prepare: $(cat out)"
cat > small.yaml << 'END'
run: {output: run, threads: 1}
model: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 2, batch_size: 2, sequence_length: 32, lr: 0.001}
ffn: {mode: dense}
END
"$prefix/bin/ember" train small.yaml > out 2>&1 || fail "train: $(cat out)"
checkpoint=$(ls run/*.h5 | tail -n 1)
ids=$("$prefix/bin/ember" generate "$checkpoint" --prompt line -n 5 --temperature 0 --ignore-eos --ids 2>&1 > /dev/null | sed -n 's/.*new[^0-9]*//p')

export PKG_CONFIG_PATH="$prefix/$lib/pkgconfig"
source_file=$SOURCE_FOLDER/tests/cli/outside_program.c
warnings='-Wall -Wextra -Wpedantic -Werror'
version=$(pkg-config --modversion ember) || fail "pkg-config does not know ember"
pkg-config --validate ember || fail "ember.pc is not valid"

# try NAME COMMAND...: builds NAME, runs it, and keeps what it says.
try() {
    name=$1
    shift
    "$@" > out 2>&1 || { fail "$name does not build: $(cat out)"; return; }
    LD_LIBRARY_PATH="$prefix/$lib" "./$name" "$checkpoint" > "$name.said" 2>&1 || fail "$name: exit code $?: $(cat "$name.said")"
    [ "$(awk '{ print NF }' "$name.said")" = 7 ] && grep -q "version $version\$" "$name.said" || fail "$name says: $(cat "$name.said")"
}
eval "set -- $(pkg-config --cflags --libs ember)"
try with_shared "$compiler" -std=c11 $warnings $sanitize "$source_file" -o with_shared "$@"
readelf -d with_shared | grep -q 'NEEDED.*libember\.so\.0' || fail "with_shared does not use libember.so.0"
for library in hdf5 yaml jansson pcre2 blis; do
    if readelf -d with_shared | grep -q "NEEDED.*lib$library"; then fail "a program with the shared library links lib$library itself"; fi
done

# The archive inside, what it needs shared: -l:libember.a for -lember.
eval "set -- $(pkg-config --static --cflags --libs ember | sed 's/-lember/-l:libember.a/')"
try with_archive "$compiler" -std=c11 $warnings $sanitize "$source_file" -o with_archive "$@"
if readelf -d with_archive | grep -q 'NEEDED.*libember'; then fail "with_archive uses the shared library"; fi

# Static throughout, where the archives of all libraries are there.
echo 'int main(void) { return 0; }' > probe.c
eval "set -- $(pkg-config --static --libs ember | sed 's/-lember//')"
if [ -n "$sanitize" ] || ! "$compiler" -static probe.c -o probe "$@" > out 2>&1; then
    echo "not tried: a static program (sanitizers, or a library without an archive here)"
else
    eval "set -- $(pkg-config --static --cflags --libs ember)"
    try with_nothing "$compiler" -static -std=c11 "$source_file" -o with_nothing "$@"
    if readelf -d with_nothing | grep -q NEEDED; then fail "with_nothing is not static"; fi
    cmp with_shared.said with_nothing.said || fail "static and shared generate different tokens"
fi
cmp with_shared.said with_archive.said || fail "archive and shared library generate different tokens"
[ -n "$ids" ] || fail "ember generate --ids prints no ids"
if [ "$(sed 's/ *version.*//' with_shared.said)" != "$ids" ]; then fail "ember generates \"$ids\", the library: $(cat with_shared.said)"; fi

# The CMake package.
mkdir project
cp "$source_file" project/outside_program.c
cat > project/CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
find_package(ember 0.1 REQUIRED)
add_executable(cmake_shared outside_program.c)
target_link_libraries(cmake_shared PRIVATE ember::ember)
add_executable(cmake_archive outside_program.c)
target_link_libraries(cmake_archive PRIVATE ember::ember_static)
END
{ cmake -G Ninja -S project -B project/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="$sanitize" &&
    cmake --build project/build; } > out 2>&1 || fail "the CMake package: $(cat out)"
for name in cmake_shared cmake_archive; do
    try "$name" cp "project/build/$name" "$name"
    cmp "$name.said" with_shared.said || fail "$name generates other tokens"
done
readelf -d cmake_shared | grep -q 'NEEDED.*libember\.so\.0' || fail "ember::ember is not the shared library"
if readelf -d cmake_archive | grep -q 'NEEDED.*libember'; then fail "ember::ember_static is the shared library"; fi
sed 's/find_package(ember 0.1/find_package(ember 0.2/' project/CMakeLists.txt > project/other
mv project/other project/CMakeLists.txt
if cmake -G Ninja -S project -B project/other -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" > out 2>&1; then
    fail "find_package(ember 0.2) is satisfied with $version"
fi

# The header alone, in C99 and, where there is a compiler, in C++.
eval "set -- $(pkg-config --cflags ember)"
echo '#include <ember.h>' > alone.c
"$compiler" -std=c99 $warnings -fsyntax-only "$@" alone.c > out 2>&1 || fail "ember.h in C99: $(cat out)"
if command -v c++ > /dev/null; then
    cp "$source_file" outside.cpp
    c++ -std=c++11 $warnings -fsyntax-only "$@" outside.cpp > out 2>&1 || fail "ember.h in C++: $(cat out)"
fi
exit "$failed"
