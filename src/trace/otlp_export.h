/* SPDX-License-Identifier: BSD-3-Clause */
/* The sink of mode opentelemetry: posts each batch of spans to a receiver, through libcurl.
 *
 * libcurl brings two dozen libraries with it. It is therefore not linked but opened, in this mode
 * only.
 *
 * A try fails for the moment when the receiver answers 429, 502, 503 or 504, or cannot be reached.
 * The batch is then tried again, up to OTLP_MAX_TRIES times, with pauses that start at 1 s and
 * double up to 5 s. Meanwhile the writer's queue fills and drops records. Any other answer but 2xx
 * loses the batch at once. Lost records are counted. While the writer stops, each batch is tried
 * once, all of them within the time of the stop. The log gets the first failure, and the first
 * success after failures.
 *
 * Threads.  The writer's.
 */
#pragma once

#include "base/error.h"
#include "trace/trace_writer.h"

#define OTLP_MAX_TRIES 5
#define OTLP_TIMEOUT_S 10 /* limit of one try */

struct otlp_export_options {
        const char        *url;       /* borrowed, as the other members */
        const char *const *resources; /* "key=value" */
        size_t             n_resources;
};

/* Loads libcurl for the rest of the process. UNAVAILABLE names what is missing when there is no
 * libcurl. */
struct error *otlp_export_check(void) NODISCARD;
/* Returns the error of otlp_export_check() when there is no libcurl. */
struct error *otlp_export_new(const struct otlp_export_options *o, struct trace_sink **ret)
        NODISCARD;
