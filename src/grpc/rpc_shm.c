/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions, as far as they go: frontend/shared_memory.h. */
#include "grpc/rpc_control.h"

#include "codec/pb_build.h"
#include "frontend/shared_memory.h"
#include "grpc/grpc_service.h"
#include "grpc_service.pb-c.h"

static struct error *refuse(const struct grpc_call *call) {
        return shared_memory_refuse_change(call->service->allow_client_shm);
}

struct error *rpc_system_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        const Inference__SystemSharedMemoryStatusRequest *q =
                RPC_REQUEST(Inference__SystemSharedMemoryStatusRequest, request);

        TRY(shared_memory_find("system", str_of(q->name)));
        return pb_message_new(&inference__system_shared_memory_status_response__descriptor,
                              &call->arena, ret_answer);
}

struct error *rpc_system_shm_register(struct grpc_call       *call,
                                      const ProtobufCMessage *request UNUSED,
                                      ProtobufCMessage      **ret_answer UNUSED) {
        return refuse(call);
}

struct error *rpc_system_shm_unregister(struct grpc_call       *call,
                                        const ProtobufCMessage *request UNUSED,
                                        ProtobufCMessage      **ret_answer UNUSED) {
        return refuse(call);
}

struct error *rpc_cuda_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer) {
        const Inference__CudaSharedMemoryStatusRequest *q =
                RPC_REQUEST(Inference__CudaSharedMemoryStatusRequest, request);

        TRY(shared_memory_find("cuda", str_of(q->name)));
        return pb_message_new(&inference__cuda_shared_memory_status_response__descriptor,
                              &call->arena, ret_answer);
}

/* Said before the switch that allows shared memory is looked at. */
struct error *rpc_cuda_shm_register(struct grpc_call *call UNUSED, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer UNUSED) {
        return error_new(ERR_INVALID_ARG,
                         "failed to register CUDA shared memory region: '%s', GPUs not supported",
                         RPC_REQUEST(Inference__CudaSharedMemoryRegisterRequest, request)->name);
}

struct error *rpc_cuda_shm_unregister(struct grpc_call       *call,
                                      const ProtobufCMessage *request UNUSED,
                                      ProtobufCMessage      **ret_answer UNUSED) {
        return refuse(call);
}
