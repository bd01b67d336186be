/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference of a client, for ModelInfer and ModelStreamInfer: from the message to the core, and from the
 * core's response to a message.
 *
 *     rpc_inference_init -> read -> fill -> infer_call_start -> ... -> done
 *
 * Ownership.  It lives in memory of its method. Decoded data go into the given arena, which must last until
 * done(). done() may be called at any time after init().
 * Threads.  One at a time: the call's loop, or a compute thread that the loop has lent it to.
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
        struct buf         *bytes; /* ref: holds the message; NULL when it is empty */
        struct infer_wire   wire;
        int64_t             version;
        enum access_verdict verdict;      /* GRANTED, or why read() failed */
        bool                is_decoupled; /* the model is decoupled; set by read() */
        struct infer_call   call;
};

/* `on_done` and its argument `owner` are those of the infer_call. */
void rpc_inference_init(struct rpc_inference *i, struct grpc_call *grpc, struct arena *arena,
                        void *owner, infer_call_fn on_done);

/* Reads the message and finds the model. Checks, in this order: syntax, the caller's access to the model,
 * version, model. */
struct error *rpc_inference_read(struct rpc_inference *i, struct str message, struct buf *owner)
        NODISCARD;
/* Fills the request of the C API: parameters, metadata, tensors. */
struct error *rpc_inference_fill(struct rpc_inference *i) NODISCARD;
void          rpc_inference_done(struct rpc_inference *i);

/* Properties of a response in a stream, beside its content. */
struct rpc_inference_framing {
        bool is_streamed;
        bool is_final;
};

/* Encodes a response as a message in `arena`. Returns the error that the response carries, if any. If it
 * takes too long for the loop, sets *ret_is_long and encodes nothing. */
struct error *rpc_inference_encode(const struct rpc_inference            *i,
                                   struct TRITONSERVER_InferenceResponse *response,
                                   const struct rpc_inference_framing *framing, struct arena *arena,
                                   struct infer_answer_parts *ret, bool *ret_is_long) NODISCARD;
/* As rpc_inference_encode(), on any thread and without a limit; also compresses if the call wants that. */
struct error *rpc_inference_encode_long(const struct rpc_inference            *i,
                                        struct TRITONSERVER_InferenceResponse *response,
                                        const struct rpc_inference_framing    *framing,
                                        struct arena *arena, struct infer_answer_parts *ret)
        NODISCARD;
/* True when rpc_inference_read() takes too long for the loop; and, after it, when filling and submitting
 * does. */
bool rpc_inference_is_long(struct str message);
/* True when it takes too long for the loop, but not for long. */
bool rpc_inference_is_short(struct str message);
bool rpc_inference_has_long_tensors(const struct rpc_inference *i);

/* The model, and the time in which its message was waited for and read. */
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
