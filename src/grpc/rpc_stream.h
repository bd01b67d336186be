/* SPDX-License-Identifier: BSD-3-Clause */
/* ModelStreamInfer: any number of requests and responses on one call ("decoupled models").
 *
 * Each message starts an inference at once. Models that are not decoupled answer in the order of
 * their requests: an answer that is ready early waits for those before it. It is the first response;
 * one that comes before the model has ended goes out as soon as it is its turn, and is not the final
 * one then. Responses of decoupled models go out as they come.
 *
 * A request that fails is told in its turn, as a message with `error_message`, and the stream goes
 * on; with the metadata `triton_grpc_error: true` a failure of the model ends the stream with its
 * status instead, at once: the other requests are cancelled, and end after their client.
 *
 * What is in flight is bounded: beyond, no further message is read. What decoupled models have
 * answered and the client has not taken is bounded, too: each response is kept until it is with the
 * socket, and the backend waits while too many are kept (infer_call.h).
 *
 * Ownership.  The stream is in the arena of its call. Each request is memory of its own, recycled
 * within the stream, which lasts until the last of them has ended.
 * Threads.  The call's loop.
 */
#pragma once

#include "grpc/grpc_call.h"

/* Requests of one stream in flight. More would only wait in the model's queue. */
#define RPC_STREAM_MAX_REQUESTS 1024
/* Of their messages; one may always be in flight. */
#define RPC_STREAM_MAX_BYTES ((size_t)256 << 20)
/* Of all streams of a loop together; each may still have one request in flight. A request of a
 * small message takes some 7 KiB, so these are some 60 MiB. */
#define RPC_STREAM_MAX_REQUESTS_OF_LOOP 8192
#define RPC_STREAM_MAX_BYTES_OF_LOOP ((size_t)1 << 30)
/* Of one request's responses, when it is the only one. The n-th of a stream gets the n-th part, so
 * that all of them together stay within eight times that, the `unsent_bytes` of a call. A small
 * output has a whole block of the buffer pool, 4 KiB, which is why they are counted, too. */
#define RPC_STREAM_MAX_UNWRITTEN_BYTES ((size_t)8 << 20)
#define RPC_STREAM_MAX_UNWRITTEN 1024

void rpc_stream_open(struct grpc_call *call);
void rpc_stream_read(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_stream_half_close(struct grpc_call *call);
void rpc_stream_abort(struct grpc_call *call);
