#!/bin/sh
# generate and eval pack the FFN as the run did: its cost table is for that compression alone. And twell stays twell where every
# second neuron fires and most of them overflow their tiles.
set -u
. "$(dirname "$0")/cli_scratch.sh"

i=0
while [ $i -lt 100 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes --document line -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
cat > run.yaml <<'END'
run: {threads: 1}
model: {hidden_size: 32, intermediate_size: 512, num_hidden_layers: 2, num_attention_heads: 2}
data: {train: shard.h5}
train: {steps: 4, batch_size: 4, sequence_length: 32, lr: 0.01}
ffn: {mode: auto}
END
value() { sed -n "s/.*\"$2\": \\([-0-9.e+]*\\)[,}].*/\\1/p" "$1" | head -1; }
close_to() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a - b < 1e-5 && b - a < 1e-5) }'; }

for c in 2 8 16; do
    "$ember" train run.yaml --set ffn.compression=$c --set run.output=run_$c > out 2> err || fail "train, compression $c: $(cat err)"
    grep -q "\"compression\": $c,*\$" run_$c/ffn_costs.json || fail "compression $c: another one was measured: $(cat run_$c/ffn_costs.json)"
    model=run_$c/step_4.h5
    for mode in dense auto twell; do
        "$ember" generate $model --prompt 'line 7' -n 4 --temperature 0 --threads 1 --ffn $mode > text_$mode 2> err ||
            fail "generate, compression $c, --ffn $mode: $(cat err)"
        "$ember" eval $model shard.h5 --json --threads 1 --ffn $mode > eval_$mode 2> err || fail "eval, compression $c, --ffn $mode: $(cat err)"
        cmp -s text_dense text_$mode || fail "compression $c: --ffn $mode tells another story"
        close_to "$(value eval_dense loss)" "$(value eval_$mode loss)" ||
            fail "compression $c: --ffn $mode: loss $(value eval_$mode loss), not $(value eval_dense loss)"
    done
    "$ember" generate $model --prompt 'line 7' -n 4 --temperature 0 --threads 1 > text_auto 2> err || fail "generate, compression $c: $(cat err)"
    cmp -s text_dense text_auto || fail "compression $c: the default tells another story"
done

[ $failed = 0 ] && echo "compression_of_run: all passed"
exit $failed
