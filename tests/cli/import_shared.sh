# The reference models: the stories model, and the Hugging Face folders inside the golden files.
set -eu
[ -r "${SHARED_FOLDER:-}/models/stories260K/model.safetensors" ] || { echo "skipped: no reference models"; exit 77; }
python=/usr/bin/python3
"$python" -c "import h5py" 2> /dev/null || { echo "skipped: no h5py for $python"; exit 77; }
ember=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$ember" import "$SHARED_FOLDER/models/stories260K" -o stories.h5 | grep -q "47 of 47 tensors used, 47 of 47 parameters filled"
"$ember" inspect stories.h5 --tokenizer | cmp - "$SHARED_FOLDER/models/stories260K/tokenizer.json"
for file in "$SHARED_FOLDER"/golden/*.h5; do
    name=$(basename "$file" .h5)
    "$python" - "$file" "$name" <<'UNPACK'
import h5py, os, sys
os.makedirs(sys.argv[2])
with h5py.File(sys.argv[1], "r") as f:
    open(sys.argv[2] + "/config.json", "wb").write(f["config.json"][()])
    open(sys.argv[2] + "/model.safetensors", "wb").write(f["model.safetensors"][()].tobytes())
UNPACK
    "$ember" import "$name" -o "$name.h5" > said.txt
    grep -q "tensors used" said.txt
    "$ember" inspect "$name.h5" > /dev/null
    "$python" - "$name" <<'COMPARE'
import h5py, json, struct, sys
import numpy as np
raw = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:8 + n])
header.pop("__metadata__", None)
with h5py.File(sys.argv[1] + ".h5", "r") as f:
    for name, entry in header.items():
        a, b = entry["data_offsets"]
        value = np.frombuffer(raw[8 + n + a:8 + n + b], "<f4").reshape(entry["shape"])
        if name.endswith("down_proj.weight"):
            value = value.T
        assert np.array_equal(f["model/" + name.replace(".", "/")][()], value), name
COMPARE
done
