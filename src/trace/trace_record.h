/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of one traced request: points in time and tensors, from the front end and from the
 * core, also of the inferences that were made on behalf of the request.
 *
 *     tracer_start -> trace_record_core() goes to the core, trace_record_point() -> unref
 *
 * One arena with a limit holds everything. An item that does not fit is counted and not recorded.
 *
 * Ownership.  Counted: the front end holds a reference until its answer is sent, the core until it
 * releases the trace. The last unref passes the record to the tracer's `on_complete`, which takes
 * it and frees it with trace_record_free().
 * Threads.  A mutex (rank LOCK_LEAF) guards the record until it is complete. Then its taker owns
 * it alone.
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

/* Limit of one record with all its tensors. */
#define TRACE_RECORD_MAX_BYTES (size_t)(64u << 20)
/* A longer tracestate is not passed on (W3C Trace Context, section 3.3.1.1: at least 512). */
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

/* One inference: that of the request itself, or one that it led to. */
struct trace_inference {
        uint64_t                id; /* the core's */
        uint64_t                parent_id;
        const char             *model_name; /* in arena, like the other texts */
        int64_t                 model_version;
        const char             *request_id;
        struct trace_inference *next;
};

struct trace_event {
        const struct trace_inference *inference; /* NULL: a point of the front end */
        int                           activity;  /* the core's; -1: of the front end */
        const char                   *name;      /* static; in arena for a custom activity */
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
        bool                      has_context; /* opentelemetry: continues `parent` or begins */
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
        struct trace_record *next;  /* for the owner after on_complete */

        struct TRITONSERVER_InferenceTrace *core; /* the core takes it with the request */

        bool               has_context;
        bool               has_parent;
        struct traceparent context; /* the trace, and the span of this request */
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

        struct arena arena;
        char         first_memory[2048] __attribute__((aligned(16)));
};

/* Makes the record and the core's trace. UNAVAILABLE when memory is short. */
struct error *trace_record_new(const struct trace_record_options *o, struct trace_record **ret)
        NODISCARD;
void trace_record_free(struct trace_record *r);
/* Returns the trace for the core, which takes a reference with it. */
struct TRITONSERVER_InferenceTrace *trace_record_core(const struct trace_record *r);

/* Releases the core's reference of a record that the core does not get. NULL is fine, also
 * below. */
void trace_record_abandon(struct trace_record *r);

/* For the front end. */
void trace_record_point(struct trace_record *r, enum trace_point point, uint64_t at_ns);
void trace_record_unref(struct trace_record *r);

/* The approximate memory of a record that waits. */
static inline size_t trace_record_bytes(const struct trace_record *r) {
        return sizeof(*r) + r->n_bytes + r->n_events * (sizeof(struct trace_event) + 16) +
               r->n_inferences * (sizeof(struct trace_inference) + 64);
}

/* The number of spans of the record: one for the request, two for each inference (the inference and
 * its computation). */
static inline size_t trace_record_n_spans(const struct trace_record *r) {
        return 1 + 2 * (size_t)r->n_inferences;
}
