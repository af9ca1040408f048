#!/bin/sh
# golden_tampered.sh GOLDEN_CHECK FILE.h5: a model in which one parameter is off by one percent must
# not pass, whichever parameter it is.
check=$1
file=$2
if [ ! -f "$file" ]; then
    echo "skipped: $file is not there"
    exit 77
fi
for name in model.embed_tokens.weight model.layers.0.input_layernorm.weight model.layers.1.self_attn.q_proj.weight \
    model.layers.0.self_attn.o_proj.weight model.layers.1.mlp.up_proj.weight model.layers.0.mlp.down_proj.weight; do
    output=$("$check" "$file" --mode dense --perturb "$name" 2>&1)
    code=$?
    if [ $code -ne 1 ] || ! printf '%s\n' "$output" | grep -q '^FAIL '; then
        echo "one percent on $name: exit code $code instead of 1 with failed quantities"
        printf '%s\n' "$output"
        exit 1
    fi
done
