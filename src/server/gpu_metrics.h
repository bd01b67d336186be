/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of GPUs for the page of metrics: what NVML reads (gpu/gpu_meter.h), memory pools, copies. Without
 * GPUs there is the pinned pool alone, which is never used then.
 *
 * NVML is read before a page is printed, at most once per interval: an unscraped server reads nothing, and
 * no lock is held meanwhile.
 *
 * Ownership.  The object of the server's metrics owns it.
 * Threads.  Any, except for new and free.
 */
#pragma once

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu_metrics;
struct gpus;

struct gpu_metrics_options {
        const struct gpus *gpus;              /* borrowed; NULL: there are none */
        uint64_t           pinned_pool_bytes; /* of the setting: the pool is made when first used */
        bool               reads_nvml;
        uint64_t           interval_ms; /* readings may be this old */
};

struct gpu_metrics *gpu_metrics_new(const struct gpu_metrics_options *options);
void                gpu_metrics_free(struct gpu_metrics *m);

/* Reads NVML for the page that is printed next. No lock may be held. */
void gpu_metrics_measure(struct gpu_metrics *m);
/* Prints {"gpus":[...]}, see NESO_ServerGpus(); without GPUs the list is empty. */
void gpu_metrics_print_json(struct gpu_metrics *m, struct strbuf *out);
/* The registry is locked meanwhile. */
void gpu_metrics_print(struct gpu_metrics *m, struct strbuf *out);
