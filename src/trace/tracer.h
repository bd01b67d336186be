/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of requests, for both protocols: settings, sampling, records, and the writer.
 *
 *     struct trace_record *r = tracer_start(t, &request);     mostly NULL: not traced
 *     trace_record_point(r, ...); infer_call_start(&call, r); ...; trace_record_unref(r);
 *
 * Ownership.  The tracer outlives all servers and records. It is freed after the core has released
 * everything, and before the core is deleted, because the metric belongs to the core.
 * Threads.  Any. start, stop and free: the main thread.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "trace/trace_record.h"
#include "trace/trace_settings.h"

#include <stdbool.h>
#include <stddef.h>

struct TRITONSERVER_Server;
struct tracer;

/* Checks that the settings are valid, that the file can be written and, in mode opentelemetry, that
 * libcurl is there. To be called before models are loaded, which may take long. */
struct error *tracer_check(const struct trace_config *config) NODISCARD;
/* Starts the thread only when something may be traced: with a file, or in mode opentelemetry. */
struct error *tracer_new(const struct trace_config *config, struct TRITONSERVER_Server *core,
                         struct tracer **ret) NODISCARD;
/* Writes all records in bounded time and frees the tracer. NULL is fine. */
void tracer_free(struct tracer *t);
/* For a process that ends while models still run: writes all records in bounded time. Later records
 * are lost. NULL is fine. */
void tracer_flush(struct tracer *t);

struct trace_request {
        const char *model;
        struct str  traceparent; /* as sent; ptr NULL = not sent */
        struct str  tracestate;
};

/* True when requests may be traced at all. Callers look for the headers only then. */
bool tracer_is_on(const struct tracer *t); /* NULL: false */
/* NULL when this request is not traced. */
struct trace_record *tracer_start(struct tracer *t, const struct trace_request *q);
/* Prints the header `traceparent` of the answer. False when the answer gets none. */
bool tracer_answer_header(const struct trace_record *r, char out[TRACEPARENT_CHARS + 1]);

/* Checks the model of a request for settings; NULL is fine. INVALID_ARG "Request for unknown model :
 * <m>" for one that does not exist or is not ready, as the reference server has it. */
struct error *tracer_check_model(struct TRITONSERVER_Server *core, const char *model) NODISCARD;
/* Like trace_settings_change() and trace_settings_report(). */
struct error *tracer_change(struct tracer *t, const char *model, const struct trace_change *change)
        NODISCARD;
size_t tracer_report(struct tracer *t, const char *model, struct arena *arena,
                     struct trace_report_row rows[TRACE_REPORT_MAX_ROWS]);
