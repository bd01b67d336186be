/* SPDX-License-Identifier: BSD-3-Clause */
/* ModelStreamInfer: any number of requests and responses on one call ("decoupled models").
 *
 * Each message starts an inference at once. Requests to models that are not decoupled are answered in their
 * order: an answer that is ready early waits for those before it. The answer is the model's first response.
 * If its turn comes before the model has ended, it is sent without the final flag. Responses of decoupled
 * models are sent as they arrive.
 *
 * The error of a request is sent in its turn, as a message with `error_message`, and the stream continues.
 * With the metadata `triton_grpc_error: true`, an error of the model instead ends the stream at once with its
 * status; the other requests are cancelled, and end after the client has its status.
 *
 * The requests in flight are limited; beyond the limit no further message is read. The responses of decoupled
 * models that the client has not taken are limited as well: each is kept until it is written, and the backend
 * waits while too many are kept (infer_call.h).
 *
 * Ownership.  The stream is in the arena of its call. Each request has memory of its own, which the stream
 * reuses. The stream lasts until the last request has ended.
 * Threads.  The call's loop.
 */
#pragma once

#include "grpc/grpc_call.h"

/* Limit of the requests in flight of a stream. More would only wait in the model's queue. */
#define RPC_STREAM_MAX_REQUESTS 1024
/* Limit of the size of their messages; one request may always be in flight. */
#define RPC_STREAM_MAX_BYTES ((size_t)256 << 20)
/* Limits of all streams of a loop together; each may still have one request in flight. A request with a small
 * message takes about 7 KiB, so these are about 60 MiB. */
#define RPC_STREAM_MAX_REQUESTS_OF_LOOP 8192
#define RPC_STREAM_MAX_BYTES_OF_LOOP ((size_t)1 << 30)
/* Limits of the unwritten responses of a request that is the only one of its stream. The n-th request gets
 * the n-th part, so that all of them together stay within eight times that, the `unsent_bytes` of a call.
 * The number is limited as well, because a small output takes a whole block of the buffer pool, 4 KiB. */
#define RPC_STREAM_MAX_UNWRITTEN_BYTES ((size_t)8 << 20)
#define RPC_STREAM_MAX_UNWRITTEN 1024

void rpc_stream_open(struct grpc_call *call);
void rpc_stream_read(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_stream_half_close(struct grpc_call *call);
void rpc_stream_abort(struct grpc_call *call);
/* True while no request of the stream is in flight, and its client has all answers. */
bool rpc_stream_is_quiet(const struct grpc_call *call);
