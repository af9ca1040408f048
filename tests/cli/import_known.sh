# Folders that other importers are known to take wrongly: the rope's scaling, tensors nobody asked for, tokenizers.
set -eu
ember=$(realpath "$1")
folder=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$folder/cli_folder.sh"

# with TEXT: the folder `with`, TEXT put in front of the first key of its config.
with() {
    rm -rf with
    make_folder with
    sed -i "s/^{/{$1, /" with/config.json
}
with '"rope_scaling": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}'
"$ember" import with -o x.h5 > said.txt
grep -q "rope_scaling.factor: 4 (from file)" said.txt
"$ember" inspect x.h5 | grep -q "rope_factor  *4"
with '"rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 4.0}'
fails_with 1 "differ" "$ember" import with -o y.h5
with '"rope_scaling": {"type": "yarn", "factor": 4.0}'
fails_with 1 '"yarn" is not supported' "$ember" import with -o y.h5
with '"rope_scaling": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}'
fails_with 1 "rope_theta and rope_scaling.rope_theta differ" "$ember" import with -o y.h5

# A wrong shape is a fault of the folder, not of the command line.
with '"num_key_value_heads": 1'
fails_with 1 "k_proj.weight\" has shape \[4, 4\], config.json asks for \[2, 4\]" "$ember" import with -o y.h5

# Weights of other kinds.
with '"use_cache": true'
mv with/model.safetensors with/pytorch_model.bin
fails_with 1 "with/model.safetensors: is missing; .*pytorch_model.bin" "$ember" import with -o y.h5
echo '{"weight_map": {}}' > with/model.safetensors.index.json
fails_with 1 "several files" "$ember" import with -o y.h5

# A tokenizer that this program cannot use is said at import; the checkpoint keeps it.
with '"use_cache": true'
echo '{"model": {"type": "Unigram", "vocab": [["a", 0.0], ["b", 0.0]]}}' > with/tokenizer.json
"$ember" import with -o z.h5 > said.txt
grep -q "warning: this program cannot turn text into tokens with it: tokenizer.json: .*Unigram" said.txt
"$ember" inspect z.h5 --tokenizer | cmp - with/tokenizer.json

# The output is none of the inputs, whatever --force says.
cp with/model.safetensors kept
ln with/config.json link.json
for output in with/model.safetensors ./with/tokenizer.json link.json; do
    fails_with 2 "is both a file to import and the output" "$ember" import with -o $output --force
done
cmp kept with/model.safetensors

# The header's length is just above the limit: both are said, and nothing is read.
printf '\001\341\365\005\000\000\000\000{' > with/model.safetensors
fails_with 1 "has 100000001 bytes; the limit is 100000000" "$ember" import with -o y.h5
# JSON that nests without end.
head -c 1000000 /dev/zero | tr '\0' '[' > with/config.json
fails_with 1 "with/config.json: .*depth" "$ember" import with -o y.h5
[ ! -e y.h5 ] || { echo "a refused import left y.h5"; exit 1; }
[ -z "$(find . -name '*.tmp')" ] || { echo "temporary files are left"; exit 1; }
