/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of language models, which the front end measures for every model, with any engine:
 *
 *     neso_llm_time_to_first_token_seconds    from the request to the first response with text
 *     neso_llm_inter_token_latency_seconds    between responses with text
 *     neso_llm_request_seconds                from the request to the end of the answer
 *     neso_llm_prompt_tokens_total, neso_llm_generation_tokens_total    as the model counts them
 *     neso_llm_requests_total{finish_reason}  choices by the reason of their end
 *
 * Labels are model and version. Each model has one set, which is made with its first request and lasts as
 * long as the server. Beyond OPENAI_MAX_METERS models, further ones are not measured.
 *
 * Ownership.  openai_metrics_free() frees what openai_metrics_new() returns, before the core is deleted.
 * Threads.  Any. The list of meters has a lock; a meter's numbers are atomic.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

#define OPENAI_MAX_METERS 1024
#define OPENAI_BUCKETS 16

enum openai_latency {
        OPENAI_FIRST_TOKEN,
        OPENAI_BETWEEN_TOKENS,
        OPENAI_WHOLE_REQUEST,
        N_OPENAI_LATENCIES,
};

enum openai_count {
        OPENAI_PROMPT_TOKENS,
        OPENAI_GENERATION_TOKENS,
        OPENAI_ENDED_STOP,
        OPENAI_ENDED_LENGTH,
        OPENAI_ENDED_TOOL_CALLS,
        OPENAI_ENDED_OTHER,
        OPENAI_ENDED_ERROR,
        N_OPENAI_COUNTS,
};

struct openai_metrics;
struct openai_meter;

struct error *openai_metrics_new(struct openai_metrics **ret) NODISCARD;
void          openai_metrics_free(struct openai_metrics *m); /* NULL is fine */

/* Returns the meter of a version of a model, borrowed; NULL when there is none: m is NULL, there are too
 * many, or memory is short. */
struct openai_meter *openai_metrics_meter(struct openai_metrics *m, const char *model,
                                          int64_t version);
/* What the meters of a model have counted since the server's start. */
struct openai_reading {
        const char *model; /* borrowed; as long as the metrics */
        int64_t     version;
        double      seconds[N_OPENAI_LATENCIES]; /* sums */
        uint64_t    buckets[N_OPENAI_LATENCIES][OPENAI_BUCKETS];
        uint64_t    counts[N_OPENAI_COUNTS];
};

/* Bucket i of a reading has the times above bound i - 1 and up to bound i, in seconds; the last those above all
 * bounds. */
extern const double openai_bounds[OPENAI_BUCKETS - 1];

/* Calls `each` for every meter, in any order. A meter that cannot be read is left out. NULL is fine. */
void openai_metrics_read(struct openai_metrics *m,
                         void (*each)(void *owner, const struct openai_reading *r), void *owner);
/* Both accept NULL. */
void openai_meter_observe(struct openai_meter *m, enum openai_latency what, uint64_t ns);
void openai_meter_add(struct openai_meter *m, enum openai_count what, uint64_t n);
