/* SPDX-License-Identifier: BSD-3-Clause */
/* The sink of mode opentelemetry: posts each batch of spans to a receiver, through libcurl.
 *
 * libcurl brings two dozen libraries with it, so it is not linked but opened, in this mode only.
 *
 * A batch that a receiver refuses for the moment (429, 502, 503, 504), or that does not reach it, is
 * tried again up to OTLP_MAX_TRIES times, with pauses from 1 s on that double up to 5 s; meanwhile
 * the writer's queue fills and drops. Any other answer but 2xx loses the batch at once. What is lost
 * is counted. While the writer is stopped each batch is tried once, all of them within its time.
 * The first failure is logged, and the first success after failures.
 *
 * Threads.  The writer's.
 */
#pragma once

#include "base/error.h"
#include "trace/trace_writer.h"

#define OTLP_MAX_TRIES 5
#define OTLP_TIMEOUT_S 10 /* one try */

struct otlp_export_options {
        const char        *url;       /* borrowed, as all of it */
        const char *const *resources; /* "key=value" */
        size_t             n_resources;
};

/* Loads libcurl, for good. UNAVAILABLE, naming what is missing, when there is no libcurl. */
struct error *otlp_export_check(void) NODISCARD;
/* The same error. */
struct error *otlp_export_new(const struct otlp_export_options *o, struct trace_sink **ret)
        NODISCARD;
