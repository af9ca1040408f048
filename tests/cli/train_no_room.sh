#!/bin/sh
# Training where its files cannot go: a limit on file sizes, a full disk at every size from nothing to enough, folders that
# may not be written. Exit code 1, the reason, no half file; what was complete stays complete and is resumed.
set -u
ember=$(realpath "$1")
folder=$(mktemp -d)
trap 'umount "$folder/small" 2> /dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

cat > run.yaml <<'END'
run: {threads: 1, output: run}
model: {vocab_size: 200, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: synthetic}
train: {steps: 8, batch_size: 2, sequence_length: 8}
ffn: {mode: dense}
checkpoint: {every: 2, keep_last: 100}
END

# complete FOLDER: every checkpoint there is whole, and nothing else ends in .tmp
complete() {
    for file in "$1"/*.h5; do
        [ -e "$file" ] || continue
        "$ember" inspect "$file" > out 2> err || fail "$file: $(cat err)"
    done
    [ -z "$(find "$1" -name '*.tmp')" ] || fail "temporary files stay: $(find "$1" -name '*.tmp')"
}

# A limit on sizes: below a checkpoint's, below the metrics file's. Some OpenMP libraries need a file of their own, and
# die at start under the smallest limit.
limits=100
if (ulimit -f 1 && "$ember" info > /dev/null 2> err); then limits='100 1'; else echo "note: this OpenMP library cannot start under ulimit -f 1"; fi
for blocks in $limits; do
    rm -rf run
    (
        ulimit -f $blocks
        "$ember" train run.yaml > /dev/null 2> err
    )
    [ $? = 1 ] || fail "ulimit -f $blocks: exit code is not 1: $(cat err)"
    complete run
    ls run/*.h5 > /dev/null 2>&1 && fail "ulimit -f $blocks: a checkpoint"
done
rm -rf run
"$ember" train run.yaml --set train.stop_after=3 > out 2> err || fail "train: $(cat err)"
(
    ulimit -f 100
    "$ember" train run.yaml --resume > /dev/null 2> err
) && fail "resumed in spite of the limit"
grep -q 'limit on file sizes' err || fail "the limit is not named: $(cat err)"
complete run
[ -e run/step_3.h5 ] || fail "the checkpoint before is gone"
"$ember" train run.yaml --resume > out 2> err || fail "resumed: $(cat err)"
[ "$(wc -l < run/metrics.jsonl)" = 8 ] || fail "metrics.jsonl has $(wc -l < run/metrics.jsonl) lines"

# Folders that may not be written; the checkpoint in them is as good as ever for everything that reads.
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null && setpriv --reuid 65534 --clear-groups test -x "$ember"; then
    nobody="setpriv --reuid 65534 --clear-groups"
    chmod 755 .
    mkdir closed
    cp run/step_8.h5 run/step_6.h5 closed/
    chmod 444 closed/*
    chmod 555 closed
    $nobody "$ember" train run.yaml --set run.output=closed --resume > /dev/null 2> /dev/null && fail "resumed in a closed folder"
    $nobody "$ember" train run.yaml --set run.output=closed/below > /dev/null 2> /dev/null && fail "a folder in a closed folder"
    $nobody "$ember" train run.yaml --set run.output=closed --resume 2>&1 > /dev/null | grep -q 'closed/.lock.*Permission denied' || fail "the closed folder is not named"
    $nobody "$ember" stats closed > /dev/null 2> /dev/null || fail "stats of a closed folder"
    $nobody "$ember" inspect closed/step_8.h5 > /dev/null 2> /dev/null || fail "inspect in a closed folder"
    mkdir open
    chmod 777 open
    $nobody "$ember" train run.yaml --set run.output=open/run --set train.steps=9 --resume closed/step_8.h5 > /dev/null 2> /dev/null || fail "resumed from a closed folder"
    chmod 755 closed
fi

if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=2m tmpfs small 2> /dev/null; then
    one=$(($(wc -c < run/step_8.h5) / 1024))
    done_once=no
    for free in 8 12 16 24 40 $((one - 20)) $((one + 8)) $((one * 2)) $((one * 3 + 20)); do
        rm -rf small/*
        dd if=/dev/zero of=small/fill bs=1k count=$((2048 - free)) 2> /dev/null
        if "$ember" train run.yaml --set run.output=small/run > /dev/null 2> err; then
            done_once=yes
        else
            [ $? = 1 ] || fail "$free KiB free: not exit code 1"
            grep -q 'small/run.*No space left on device' err || fail "$free KiB free: $(cat err)"
        fi
        if [ -e small/run ]; then complete small/run; fi
        # With room again the run is finished.
        rm -f small/fill
        resume=
        if ls small/run/step_*.h5 > /dev/null 2>&1; then resume=--resume; fi
        "$ember" train run.yaml --set run.output=small/run --set checkpoint.keep_last=1 $resume > /dev/null 2> err || fail "$free KiB free, then enough: $(cat err)"
        [ "$(wc -l < small/run/metrics.jsonl)" = 8 ] || fail "$free KiB free: metrics.jsonl has $(wc -l < small/run/metrics.jsonl) lines"
    done
    [ $done_once = no ] || fail "the disk was never too small at the end"
else
    echo "no small file system can be mounted here: the full disk was not tried"
fi

[ $failed = 0 ] && echo "train_no_room: all passed"
exit $failed
