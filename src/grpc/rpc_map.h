/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts control messages between three forms: the wire format, protobuf-c's structs, and the JSON of the
 * C API.
 *
 * The JSON of an answer and its message use the same names, so one reader (codec/pb_json.h) converts them
 * all. A table lists the messages that have one more field around the JSON.
 *
 * Ownership.  Messages are in the given arena, usually that of the call; they must not be freed with
 * protobuf-c.
 * Threads.  The call's loop. Functions with an arena: also another thread that owns the arena.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "codec/pb_field.h"
#include "grpc/grpc_call.h"

struct TRITONSERVER_Message;

/* Unpacks a request. INVALID_ARG "failed to parse the <type> message", followed by ": a string contains a NUL
 * character" if that is the reason. */
struct error *rpc_map_request(const ProtobufCMessageDescriptor *type, struct str bytes,
                              struct arena *arena, ProtobufCMessage **ret) NODISCARD;

/* Converts an answer of the C API, which is borrowed, to a message of that type. */
struct error *rpc_map_answer(const ProtobufCMessageDescriptor *type,
                             struct TRITONSERVER_Message *answer, struct arena *arena,
                             ProtobufCMessage **ret) NODISCARD;

/* Packs a message into a buffer of the pool (which may be NULL) or, if it is small, into the arena.
 * UNAVAILABLE when memory is short. On any thread that owns the arena. */
struct error *rpc_map_pack(const ProtobufCMessage *message, struct buf_pool *pool,
                           struct arena *scratch, struct grpc_part *ret) NODISCARD;
/* Sends a message with grpc_call_send(). UNAVAILABLE when memory is short; nothing is sent then. Resets
 * `scratch` at the end. */
struct error *rpc_map_send(struct grpc_call *call, const ProtobufCMessage *message,
                           struct arena *scratch) NODISCARD;
/* Ends the call with the message, or with the error of packing it. */
void rpc_map_reply(struct grpc_call *call, const ProtobufCMessage *message);
