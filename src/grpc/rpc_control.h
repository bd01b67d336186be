/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods that do not infer: each makes an answer from a request, both protobuf-c structs.
 *
 * A method answers at once by *ret_answer; or it leaves that NULL, returns NULL, and ends the call
 * later (rpc_map_reply, grpc_call_fail). An error ends the call with its code and text.
 *
 * Ownership.  Requests and answers are in the call's arena.
 * Threads.  The call's loop; what blocks goes through grpc_call_start_work_thread().
 */
#pragma once

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

/* rpc_control.c */
struct error *rpc_server_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer);
struct error *rpc_model_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                 ProtobufCMessage **ret_answer);
struct error *rpc_model_config(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer);
struct error *rpc_model_statistics(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer);

/* Ends the call, later, with the core's answer to a question about all models. */
void rpc_control_reply_bulk(struct grpc_call *call, const struct model_query *query,
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

/* The request as its own type; it is one, since the method table says of what type it is read. */
#define RPC_REQUEST(type, message) ((const type *)(const void *)(message))
