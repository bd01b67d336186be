/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of the memory of GPUs and of copies, for the page of metrics. Without GPUs there is the pinned
 * pool alone, which is never used then.
 *
 * Threads.  Any. Takes no lock: the registry is locked meanwhile.
 */
#pragma once

#include "base/strbuf.h"

#include <stdint.h>

struct gpus;

/* `pinned_pool_bytes` is the size of the setting: the pool is made when it is first used. */
void gpu_metrics_print(const struct gpus *gpus, uint64_t pinned_pool_bytes, struct strbuf *out);
