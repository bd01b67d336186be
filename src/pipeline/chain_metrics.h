/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a chain: the metrics neso_chain_*, and the sums for its statistics.
 *
 * Ownership.  The chain's model owns it. The metrics of stages and hand-offs exist as long as the
 * chain, so that the counters of a stage continue after its model was loaded again.
 * Threads.  The chain_metrics_count_...() functions: any. The chain_metrics_open_...() functions:
 * one thread at a time.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct metric;
struct metric_family;
struct metric_registry;
struct named_metric;

struct chain_metrics {
        _Atomic uint64_t n_success;
        _Atomic uint64_t success_ns;
        _Atomic uint64_t n_failure;
        _Atomic uint64_t failure_ns;

        struct metric_registry *registry; /* borrowed: the server's; NULL: none */
        char                   *chain;    /* owned */
        struct metric          *success;  /* owned, as the next two; NULL without a registry */
        struct metric          *duration;
        struct metric          *in_flight;
        struct named_metric    *named; /* owned array: the metrics of stages and hand-offs */
        unsigned                n_named;
        struct metric_family  **families; /* owned array: one open family for each metric */
        unsigned                n_families;
};

struct chain_metrics *chain_metrics_new(struct metric_registry *registry, const char *chain,
                                        int64_t version);
void                  chain_metrics_free(struct chain_metrics *m); /* NULL is fine */

/* Returns the counter neso_chain_request_failure{chain,stage}, borrowed; NULL without a
 * registry. */
struct metric *chain_metrics_open_failure(struct chain_metrics *m, const char *stage);
/* The same for neso_chain_handoff_us{from,to}. */
struct metric *chain_metrics_open_handoff(struct chain_metrics *m, const char *from,
                                          const char *to);

void chain_metrics_count_begin(struct chain_metrics *m);
void chain_metrics_count_success(struct chain_metrics *m, uint64_t took_ns);
/* `failure`: the counter of the stage that failed. */
void chain_metrics_count_failure(struct chain_metrics *m, struct metric *failure, uint64_t took_ns);
void chain_metrics_count_handoff(struct metric *handoff, uint64_t took_ns);
