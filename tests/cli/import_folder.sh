# ember import: a folder becomes a checkpoint; refusals name the cause, exit as documented and leave nothing.
set -eu
ember=$(realpath "$1")
folder=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$folder/cli_folder.sh"
make_folder model

"$ember" import model -o model.h5 > said.txt
grep -q "11 of 11 tensors used, 11 of 11 parameters filled" said.txt
grep -q "head_dim: 2 (default)" said.txt
grep -q "rope_theta: 1e+04 (from file)" said.txt
grep -q "note: .*tokenizer.json: is missing" said.txt

fails_with 1 "exists; --force replaces it" "$ember" import model -o model.h5
"$ember" import model -o model.h5 --force > said.txt
fails_with 2 "-o" "$ember" import model
fails_with 2 "" "$ember" import -o x.h5
fails_with 1 "nowhere/config.json" "$ember" import nowhere -o x.h5
fails_with 1 "no/such" "$ember" import model -o no/such/x.h5

# One key at a time.
for key in vocab_size hidden_size model_type; do
    make_folder without
    sed -i "s/\"$key\": [^,]*, *//" without/config.json
    fails_with 1 "$key" "$ember" import without -o x.h5
done
for key in rms_norm_eps rope_theta; do
    make_folder without
    sed -i "s/\"$key\": [^,]*,//" without/config.json
    "$ember" import without -o without.h5 --force > said.txt
    grep -q "$key: .*(default)" said.txt
done
make_folder with
sed -i 's/"rope_theta"/"attention_bias": true, "rope_theta"/' with/config.json
fails_with 1 "attention_bias" "$ember" import with -o x.h5
make_folder with
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' with/config.json
fails_with 1 "lm_head.weight" "$ember" import with -o x.h5
make_folder with
echo '{"model":{"vocab":{"a":0,"b":1,"c":2}}}' > with/tokenizer.json
fails_with 1 'token "c" has id 2' "$ember" import with -o x.h5
make_folder with
rm with/tokenizer.json
truncate -s -1 with/model.safetensors
fails_with 1 "with/model.safetensors" "$ember" import with -o x.h5
[ ! -e x.h5 ] || { echo "a refused import left x.h5"; exit 1; }
[ -z "$(find . -name '.*.tmp')" ] || { echo "temporary files are left"; exit 1; }
