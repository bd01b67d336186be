/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's statistics of a model, and of the steps of an ensemble, as differences of two answers.
 *
 * Ownership.  Plain structs; server_stats_read() borrows the text during the call.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <stdint.h>

struct stats_duration {
        uint64_t count, ns;
};

struct server_stats {
        uint64_t              n_inferences, n_executions;
        struct stats_duration success, fail, queue, input, infer, output, hit, miss;
};

/* Reads the model's entry of an answer to a question for statistics; zeros when it has none. `version` NULL:
 * the sum of all versions. */
struct error *server_stats_read(struct str json, const char *model, const char *version,
                                struct server_stats *ret) NODISCARD;
/* after - before; a server that has restarted gives what is after. */
struct server_stats server_stats_since(const struct server_stats *before,
                                       const struct server_stats *after);
/* Mean nanoseconds of `d` for each of `n`; 0 when n is 0. */
double stats_mean(const struct stats_duration *d, uint64_t n);
