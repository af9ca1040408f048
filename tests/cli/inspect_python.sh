# Others read a checkpoint by its plain names: h5py and h5dump. What h5py changed is refused by name.
set -eu
python=/usr/bin/python3
"$python" -c "import h5py" 2> /dev/null || { echo "skipped: no h5py for $python"; exit 77; }
command -v h5dump > /dev/null || { echo "skipped: no h5dump"; exit 77; }
ember=$(realpath "$1")
folder=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$folder/cli_folder.sh"
make_folder model
"$ember" import model -o good.h5 > /dev/null

"$python" - <<'CHECK'
import h5py
with h5py.File("good.h5", "r") as f:
    assert f.attrs["format"].decode() == "ember-checkpoint" and f.attrs["complete"] == 1
    assert f["model"].attrs["hidden_size"] == 4
    down = f["/model/model/layers/0/mlp/down_proj/weight"]
    assert down.shape == (3, 4) and down.dtype == "<f4" and down.attrs["layout"].decode() == "neuron_major"
    assert down.chunks is None and down.compression is None
    names = [row["name"].decode() for row in f["manifest"][:]]
    assert "/model/model/norm/weight" in names and "/manifest" not in names
CHECK
h5dump -d /model/model/norm/weight good.h5 | grep -q "H5T_IEEE_F32LE"

# Each change as another program would make it: the message names what is wrong.
change() {
    cp good.h5 changed.h5
    "$python" -c "
import h5py
with h5py.File('changed.h5', 'r+') as f:
    $1
"
    fails_with 1 "$2" "$ember" inspect changed.h5
}
change "f.attrs['version'] = 999" "version 999"
change "f.attrs['format'] = 'something-else'" "something-else"
change "del f.attrs['complete']" "incomplete"
change "del f['/model/model/norm/weight']" "/model/model/norm/weight"
change "f['/model/model/norm/weight'][0] = 7" "/model/model/norm/weight"
change "f['/model'].attrs['hidden_size'] = 8" "/model"
change "f['/extra'] = [1, 2, 3]" "/extra"
change "del f['/model/model/norm/weight']; f['/model/model/norm/weight'] = [1.0, 2.0]" "/model/model/norm/weight"
"$python" -c "
import h5py
h5py.File('foreign.h5', 'w')['x'] = [1, 2, 3]"
fails_with 1 "not one of Ember" "$ember" inspect foreign.h5
