# ember inspect: what a checkpoint holds; damage, locks and permissions.
set -eu
ember=$(realpath "$1")
folder=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$folder/cli_folder.sh"
make_folder model
printf '{"model":{"vocab":{"a":0,"b":1}}}\n' > model/tokenizer.json
"$ember" import model -o good.h5 > /dev/null

"$ember" inspect good.h5 > out.txt
grep -q "^format  *ember-checkpoint" out.txt
grep -q "^kind  *weights" out.txt
grep -q "^  hidden_size  *4" out.txt
grep -q "^ok  *f32  *\[3, 4\]  *48  /model/model/layers/0/mlp/down_proj/weight" out.txt
grep -q "^13 datasets, .* 0 damaged" out.txt
"$ember" inspect good.h5 --no-verify | grep -q "^unchecked"
"$ember" inspect good.h5 --tokenizer | cmp - model/tokenizer.json
"$ember" inspect good.h5 --json | grep -q '"path": "/model/model/norm/weight", "dtype": "f32", "shape": \[4\], "bytes": 16, "hash": "ok"'
fails_with 2 "exclude" "$ember" inspect good.h5 --json --config
fails_with 2 "" "$ember" inspect
fails_with 1 "nothing.h5" "$ember" inspect nothing.h5
fails_with 1 "not an HDF5 file" "$ember" inspect model/config.json

# Cut short, emptied, one byte of the weights changed.
for n in 0 1 7 8 47 48 600 2000; do
    head -c $n good.h5 > short.h5
    fails_with 1 "short.h5" "$ember" inspect short.h5
done
cp good.h5 bad.h5
at=$(grep -abo '"vocab"' bad.h5 | head -1 | cut -d: -f1)
printf 'V' | dd of=bad.h5 bs=1 seek=$((at + 1)) conv=notrunc 2> /dev/null
fails_with 1 "dataset /tokenizer differs from its hash" "$ember" inspect bad.h5
grep -q "^damaged  *text .*/tokenizer" out.txt
grep -q "^ok .*/model/model/norm/weight" out.txt

# A lock that somebody holds does not matter: complete files never change.
if command -v flock > /dev/null; then
    flock -x good.h5 "$ember" inspect good.h5 > /dev/null
fi

# Read-only file in a read-only folder, as a user who may write nothing.
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null && setpriv --reuid 65534 --clear-groups test -x "$ember" && setpriv --reuid 65534 --clear-groups true; then
    chmod 755 .
    mkdir readonly
    cp good.h5 readonly/
    chmod 444 readonly/good.h5
    chmod 555 readonly
    setpriv --reuid 65534 --clear-groups "$ember" inspect readonly/good.h5 > /dev/null
fi
