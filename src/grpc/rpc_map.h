/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages between three forms: the wire, protobuf-c's structs, and the JSON in which the
 * C API answers.
 *
 * The JSON of an answer and its message have the same names, so one reader (codec/pb_json.h) does
 * for all; where the message has one field more around it, a table says so.
 *
 * Ownership.  Messages are in the arena that is given, mostly the call's; nothing in them may be
 * freed with protobuf-c.
 * Threads.  The call's loop; what takes an arena, also another thread that has it to itself.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "codec/pb_field.h"
#include "grpc/grpc_call.h"

struct TRITONSERVER_Message;

/* A request from its bytes. INVALID_ARG "failed to parse the <type> message", with
 * ": a string contains a NUL character" where that is why. */
struct error *rpc_map_request(const ProtobufCMessageDescriptor *type, struct str bytes,
                              struct arena *arena, ProtobufCMessage **ret) NODISCARD;

/* The answer of the C API, borrowed, as a message of that type. */
struct error *rpc_map_answer(const ProtobufCMessageDescriptor *type,
                             struct TRITONSERVER_Message *answer, struct arena *arena,
                             ProtobufCMessage **ret) NODISCARD;

/* The bytes of a message, in a buffer of the pool (NULL: of none) or, while they are few, in the
 * arena. UNAVAILABLE when memory is short. On any thread that has the arena to itself. */
struct error *rpc_map_pack(const ProtobufCMessage *message, struct buf_pool *pool,
                           struct arena *scratch, struct grpc_part *ret) NODISCARD;
/* grpc_call_send() of a message. UNAVAILABLE when memory is short; nothing is sent then. `scratch`
 * is free again afterwards. */
struct error *rpc_map_send(struct grpc_call *call, const ProtobufCMessage *message,
                           struct arena *scratch) NODISCARD;
/* Ends the call, with the message or with what is wrong. */
void rpc_map_reply(struct grpc_call *call, const ProtobufCMessage *message);
