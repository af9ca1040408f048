# make_folder DIR: the smallest Hugging Face folder (Llama, 1 layer, 1 neuron, 2 tokens), weights all zero.
make_folder() {
    mkdir -p "$1"
    cat > "$1/config.json" <<'CONFIG'
{"model_type": "llama", "vocab_size": 2, "hidden_size": 4, "intermediate_size": 3, "num_hidden_layers": 1,
 "num_attention_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true,
 "bos_token_id": 0, "eos_token_id": 1}
CONFIG
    awk -v size_file="$1/data_bytes" 'BEGIN {
        n = split("model.embed_tokens.weight 2 4;model.layers.0.input_layernorm.weight 4 0;model.layers.0.mlp.down_proj.weight 4 3;" \
                  "model.layers.0.mlp.gate_proj.weight 3 4;model.layers.0.mlp.up_proj.weight 3 4;" \
                  "model.layers.0.post_attention_layernorm.weight 4 0;model.layers.0.self_attn.k_proj.weight 4 4;" \
                  "model.layers.0.self_attn.o_proj.weight 4 4;model.layers.0.self_attn.q_proj.weight 4 4;" \
                  "model.layers.0.self_attn.v_proj.weight 4 4;model.norm.weight 4 0", row, ";")
        at = 0
        printf "{"
        for (i = 1; i <= n; i++) {
            split(row[i], part, " ")
            bytes = 4 * part[2] * (part[3] > 0 ? part[3] : 1)
            shape = part[3] > 0 ? part[2] "," part[3] : part[2]
            printf "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", (i > 1 ? "," : ""), part[1], shape, at, at + bytes
            at += bytes
        }
        printf "}"
        printf "%d", at > size_file
    }' > "$1/header"
    n=$(wc -c < "$1/header")
    {
        printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))\\0\\0\\0\\0\\0\\0"
        cat "$1/header"
        head -c "$(cat "$1/data_bytes")" /dev/zero
    } > "$1/model.safetensors"
    rm "$1/header" "$1/data_bytes"
}

# fails_with CODE TEXT COMMAND...: the command ends with CODE and says TEXT on stderr.
fails_with() {
    wanted=$1 text=$2
    shift 2
    "$@" > out.txt 2> err.txt && code=0 || code=$?
    [ "$code" = "$wanted" ] || { echo "exit code $code, not $wanted: $*"; cat err.txt; exit 1; }
    grep -q -- "$text" err.txt || { echo "no \"$text\" on stderr: $*"; cat err.txt; exit 1; }
}
