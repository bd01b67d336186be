/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace of one inference, reported while it runs: TRITONSERVER_InferenceTrace.
 *
 * A program creates a trace and passes it to TRITONSERVER_ServerInferAsync(). At each point of the
 * inference the trace's callbacks report the time, on the thread that reaches the point. A request
 * without a trace costs one check of a pointer at each of these points.
 *
 * Ownership.  The program owns a trace until trace_begin() succeeds. From then on it is reference
 * counted. References are held by the request until its release, by each of its responses until that
 * is sent, by each of its factories, and by each child that was spawned meanwhile until that is
 * deleted. The last trace_unref() calls the release callback once, which returns the trace to the
 * program. So the callbacks of children come before the release of their parent.
 * Threads.  The activity callbacks of one trace may run concurrently on several threads: a response
 * may be sent while the request is being released. The program guards its context.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "config/data_type.h"
#include "infer/buffer_attributes.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_stats;
struct request;
struct request_times;
struct response;
struct trace;

/* The numbers are those of the C API. */
enum trace_level {
        TRACE_LEVEL_MIN = 1, /* deprecated names of TIMESTAMPS */
        TRACE_LEVEL_MAX = 2,
        TRACE_LEVEL_TIMESTAMPS = 4,
        TRACE_LEVEL_TENSORS = 8,
};

enum trace_activity {
        TRACE_REQUEST_START,
        TRACE_QUEUE_START,
        TRACE_COMPUTE_START,
        TRACE_COMPUTE_INPUT_END,
        TRACE_COMPUTE_OUTPUT_START,
        TRACE_COMPUTE_END,
        TRACE_REQUEST_END,
        TRACE_TENSOR_QUEUE_INPUT,
        TRACE_TENSOR_BACKEND_INPUT,
        TRACE_TENSOR_BACKEND_OUTPUT,
        TRACE_CUSTOM_ACTIVITY,
};

/* The C API's types, with enums as int: this layer does not include the public header. */
typedef void (*trace_activity_fn)(struct trace *t, int activity, uint64_t timestamp_ns,
                                  void *userp);
typedef void (*trace_tensor_fn)(struct trace *t, int activity, const char *name, int type,
                                const void *base, size_t byte_size, const int64_t *shape,
                                uint64_t n_dims, int memory_type, int64_t memory_id, void *userp);
typedef void (*trace_release_fn)(struct trace *t, void *userp);

struct trace_options {
        uint32_t          level; /* bits of enum trace_level */
        uint64_t          parent_id;
        trace_activity_fn on_activity;
        trace_tensor_fn   on_tensor; /* NULL: tensors are not reported, whatever the level */
        trace_release_fn  on_release;
        void             *userp;
};

struct trace {
        struct trace_options options;
        uint64_t             id; /* from 1, in the order of creation */
        /* Ref; NULL: none, or no inference held it when this child was spawned. */
        struct trace    *parent;
        _Atomic uint32_t n_holders; /* 0 = owned by the program */

        char   *model_name; /* owned; NULL before trace_begin(), as request_id */
        int64_t model_version;
        char   *request_id; /* owned */
        char   *context;    /* owned; NULL when none was set */
};

/* NULL when memory is short. */
struct trace *trace_new(const struct trace_options *o) NODISCARD;
/* INVALID_ARG while an inference holds it. NULL is fine. */
struct error *trace_free(struct trace *t) NODISCARD;
/* A child with the same level, callbacks and context. NULL when memory is short. */
struct trace *trace_spawn(struct trace *t) NODISCARD;
/* NULL removes the context. */
struct error *trace_set_context(struct trace *t, const char *context) NODISCARD;

/* The request takes the trace, which records the model and the id. On error the trace is still the
 * caller's. */
struct error *trace_begin(struct trace *t, struct request *req) NODISCARD;
/* Ends the trace of a request that was refused after trace_begin(): reports the end and drops the
 * reference. */
void trace_refuse(struct request *req);

void trace_ref(struct trace *t);
void trace_unref(struct trace *t); /* NULL is fine; may call the release callback */

static inline bool trace_wants_tensors(const struct trace *t) {
        return (t->options.level & TRACE_LEVEL_TENSORS) != 0 && t->options.on_tensor != NULL;
}

/* Makes the request of the trace an exemplar of its model's latency, with the 32 digits of the trace id
 * in the context's traceparent, or else with the trace's number. */
void trace_mark_latency(const struct trace *t, struct model_stats *stats,
                        const struct request_times *times);

void trace_report(struct trace *t, enum trace_activity activity, uint64_t timestamp_ns);
/* Reports a custom activity of the backend. */
void trace_report_custom(struct trace *t, const char *name, uint64_t timestamp_ns);
/* The name of the activity, in the callback of a CUSTOM_ACTIVITY, on its thread. NULL elsewhere. */
const char *trace_custom_name(void);

/* Reports all inputs of a traced request, or all outputs of a traced response. */
void trace_report_inputs(const struct request *req, enum trace_activity activity);
void trace_report_outputs(const struct response *response);
