/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions, as far as they go: clients may not register regions, so there are
 * none. */
#include "grpc/rpc_control.h"

#include "codec/pb_build.h"
#include "grpc/grpc_service.h"
#include "grpc_service.pb-c.h"

static struct error *find_region(const char *kind, const char *region) {
        if (region[0] == '\0')
                return NULL; /* all of them */
        return error_new(ERR_NOT_FOUND, "Unable to find %s shared memory region: '%s'", kind,
                         region);
}

static struct error *refuse(const struct grpc_call *call) {
        return error_new_text(ERR_UNSUPPORTED,
                              call->service->allow_client_shm
                                      ? "shared memory is not supported yet"
                                      : "Client shared memory is disabled. Start the server with "
                                        "'--allow-client-shm=true' to enable.");
}

struct error *rpc_system_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        TRY(find_region("system",
                        RPC_REQUEST(Inference__SystemSharedMemoryStatusRequest, request)->name));
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
        TRY(find_region("cuda",
                        RPC_REQUEST(Inference__CudaSharedMemoryStatusRequest, request)->name));
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
