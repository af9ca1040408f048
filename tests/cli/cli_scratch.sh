# Sourced with the ember binary as $1: works in a folder of its own that goes at the end; `fail` notes a failure and goes
# on, and the test ends with `exit $failed` or the like.
ember=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}
