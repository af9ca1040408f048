/* attention_cpu.h - what attention and attention over a cache share. */
#ifndef EMBER_ATTENTION_CPU_H
#define EMBER_ATTENTION_CPU_H

#include "kernels/ops.h"

enum { EMBER_QUERY_BLOCK = 64 }; /* queries whose scores are held at once */

/* EMBER_E_SHAPE unless heads are a positive multiple of key/value heads. */
EMBER_CHECKED ember_status ember_attention_check(const char *op, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim);

#endif
