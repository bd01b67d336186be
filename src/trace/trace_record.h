/* SPDX-License-Identifier: BSD-3-Clause */
/* What is recorded of one request that is traced: points in time and tensors, of the front end and
 * of the core, and of the inferences that were made on its behalf.
 *
 *     tracer_start -> trace_record_core() goes to the core, trace_record_point() -> unref
 *
 * Everything is kept in one arena with a limit. What does not fit is counted, never half kept.
 *
 * Ownership.  Counted: the front end holds it until its answer is sent, the core until it releases
 * the trace. Whoever comes last hands it to the tracer's `on_complete`, which takes it and ends it
 * with trace_record_free().
 * Threads.  A mutex (rank LOCK_MAILBOX) while it is recorded; then its taker's alone.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/ref.h"
#include "base/str.h"
#include "trace/traceparent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_InferenceTrace;
struct trace_record;
struct trace_source;

/* Of one record, with all its tensors. */
#define TRACE_RECORD_MAX_BYTES (size_t)(64u << 20)
/* Longer ones are not passed on (W3C Trace Context, section 3.3.1.1: at least 512). */
#define TRACE_RECORD_MAX_TRACESTATE 512

enum trace_point {
        TRACE_POINT_HTTP_RECV_START,
        TRACE_POINT_HTTP_RECV_END,
        TRACE_POINT_HTTP_SEND_START,
        TRACE_POINT_HTTP_SEND_END,
        TRACE_POINT_GRPC_WAITREAD_START,
        TRACE_POINT_GRPC_WAITREAD_END,
        TRACE_POINT_GRPC_SEND_START,
        TRACE_POINT_GRPC_SEND_END,
        TRACE_POINT_INFER_RESPONSE_COMPLETE,
};

/* One inference: the request's own, then those it led to. */
struct trace_inference {
        uint64_t                id; /* the core's */
        uint64_t                parent_id;
        const char             *model_name; /* in arena, as all texts here */
        int64_t                 model_version;
        const char             *request_id;
        struct trace_inference *next;
};

struct trace_event {
        const struct trace_inference *inference; /* NULL: the front end's */
        int                           activity;  /* of the core; -1: the front end's */
        const char                   *name;      /* static, or in arena for a custom activity */
        uint64_t                      at_ns;     /* monotonic */
        struct trace_event           *next;
};

struct trace_tensor {
        const struct trace_inference *inference;
        const char                   *activity; /* "TENSOR_QUEUE_INPUT" */
        const char                   *name;
        int                           type; /* TRITONSERVER_DataType */
        const int64_t                *shape;
        uint64_t                      n_dims;
        const void                   *bytes; /* NULL when they did not fit */
        size_t                        n_bytes;
        struct trace_tensor          *next;
};

typedef void (*trace_record_fn)(struct trace_record *r, void *owner);

struct trace_record_options {
        struct trace_source      *source;      /* ref, taken on success */
        bool                      has_context; /* mode opentelemetry: `parent` or a new trace */
        const struct traceparent *parent;      /* NULL = none; copied */
        struct str                tracestate;  /* copied */
        trace_record_fn           on_complete;
        void                     *owner;
};

struct trace_record {
        struct ref           ref;
        struct trace_source *source; /* ref */
        trace_record_fn      on_complete;
        void                *owner; /* borrowed: outlives all records */
        struct trace_record *next;  /* its taker's */

        struct TRITONSERVER_InferenceTrace *core; /* taken by the core with the request */

        bool               has_context;
        bool               has_parent;
        struct traceparent context; /* the trace and this request's own span */
        uint8_t            parent_span_id[8];
        const char        *tracestate;     /* in arena; "" */
        int64_t            wall_offset_ns; /* wall clock - monotonic clock */

        struct mutex            lock;
        struct trace_inference *first_inference, *last_inference;
        struct trace_event     *first_event, *last_event;
        struct trace_tensor    *first_tensor, *last_tensor;
        uint32_t                n_inferences;
        uint32_t                n_events;
        size_t                  n_bytes; /* of tensors */
        uint64_t                n_omitted;

        struct arena arena;
        char         first_memory[2048] __attribute__((aligned(16)));
};

/* Also makes the core's trace. UNAVAILABLE when memory is short. */
struct error *trace_record_new(const struct trace_record_options *o, struct trace_record **ret)
        NODISCARD;
void trace_record_free(struct trace_record *r);
/* For the core; it takes a reference with it. */
struct TRITONSERVER_InferenceTrace *trace_record_core(const struct trace_record *r);

/* The core will not get it: gives its reference back. NULL is fine, as below. */
void trace_record_abandon(struct trace_record *r);

/* The front end's. */
void trace_record_point(struct trace_record *r, enum trace_point point, uint64_t at_ns);
void trace_record_unref(struct trace_record *r);

/* What it costs while it waits, roughly. */
static inline size_t trace_record_bytes(const struct trace_record *r) {
        return sizeof(*r) + r->n_bytes + r->n_events * (sizeof(struct trace_event) + 16) +
               r->n_inferences * (sizeof(struct trace_inference) + 64);
}

/* How many spans it makes: the request, and of each inference itself and its computing. */
static inline size_t trace_record_n_spans(const struct trace_record *r) {
        return 1 + 2 * (size_t)r->n_inferences;
}
