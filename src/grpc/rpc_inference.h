/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference of a client, as ModelInfer and ModelStreamInfer both need it: from the message to
 * the core, and from the core's response to a message.
 *
 *     rpc_inference_init -> prepare -> infer_call_start -> ... -> done
 *
 * Ownership.  It lives in memory of its method; what it reads goes into the arena given, which
 * must last until done(). done() may be called whenever init() was.
 * Threads.  One at a time: the call's loop, or one that the loop has given it to meanwhile.
 */
#pragma once

#include "call/infer_call.h"
#include "grpc/grpc_call.h"
#include "grpc/infer_decode.h"
#include "grpc/infer_encode.h"

struct TRITONSERVER_InferenceResponse;
struct trace_record;

struct rpc_inference {
        struct grpc_call   *grpc;  /* borrowed */
        struct arena       *arena; /* borrowed */
        struct buf         *bytes; /* ref: of the message; NULL when it is empty */
        struct infer_wire   wire;
        int64_t             version;
        enum access_verdict verdict;      /* GRANTED, or why read() failed */
        bool                is_decoupled; /* the model; known once prepare() has found it */
        struct infer_call   call;
};

/* The callbacks are infer_call's, `owner` is for them. */
void rpc_inference_init(struct rpc_inference *i, struct grpc_call *grpc, struct arena *arena,
                        void *owner, infer_call_fn on_done);

/* Reads the message and finds the model. In the order of the reference: syntax, version, model;
 * before the model is looked for it is seen whether the caller may use it. */
struct error *rpc_inference_read(struct rpc_inference *i, struct str message, struct buf *owner)
        NODISCARD;
/* Makes the request of the C API: parameters, metadata, tensors. */
struct error *rpc_inference_fill(struct rpc_inference *i) NODISCARD;
void          rpc_inference_done(struct rpc_inference *i);

/* What to say of a streamed response, beside its content. */
struct rpc_inference_framing {
        bool is_streamed;
        bool is_final;
};

/* A response as a message, in `arena`; the failure it carries, if it does. What takes a loop too long
 * is not begun: *ret_is_long. */
struct error *rpc_inference_encode(const struct rpc_inference            *i,
                                   struct TRITONSERVER_InferenceResponse *response,
                                   const struct rpc_inference_framing *framing, struct arena *arena,
                                   struct infer_answer_parts *ret, bool *ret_is_long) NODISCARD;
/* The same for any thread: however long it takes, and compressed if the call wants that. */
struct error *rpc_inference_encode_long(const struct rpc_inference            *i,
                                        struct TRITONSERVER_InferenceResponse *response,
                                        const struct rpc_inference_framing    *framing,
                                        struct arena *arena, struct infer_answer_parts *ret)
        NODISCARD;
/* Whether reading, or what the core does with it then, takes a loop too long. Before and after
 * rpc_inference_read(). */
bool rpc_inference_is_long(struct str message);
bool rpc_inference_has_long_tensors(const struct rpc_inference *i);

/* When a message was waited for and read. */
struct rpc_inference_read_times {
        const char *model;
        uint64_t    start_ns, end_ns;
};

/* Starts the trace of an inference; NULL when it is not traced. In a unary call the answer gets the
 * metadata `traceparent`, and the record ends with the call. In a stream the caller owns the record. */
struct trace_record *rpc_inference_start_trace(struct grpc_call                      *grpc,
                                               const struct rpc_inference_read_times *read);
/* The two halves of that function for a unary call. The first creates the record, on any thread; the
 * second attaches it to the call, on the loop, and does nothing for NULL. */
struct trace_record *rpc_inference_create_trace(const struct grpc_call                *grpc,
                                                const struct rpc_inference_read_times *read);
void                 rpc_inference_attach_trace(struct grpc_call *grpc, struct trace_record *r);
