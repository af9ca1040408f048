#!/bin/sh
# ember bench ffn --pattern: auto trains a layer dense whose spill array would pass M h / 8, whatever the table says of it.
set -eu
python=/usr/bin/python3
"$python" -c "import h5py" 2> /dev/null || { echo "skipped: no h5py for $python"; exit 77; }
ember=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "bench_pattern: $1" >&2
    exit 1
}

# Layer 0: every token fires a quarter of the neurons, which its tile holds. Layer 1: about as many pairs, but every fourth
# token and one more fire all 256, 129 more than the 127 of a tile at C = 2: 17 x 129 entries spill, over 64 x 256 / 8.
"$python" - <<'MAKE'
import h5py, numpy
rows = [[list(range(64))] * 64, [list(range(256)) if t % 4 == 0 or t == 1 else [] for t in range(64)]]
with h5py.File("pattern.h5", "w") as f:
    f.attrs["layers"] = numpy.int64(2)
    f.attrs["neurons"] = numpy.int64(256)
    for i, layer in enumerate(rows):
        f[f"layer{i}/row_ptr"] = numpy.cumsum([0] + [len(r) for r in layer]).astype("int32")
        f[f"layer{i}/neuron"] = numpy.array([n for r in layer for n in r], dtype="uint16")
MAKE
cat > costs.json <<'J'
{"format": "ember-ffn-costs", "version": 1, "device": "cpu", "entries": [{"hidden": 16, "neurons": 256, "kind": "gated",
 "activation": "relu", "compression": 2, "tokens": 64, "density": [0.002, 0.02, 0.08, 0.25], "dense_ms": 100,
 "sparse_ms": [10, 10, 10, 10], "forward_dense_ms": 100, "forward_sparse_ms": [10, 10, 10, 10]}]}
J
"$ember" bench ffn --json --pattern pattern.h5 --tokens 64 --hidden 16 --compression 2 --repeat 1 --costs costs.json > lines
[ "$(wc -l < lines)" -eq 6 ] || fail "$(wc -l < lines) lines for two layers and their sum"
grep '"direction": "forward_backward"' lines > training
grep '"layer": 0,' training | grep -q '"auto_mode": "twell"' || fail "layer 0 fits and is cheaper: $(cat training)"
grep '"layer": 1,' training | grep -q '"auto_mode": "dense"' || fail "layer 1 overflows: $(cat training)"
grep '"layer": "sum"' training | grep -q '"auto_mode": null' || fail "the sum has no mode: $(cat training)"
echo "bench_pattern: passed"
