/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods of the method table (rpc_table.c), except ModelStreamInfer (rpc_stream.h).
 *
 * Most methods are an rpc_answer_fn: they make an answer from a request, both protobuf-c structs.
 * Such a method answers at once through *ret_answer; or it sets *ret_answer to NULL, returns NULL, and
 * ends the call later (rpc_map_reply(), grpc_call_fail()). An error ends the call with its code and
 * text. The others read their messages themselves.
 *
 * Ownership.  Requests and answers are in the call's arena; so is the state of the other methods.
 * Threads.  The call's loop; operations that block run through grpc_call_start_work_thread().
 */
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "codec/pb_field.h"
#include "grpc/grpc_call.h"

struct model_query;

typedef struct error *(*rpc_answer_fn)(struct grpc_call *call, const ProtobufCMessage *request,
                                       ProtobufCMessage **ret_answer);

/* rpc_health.c */
struct error *rpc_server_live(struct grpc_call *call, const ProtobufCMessage *request,
                              ProtobufCMessage **ret_answer);
struct error *rpc_server_ready(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer);
struct error *rpc_model_ready(struct grpc_call *call, const ProtobufCMessage *request,
                              ProtobufCMessage **ret_answer);
struct error *rpc_health_check(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer);

/* Period at which grpc.health.v1.Health/Watch queries the state; orchestrators that poll ask every few
 * seconds. */
#define RPC_HEALTH_QUERY_NS (5 * NS_PER_S)
void rpc_health_watch(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_health_end_watch(struct grpc_call *call); /* on_abort */
bool rpc_health_watch_is_quiet(const struct grpc_call *call);

/* rpc_metadata.c */
struct error *rpc_server_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer);
struct error *rpc_model_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                 ProtobufCMessage **ret_answer);
struct error *rpc_model_config(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer);
struct error *rpc_model_statistics(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer);

/* Runs a query about all models on a work thread, then ends the call with its answer. */
void rpc_metadata_reply_bulk(struct grpc_call *call, const struct model_query *query,
                             const ProtobufCMessageDescriptor *type);

/* rpc_repository.c */
struct error *rpc_repository_index(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer);
struct error *rpc_repository_load(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer);
struct error *rpc_repository_unload(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer);

/* rpc_shm.c */
struct error *rpc_system_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer);
struct error *rpc_system_shm_register(struct grpc_call *call, const ProtobufCMessage *request,
                                      ProtobufCMessage **ret_answer);
struct error *rpc_system_shm_unregister(struct grpc_call *call, const ProtobufCMessage *request,
                                        ProtobufCMessage **ret_answer);
struct error *rpc_cuda_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer);
struct error *rpc_cuda_shm_register(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer);
struct error *rpc_cuda_shm_unregister(struct grpc_call *call, const ProtobufCMessage *request,
                                      ProtobufCMessage **ret_answer);

/* rpc_trace.c */
struct error *rpc_trace_setting(struct grpc_call *call, const ProtobufCMessage *request,
                                ProtobufCMessage **ret_answer);

/* rpc_logging.c */
struct error *rpc_log_settings(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer);

/* rpc_reflection.c */
void rpc_reflection_open(struct grpc_call *call);
void rpc_reflection_read(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_reflection_half_close(struct grpc_call *call);
void rpc_reflection_abort(struct grpc_call *call);
bool rpc_reflection_is_quiet(const struct grpc_call *call);

/* rpc_infer.c: ModelInfer */
void rpc_infer(struct grpc_call *call, struct str message, struct buf *owner);
void rpc_infer_cancel(struct grpc_call *call); /* on_abort */

/* Casts a request to the type with which the method table has unpacked it. */
#define RPC_REQUEST(type, message) ((const type *)(const void *)(message))
