/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of requests, as both protocols use them: settings, sampling, records, and the writer.
 *
 *     struct trace_record *r = tracer_start(t, &request);     mostly NULL: not traced
 *     trace_record_point(r, ...); infer_call_start(&call, r); ...; trace_record_unref(r);
 *
 * Ownership.  The tracer outlives all servers and records: it is stopped when the core has released
 * everything, and before the core is deleted (its metric is the core's).
 * Threads.  Any; start, stop and free: main.
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

/* Before models, which may take their time, are loaded: whether the settings agree, the file can be
 * written and, in mode opentelemetry, libcurl is there. */
struct error *tracer_check(const struct trace_config *config) NODISCARD;
/* Starts the thread, only when something may be traced: a file or mode opentelemetry is given. */
struct error *tracer_new(const struct trace_config *config, struct TRITONSERVER_Server *core,
                         struct tracer **ret) NODISCARD;
/* Writes what is there, in bounded time, and ends. NULL is fine. */
void tracer_free(struct tracer *t);
/* For a process that ends while models are at work: writes what is there, in bounded time. Records
 * may still come, and are lost. NULL is fine. */
void tracer_flush(struct tracer *t);

struct trace_request {
        const char *model;
        struct str  traceparent; /* as sent; ptr NULL = not */
        struct str  tracestate;
};

/* Whether a request may be traced at all; so that its headers are only then looked for. */
bool tracer_is_on(const struct tracer *t); /* NULL: false */
/* NULL when this request is not traced. */
struct trace_record *tracer_start(struct tracer *t, const struct trace_request *q);
/* What the answer's header `traceparent` says. False when there is to be none. */
bool tracer_answer_header(const struct trace_record *r, char out[TRACEPARENT_CHARS + 1]);

/* Of a model that settings are asked for; NULL is fine. NOT_FOUND, the core's, for one that is not
 * there; INVALID_ARG "Request for unknown model : <m>" for one that is not ready. */
struct error *tracer_check_model(struct TRITONSERVER_Server *core, const char *model) NODISCARD;
/* As trace_settings_change() and trace_settings_report(). */
struct error *tracer_change(struct tracer *t, const char *model, const struct trace_change *change)
        NODISCARD;
size_t tracer_report(struct tracer *t, const char *model, struct arena *arena,
                     struct trace_report_row rows[TRACE_REPORT_MAX_ROWS]);
