/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of gRPC requests: what a method does for them.
 *
 * Threads.  The call's loop.
 */
#pragma once

#include "grpc/grpc_call.h"

struct trace_record;

/* When a message was waited for and read. */
struct grpc_trace_read {
        const char *model;
        uint64_t    start_ns, end_ns;
};

/* NULL when this request is not traced. Of a unary call: its answer gets the metadata `traceparent`,
 * and the record ends with the call. Of a stream the record is the caller's. */
struct trace_record *grpc_trace_start(struct grpc_call *call, const struct grpc_trace_read *read);
/* The two halves of that, for a unary call: the record, on any thread; on the loop, the rest, of a
 * record that may be NULL. */
struct trace_record *grpc_trace_begin(const struct grpc_call *call,
                                      const struct grpc_trace_read *read);
void                 grpc_trace_attach(struct grpc_call *call, struct trace_record *r);
