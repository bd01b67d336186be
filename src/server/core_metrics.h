/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of the server and its machine: readiness of models, memory of GPUs, CPU and memory,
 * requests refused by a limit or for their API key.
 *
 * The figures of CPU and memory are read from /proc when metrics are printed, at most once per
 * interval. So no thread polls, and an unscraped server reads nothing.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "server/gpu_metrics.h"

#include <stdbool.h>
#include <stdint.h>

struct core_metrics;
struct metric_registry;
struct repo;

struct core_metrics_options {
        struct gpu_metrics_options gpus;
        bool                       cpu;         /* prints CPU and memory of the machine */
        uint64_t                   interval_ms; /* the figures of the machine may be this old */
};

struct core_metrics *core_metrics_new(struct metric_registry            *r,
                                      const struct core_metrics_options *options);
void                 core_metrics_free(struct core_metrics *m);

/* Reads the text of /proc/meminfo; 0 for what it does not say. */
void core_metrics_read_memory(const char *text, uint64_t *ret_total_bytes,
                              uint64_t *ret_used_bytes);

/* Reads the readiness of the models, and the GPUs, for the page that is printed next. No lock may be held. */
void core_metrics_measure(struct core_metrics *m, struct repo *repo);

/* The GPUs, after a reading, for server_gpus(). No lock may be held. */
void core_metrics_print_gpus(struct core_metrics *m, struct strbuf *out);

/* Increments neso_rejected_total{limit="<limit>"}. */
struct error *core_metrics_count_rejected(struct core_metrics *m, const char *limit) NODISCARD;
/* Increments neso_api_key_refused_total{key="<key>",reason="<reason>"}. */
struct error *core_metrics_count_key_refused(struct core_metrics *m, const char *key,
                                             const char *reason) NODISCARD;
