#!/bin/sh
# Usage: sh tests/run.sh [release|asan]
# Installs what is missing, builds, and runs the tests: everything but the long ones and those that need a GPU in the
# release build, then unit, kernel and model tests under AddressSanitizer and UndefinedBehaviorSanitizer. An
# argument runs one of the two passes. Exit 1 when anything failed.
set -eu
cd "$(dirname "$0")/.."

# Tests run side by side: a thread that waits for another must not keep a core busy meanwhile.
export OMP_WAIT_POLICY=passive

jobs=$(nproc 2> /dev/null || echo 2)
if [ "$jobs" -gt 16 ]; then jobs=16; fi
passed=0
failed=0
skipped=0
broken=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# pass PRESET CTEST-OPTIONS...: configure, build, test; adds to the counts.
pass() {
    preset=$1
    shift
    echo "== $preset: configure and build"
    if ! cmake --preset "$preset" -DEMBER_TESTS=ON > "$log" 2>&1; then
        tail -n 40 "$log"
        echo "== $preset: cmake failed"
        broken=1
        return 0
    fi
    grep -E '^-- (BLAS|Backends)' "$log" || true
    if ! cmake --build "build/$preset" --parallel "$jobs" > "$log" 2>&1; then
        grep -E -A 12 'error|FAILED|undefined' "$log" | head -n 80 || tail -n 40 "$log"
        echo "== $preset: the build failed"
        broken=1
        return 0
    fi
    echo "== $preset: test"
    # A file and not a pipe for the exit code: sh has no pipefail.
    { ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" "$@" 2>&1 || echo "ctest: exit code $?"; } |
        tee "$log"
    total=$(sed -n 's/.* tests failed out of \([0-9]*\)$/\1/p' "$log" | tail -n 1)
    lost=$(sed -n 's/.* \([0-9]*\) tests failed out of .*/\1/p' "$log" | tail -n 1)
    left_out=$(grep -c '(Skipped)$' "$log" || true)
    if [ -z "$total" ] || { grep -q '^ctest: exit code' "$log" && [ "$lost" = 0 ]; }; then
        broken=1
        return 0
    fi
    failed=$((failed + lost))
    skipped=$((skipped + left_out))
    passed=$((passed + total - lost - left_out))
}

case ${1-} in
    '' | release | asan) ;;
    *) echo "usage: sh tests/run.sh [release|asan]" >&2; exit 2 ;;
esac
sh tests/setup.sh
if [ "${1-release}" = release ]; then pass release -LE '^(long|gpu)$'; fi
if [ "${1-asan}" = asan ]; then pass asan -L '^(unit|kernel|model)$' -LE '^(long|gpu)$'; fi

if [ "$broken" != 0 ]; then echo "a pass did not run to its end"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$broken" = 0 ] && [ "$failed" = 0 ]
