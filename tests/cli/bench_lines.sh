#!/bin/sh
# ember bench: every line of JSON has its fields and no number that JSON lacks; entries are those that fired; wrong words are refused.
set -u
ember=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "bench_lines: $1" >&2
    exit 1
}

# ---- ffn
"$ember" bench ffn --json --tokens 33 --hidden 16 --neurons 300 --density 0,0.1,1 --repeat 1 --threads 2 >"$work/ffn" 2>"$work/err" ||
    fail "bench ffn: $(cat "$work/err")"
[ "$(wc -l <"$work/ffn")" -eq 6 ] || fail "bench ffn printed $(wc -l <"$work/ffn") lines for 3 densities and 2 directions"
for field in device hidden neurons tokens layer direction density nnz gemm_ms dense_ms sparse_ms auto_ms auto_mode speedup auto_over_gemm entries max_rel_err; do
    [ "$(grep -c "\"$field\": " "$work/ffn")" -eq 6 ] || fail "bench ffn: field $field is not on every line"
done
grep -qiE '[ :](-?nan|-?inf)' "$work/ffn" && fail "bench ffn printed NaN or infinity"
[ "$(grep -c '"direction": "forward"' "$work/ffn")" -eq 3 ] || fail "bench ffn: three forward lines wanted"
[ "$(grep -c '"entries": 0,' "$work/ffn")" -eq 2 ] || fail "bench ffn: nothing fires at density 0"
[ "$(grep -c '"entries": 9900,' "$work/ffn")" -eq 2 ] || fail "bench ffn: all 33 x 300 pairs fire at density 1"
awk -F'"max_rel_err": ' '{ split($2, a, "}"); if (!(a[1] + 0 < 1e-5)) exit 1 }' "$work/ffn" || fail "bench ffn: sparse is far from dense"
"$ember" bench ffn --json --tokens 5 --hidden 3 --neurons 7 --nnz 2 --repeat 2 --forward-only --kind plain --activation relu2 >"$work/one" ||
    fail "bench ffn, plain relu2, forward only"
[ "$(wc -l <"$work/one")" -eq 1 ] || fail "bench ffn --forward-only prints one line"
"$ember" bench ffn --tokens 9 --hidden 8 --neurons 20 --density 0.5 --repeat 1 | grep -q 'gemm/auto' || fail "bench ffn: no table"

# What auto takes does not depend on what was measured before. Sparse costs 0.95 of dense at the larger density: a layer
# that is sparse already would stay so, one that starts dense stays dense.
cat >"$work/costs.json" <<'J'
{"format": "ember-ffn-costs", "version": 1, "device": "cpu", "entries": [{"hidden": 16, "neurons": 256, "kind": "gated",
 "activation": "relu", "compression": 2, "tokens": 64, "density": [0.002, 0.02, 0.08, 0.25], "dense_ms": 100,
 "sparse_ms": [10, 20, 95, 95], "forward_dense_ms": 100, "forward_sparse_ms": [10, 20, 95, 95]}]}
J
for order in 0.02,0.2 0.2,0.02; do
    "$ember" bench ffn --json --tokens 64 --hidden 16 --neurons 256 --compression 2 --density $order --repeat 1 --costs "$work/costs.json" |
        grep '"forward_backward"' >"$work/modes" || fail "bench ffn --costs"
    grep '"density": 0.02' "$work/modes" | grep -q '"auto_mode": "twell"' || fail "auto, densities $order: 0.02 is not sparse"
    grep '"density": 0.2[0,]' "$work/modes" | grep -q '"auto_mode": "dense"' || fail "auto, densities $order: 0.2 is not dense"
done

refused() {
    wanted=$1
    shift
    "$ember" bench "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq 2 ] || fail "bench $*: exit code $code, not 2"
    grep -q -- "$wanted" "$work/err" || fail "bench $*: \"$(cat "$work/err")\" does not name $wanted"
}
refused 'no benchmark'
refused nonsense nonsense
refused density ffn --density 1.5
refused density ffn --density 0.1,x
refused density ffn --density ''
refused nnz ffn --nnz 9999 --neurons 100
refused exclude ffn --nnz 3 --density 0.1
refused neurons ffn --neurons 65537
refused hidden ffn --hidden 0
refused repeat ffn --repeat 0
refused silu ffn --activation silu
refused threads ffn --threads -1
refused device ffn --device abacus
refused 'C = 3' ffn --compression 3
refused 'no operation' ops --op no_such_operation
"$ember" bench ffn --pattern "$work/none.h5" >/dev/null 2>"$work/err" && fail "bench ffn took a pattern that does not exist"
grep -q none.h5 "$work/err" || fail "the missing pattern is not named"

# ---- ops: every operation within its tolerance
"$ember" bench ops --json --check --repeat 1 >"$work/ops" 2>"$work/err" || fail "bench ops --check: $(cat "$work/err")"
for op in ffn_dense_forward ffn_dense_backward ffn_twell_forward ffn_twell_backward attention_forward rmsnorm_backward adamw; do
    grep -q "\"op\": \"$op\"" "$work/ops" || fail "bench ops does not run $op"
done

# ---- step
cat >"$work/step.yaml" <<'Y'
model: {vocab_size: 40, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: synthetic}
train: {steps: 4, batch_size: 4, micro_batch_size: 2, sequence_length: 8}
Y
for mode in dense twell auto; do
    "$ember" bench step "$work/step.yaml" --json --repeat 2 --set ffn.mode=$mode >"$work/step" 2>"$work/err" ||
        fail "bench step, $mode: $(cat "$work/err")"
    for field in config tokens_per_s step_ms memory_bytes tflops; do
        grep -q "\"$field\": [^n]" "$work/step" || fail "bench step, $mode: no $field"
    done
    grep -q "\"mode\": \"$mode\"" "$work/step" || fail "bench step: mode is not $mode"
done
"$ember" bench step "$work/step.yaml" --repeat 1 --set ffn.mode=auto --set ffn.costs="$work/costs.json" >"$work/out" 2>"$work/err" &&
    fail "bench step took a cost table of another shape"
grep -q costs.json "$work/err" || fail "bench step: the cost table is not named: $(cat "$work/err")"
sed 's/"neurons": 256/"neurons": 24/; s/"compression": 2/"compression": 8/' "$work/costs.json" >"$work/fits.json"
"$ember" bench step "$work/step.yaml" --repeat 1 --set ffn.mode=auto --set ffn.costs="$work/fits.json" >"$work/out" 2>"$work/err" ||
    fail "bench step with a cost table: $(cat "$work/err")"
[ -z "$(find "$work" -name '*.h5')" ] || fail "bench step wrote files"
exit 0
