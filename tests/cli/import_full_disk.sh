# A full disk is an error, not a crash and not a short file. Needs root for a small file system.
set -eu
[ "$(id -u)" = 0 ] || { echo "skipped: not root"; exit 77; }
ember=$(realpath "$1")
folder=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'umount "$work/small" 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
. "$folder/cli_folder.sh"
make_folder model
mkdir small
mount -t tmpfs -o size=128k tmpfs small 2> /dev/null || { echo "skipped: no tmpfs can be mounted here"; exit 77; }
echo old > small/x.h5
fails_with 1 "No space left on device" "$ember" import model -o small/x.h5 --force
[ "$(cat small/x.h5)" = old ] || { echo "the old file is gone"; exit 1; }
[ -z "$(find small -name '.*')" ] || { echo "a temporary file is left"; exit 1; }
