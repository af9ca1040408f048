/* cmd_bench.h - the parts of `ember bench`, one file each, and how they print. */
#ifndef EMBER_CMD_BENCH_H
#define EMBER_CMD_BENCH_H

#include <jansson.h>

#include "kernels/ops.h"
#include "train/cli.h"
#include "train/cmd.h"

EMBER_CHECKED ember_status cmd_bench_ffn(int argc, char **argv);
EMBER_CHECKED ember_status cmd_bench_step(int argc, char **argv);
EMBER_CHECKED ember_status cmd_bench_ops(int argc, char **argv);

/* The backend that --device and --threads ask for. */
EMBER_CHECKED ember_status bench_backend(ember_backend **out, const char *device, int64_t n_threads);
/* Middle of n values (mean of the two middle ones); sorts them. */
double bench_median(double *values, int64_t n);
/* JSON null where the number is NaN or infinite. */
void bench_set_number(json_t *object, const char *key, double value);
/* One object on one line of stdout; drops the object. */
EMBER_CHECKED ember_status bench_print(json_t *object);

enum { BENCH_MAX_REPEAT = 1000 };

#endif
