/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions (shm/shared_memory.h). */
#include "call/service.h"
#include "codec/pb_build.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"
#include "shm/shared_memory.h"

#define STATUS_OUT Inference__SystemSharedMemoryStatusResponse
#define REGION_OUT Inference__SystemSharedMemoryStatusResponse__RegionStatus
#define ENTRY_OUT Inference__SystemSharedMemoryStatusResponse__RegionsEntry

/* ---- status ---- */

static struct error *add_region(STATUS_OUT *answer, const struct shared_memory_entry *e,
                                struct arena *arena) {
        ProtobufCMessage *message;
        REGION_OUT       *status;
        ENTRY_OUT        *entry;

        TRY(pb_message_new(
                &inference__system_shared_memory_status_response__regions_entry__descriptor, arena,
                &message));
        entry = (void *)message;
        TRY(pb_message_new(
                &inference__system_shared_memory_status_response__region_status__descriptor, arena,
                &message));
        status = (void *)message;
        entry->key = status->name = (char *)e->name; /* never written to */
        entry->value = status;
        status->key = (char *)e->key;
        status->offset = e->offset;
        status->byte_size = e->byte_size;
        answer->regions[answer->n_regions++] = entry;
        return NULL;
}

struct error *rpc_system_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        const Inference__SystemSharedMemoryStatusRequest *q =
                RPC_REQUEST(Inference__SystemSharedMemoryStatusRequest, request);
        struct shared_memory_entry *entries;
        STATUS_OUT                 *answer;
        size_t                      n;

        TRY(shared_memory_list(call->service->shared_memory, SHARED_MEMORY_SYSTEM, str_of(q->name),
                               &call->arena, &entries, &n));
        TRY(pb_message_new(&inference__system_shared_memory_status_response__descriptor,
                           &call->arena, ret_answer));
        answer = (void *)*ret_answer;
        answer->regions = arena_try_alloc(&call->arena, MAX(n, 1) * sizeof(answer->regions[0]));
        if (answer->regions == NULL)
                return pb_out_of_memory();
        for (size_t i = 0; i < n; i++)
                TRY(add_region(answer, &entries[i], &call->arena));
        return NULL;
}

/* CUDA regions do not exist. */
struct error *rpc_cuda_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer) {
        const Inference__CudaSharedMemoryStatusRequest *q =
                RPC_REQUEST(Inference__CudaSharedMemoryStatusRequest, request);
        struct shared_memory_entry *entries;
        size_t                      n;

        TRY(shared_memory_list(call->service->shared_memory, SHARED_MEMORY_CUDA, str_of(q->name),
                               &call->arena, &entries, &n));
        return pb_message_new(&inference__cuda_shared_memory_status_response__descriptor,
                              &call->arena, ret_answer);
}

/* ---- changes ---- */

struct error *rpc_system_shm_register(struct grpc_call *call, const ProtobufCMessage *request,
                                      ProtobufCMessage **ret_answer) {
        const Inference__SystemSharedMemoryRegisterRequest *q =
                RPC_REQUEST(Inference__SystemSharedMemoryRegisterRequest, request);
        struct shm_place place = {
                .name = q->name,
                .key = q->key,
                .offset = q->offset,
                .byte_size = q->byte_size,
        };

        TRY(shared_memory_check_change(call->service->shared_memory));
        TRY(shared_memory_register(call->service->shared_memory, &place));
        return pb_message_new(&inference__system_shared_memory_register_response__descriptor,
                              &call->arena, ret_answer);
}

struct error *rpc_system_shm_unregister(struct grpc_call *call, const ProtobufCMessage *request,
                                        ProtobufCMessage **ret_answer) {
        const char *name =
                RPC_REQUEST(Inference__SystemSharedMemoryUnregisterRequest, request)->name;

        TRY(shared_memory_unregister(call->service->shared_memory, SHARED_MEMORY_SYSTEM,
                                     str_of(name)));
        return pb_message_new(&inference__system_shared_memory_unregister_response__descriptor,
                              &call->arena, ret_answer);
}

/* This error comes before the check of the option that permits shared memory. */
struct error *rpc_cuda_shm_register(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        (void)call;
        (void)ret_answer;
        return shared_memory_refuse_cuda(
                RPC_REQUEST(Inference__CudaSharedMemoryRegisterRequest, request)->name);
}

struct error *rpc_cuda_shm_unregister(struct grpc_call *call, const ProtobufCMessage *request,
                                      ProtobufCMessage **ret_answer) {
        const char *name = RPC_REQUEST(Inference__CudaSharedMemoryUnregisterRequest, request)->name;

        TRY(shared_memory_unregister(call->service->shared_memory, SHARED_MEMORY_CUDA,
                                     str_of(name)));
        return pb_message_new(&inference__cuda_shared_memory_unregister_response__descriptor,
                              &call->arena, ret_answer);
}
