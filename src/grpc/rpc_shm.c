/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions (shm/shared_memory.h). */
#include "call/service.h"
#include "call/shm_order.h"
#include "codec/pb_build.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"
#include "shm/shared_memory.h"

#define STATUS_OUT Inference__SystemSharedMemoryStatusResponse
#define REGION_OUT Inference__SystemSharedMemoryStatusResponse__RegionStatus
#define ENTRY_OUT Inference__SystemSharedMemoryStatusResponse__RegionsEntry
#define CUDA_STATUS_OUT Inference__CudaSharedMemoryStatusResponse
#define CUDA_REGION_OUT Inference__CudaSharedMemoryStatusResponse__RegionStatus
#define CUDA_ENTRY_OUT Inference__CudaSharedMemoryStatusResponse__RegionsEntry

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

static struct error *add_cuda_region(CUDA_STATUS_OUT *answer, const struct shared_memory_entry *e,
                                     struct arena *arena) {
        ProtobufCMessage *message;
        CUDA_REGION_OUT  *status;
        CUDA_ENTRY_OUT   *entry;

        TRY(pb_message_new(
                &inference__cuda_shared_memory_status_response__regions_entry__descriptor, arena,
                &message));
        entry = (void *)message;
        TRY(pb_message_new(
                &inference__cuda_shared_memory_status_response__region_status__descriptor, arena,
                &message));
        status = (void *)message;
        entry->key = status->name = (char *)e->name; /* never written to */
        entry->value = status;
        status->device_id = e->device;
        status->byte_size = e->byte_size;
        answer->regions[answer->n_regions++] = entry;
        return NULL;
}

struct error *rpc_cuda_shm_status(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer) {
        const Inference__CudaSharedMemoryStatusRequest *q =
                RPC_REQUEST(Inference__CudaSharedMemoryStatusRequest, request);
        struct shared_memory_entry *entries;
        CUDA_STATUS_OUT            *answer;
        size_t                      n;

        TRY(shared_memory_list(call->service->shared_memory, SHARED_MEMORY_CUDA, str_of(q->name),
                               &call->arena, &entries, &n));
        TRY(pb_message_new(&inference__cuda_shared_memory_status_response__descriptor, &call->arena,
                           ret_answer));
        answer = (void *)*ret_answer;
        answer->regions = arena_try_alloc(&call->arena, MAX(n, 1) * sizeof(answer->regions[0]));
        if (answer->regions == NULL)
                return pb_out_of_memory();
        for (size_t i = 0; i < n; i++)
                TRY(add_cuda_region(answer, &entries[i], &call->arena));
        return NULL;
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

/* In the call's arena. */
struct order {
        struct shm_order  order;
        struct grpc_call *call;   /* borrowed: holds this */
        ProtobufCMessage *answer; /* in arena */
};

static void on_ordered(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, order.work);
        struct error *err = shm_order_end(&o->order);

        if (err != NULL)
                grpc_call_fail(o->call, err);
        else
                rpc_map_reply(o->call, o->answer);
}

static struct error *new_order(struct grpc_call *call, const ProtobufCMessageDescriptor *answer,
                               struct order **ret) {
        struct order *o = ARENA_NEW(&call->arena, struct order);

        TRY(pb_message_new(answer, &call->arena, &o->answer));
        o->call = call;
        *ret = o;
        return NULL;
}

/* The error without GPUs comes before the check of the option that permits shared memory. */
struct error *rpc_cuda_shm_register(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        const Inference__CudaSharedMemoryRegisterRequest *q =
                RPC_REQUEST(Inference__CudaSharedMemoryRegisterRequest, request);
        struct shared_memory   *m = call->service->shared_memory;
        const struct cuda_place place = {
                .name = q->name,
                .handle = str_range((const char *)q->raw_handle.data, q->raw_handle.len),
                .device = q->device_id,
                .byte_size = q->byte_size,
        };
        struct order *o;

        *ret_answer = NULL;
        TRY(shared_memory_check_gpus(m, q->name));
        TRY(shared_memory_check_change(m));
        TRY(new_order(call, &inference__cuda_shared_memory_register_response__descriptor, &o));
        shm_order_register(&o->order, m, &place, on_ordered);
        grpc_call_start_work_thread(call, &o->order.work);
        return NULL;
}

/* Without GPUs there is nothing to close. */
struct error *rpc_cuda_shm_unregister(struct grpc_call *call, const ProtobufCMessage *request,
                                      ProtobufCMessage **ret_answer) {
        const char *name = RPC_REQUEST(Inference__CudaSharedMemoryUnregisterRequest, request)->name;
        struct shared_memory *m = call->service->shared_memory;
        struct order         *o;

        TRY(shared_memory_check_change(m));
        TRY(new_order(call, &inference__cuda_shared_memory_unregister_response__descriptor, &o));
        *ret_answer = o->answer;
        if (!shared_memory_has_gpus(m))
                return shared_memory_unregister(m, SHARED_MEMORY_CUDA, str_of(name));
        *ret_answer = NULL;
        shm_order_unregister(&o->order, m, str_of(name), on_ordered);
        grpc_call_start_work_thread(call, &o->order.work);
        return NULL;
}
