/* SPDX-License-Identifier: BSD-3-Clause */
/* What a chain counts, as the metrics neso_chain_* and in the statistics of its first model.
 *
 * Ownership.  Belongs to the chain's model; metrics of stages live as long, so that a stage which is
 * loaded again goes on where it was.
 * Threads.  Counting: any. Stages and edges are asked for by one thread at a time.
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

        struct metric_registry *registry; /* borrowed: the server's; NULL: there is none */
        char                   *chain;    /* owned */
        struct metric          *success;  /* these owned; NULL without a registry */
        struct metric          *duration;
        struct metric          *in_flight;
        struct named_metric    *named; /* owned; of stages and edges */
        unsigned                n_named;
        struct metric_family  **families; /* owned array; one use of each metric's */
        unsigned                n_families;
};

struct chain_metrics *chain_metrics_new(struct metric_registry *registry, const char *chain,
                                        int64_t version);
void                  chain_metrics_free(struct chain_metrics *m); /* NULL is fine */

/* neso_chain_request_failure{chain,stage}; borrowed, NULL without a registry. */
struct metric *chain_metrics_open_failure(struct chain_metrics *m, const char *stage);
/* neso_chain_handoff_us{from,to}. */
struct metric *chain_metrics_open_handoff(struct chain_metrics *m, const char *from,
                                          const char *to);

void chain_metrics_count_begin(struct chain_metrics *m);
void chain_metrics_count_success(struct chain_metrics *m, uint64_t took_ns);
/* `failure` of the stage. */
void chain_metrics_count_failure(struct chain_metrics *m, struct metric *failure, uint64_t took_ns);
void chain_metrics_count_handoff(struct metric *handoff, uint64_t took_ns);
