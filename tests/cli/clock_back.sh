#!/bin/sh
# The wall clock goes back an hour at each look, or stands still; then every clock stands still. Speeds and times stay
# finite and positive, runs end, files are the same.
set -u
. "$(dirname "$0")/cli_scratch.sh"

cat > clock.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
static long looks;
static int mode(const char *word) {
    const char *modes = getenv("CLOCK");
    return modes && strstr(modes, word);
}
static time_t wall(void) {
    looks++;
    return mode("back") ? 1700000000 - 3600 * looks : 1700000000;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const int result = real(id, t);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) *t = (struct timespec){.tv_sec = wall()};
    if (id == CLOCK_MONOTONIC && mode("still")) *t = (struct timespec){.tv_sec = 5};
    return result;
}
time_t time(time_t *out) {
    const time_t now = wall();
    if (out) *out = now;
    return now;
}
int gettimeofday(struct timeval *t, void *zone) {
    (void)zone;
    t->tv_sec = wall();
    t->tv_usec = 0;
    return 0;
}
END
if ! cc -shared -fPIC -o clock.so clock.c -ldl 2> err; then
    echo "skipped: no C compiler for the clock: $(head -1 err)"
    exit 77
fi
if ! LD_PRELOAD="$folder/clock.so" CLOCK=stand "$ember" --version > out 2>&1; then
    echo "skipped: this build loads no other clock: $(head -1 out)"
    exit 77
fi

i=0
while [ $i -lt 60 ]; do
    echo "line $i of a text $((i * i % 97))"
    i=$((i + 1))
done > text
"$ember" data prepare text --tokenizer bytes -o shard.h5 > out 2> err || fail "prepare: $(cat err)"
cat > run.yaml <<'END'
run: {threads: 1}
model: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2}
data: {train: shard.h5, valid: shard.h5}
train: {steps: 6, batch_size: 2, sequence_length: 8}
ffn: {mode: dense}
eval: {every: 3}
log: {every: 1}
END
"$ember" train run.yaml --set run.output=plain > out 2> err || fail "train: $(cat err)"
sed 's/"tokens_per_s": [^,]*,//' plain/metrics.jsonl > wanted
for clock in stand back 'stand still'; do
    export CLOCK="$clock"
    rm -rf run
    LD_PRELOAD="$folder/clock.so" "$ember" train run.yaml --set run.output=run > out 2> err || fail "$clock: $(cat err)"
    [ "$(grep -Ec '^step [1-6]/6  loss .*  [1-9][0-9]* tokens/s  ETA [0-9hms]+$' out)" = 6 ] || fail "$clock: $(cat out)"
    grep -Eq '^step 6 of 6 after [0-9]+s: ' out || fail "$clock: $(cat out)"
    [ "$(grep -Ec '"tokens_per_s": [1-9][0-9.e+]*[,}]' run/metrics.jsonl)" = 6 ] || fail "$clock: $(cat run/metrics.jsonl)"
    sed 's/"tokens_per_s": [^,]*,//' run/metrics.jsonl | cmp -s - wanted || fail "$clock: other numbers"
    LD_PRELOAD="$folder/clock.so" "$ember" data prepare text --tokenizer bytes -o new.h5 --force > out 2> err || fail "$clock, prepare: $(cat err)"
    cmp -s new.h5 shard.h5 || fail "$clock: another shard"
    LD_PRELOAD="$folder/clock.so" "$ember" bench step run.yaml --json --repeat 2 > out 2> err || fail "$clock, bench: $(cat err)"
    grep -Eiq '[ :](-?nan|-?inf)|": -' out && fail "$clock, bench: $(cat out)"
done
# The clock that stands was really the one that was read.
grep -q '"tokens_per_s": 1.6e+07' run/metrics.jsonl || fail "the other clock was not used"

[ $failed = 0 ] && echo "clock_back: all passed"
exit $failed
