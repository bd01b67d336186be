/* SPDX-License-Identifier: BSD-3-Clause */
/* The testing backend on GPUs: an instance of KIND_GPU asks for outputs and states in the memory of its GPU, and takes
 * inputs where they lie. What it computes, it computes in main memory, with copies before and after. An instance of
 * KIND_CPU uses main memory.
 *
 * Ownership.  An instance owns its stream and the main memory that it computes in.
 * Threads.  An instance: one at a time. */
#include "driver_table.h"
#include "testing/testing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 16

/* Main memory that stands for memory of a GPU; it only grows. */
struct room {
        void  *bytes; /* owned */
        size_t n_bytes;
};

struct testing_memory {
        int         device;
        cu_stream   stream;
        cu_context  contexts[MAX_DEVICES]; /* retained for copies from and to other devices */
        struct room read, written;
};

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER; /* guards the opening of `cuda` */
static struct driver_table cuda;

static TRITONSERVER_Error *cuda_error(cu_result result, const char *what) {
        const char *text = NULL;

        if (result == CU_SUCCESS)
                return NULL;
        (void)cuda.cuGetErrorString(result, &text);
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s: %s", what, text != NULL ? text : "");
}

#define CUDA_TRY(call) KIT_TRY(cuda_error(cuda.call, #call))

static TRITONSERVER_Error *open_driver(void) {
        bool is_open;

        pthread_mutex_lock(&lock);
        is_open = cuda.library != NULL || driver_table_open(&cuda, CUDA_LIBRARY);
        if (!is_open)
                cuda.library = NULL;
        pthread_mutex_unlock(&lock);
        return is_open ? cuda_error(cuda.cuInit(0), "cuInit")
                       : kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "no driver: %s", dlerror());
}

/* The server makes the GPU of an instance current before it calls the backend. */
static TRITONSERVER_Error *check_current(const struct testing_memory *memory) {
        cu_device device = -1;

        CUDA_TRY(cuCtxGetDevice(&device));
        if (device == memory->device)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "device %d is current, and the instance has device %d", device,
                         memory->device);
}

static TRITONSERVER_Error *memory_new(int device, struct testing_memory **ret) {
        struct testing_memory *memory = kit_alloc_array(1, sizeof(*memory));
        TRITONSERVER_Error    *err;

        if (memory == NULL)
                return kit_error_no_memory(sizeof(*memory), "memory of an instance");
        memory->device = device;
        err = check_current(memory);
        if (err == NULL)
                err = cuda_error(cuda.cuStreamCreate(&memory->stream, CU_STREAM_NON_BLOCKING),
                                 "cuStreamCreate");
        if (err != NULL)
                free(memory);
        else
                *ret = memory;
        return err;
}

TRITONSERVER_Error *testing_memory_open(struct testing_instance     *instance,
                                        TRITONBACKEND_ModelInstance *triton) {
        TRITONSERVER_InstanceGroupKind kind;
        int32_t                        device;

        KIT_TRY(TRITONBACKEND_ModelInstanceKind(triton, &kind));
        KIT_TRY(TRITONBACKEND_ModelInstanceDeviceId(triton, &device));
        if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
                return NULL;
        KIT_TRY(open_driver());
        return memory_new(device, &instance->memory);
}

void testing_memory_close(struct testing_instance *instance) {
        struct testing_memory *memory = instance->memory;

        if (memory == NULL)
                return;
        kit_error_log(check_current(memory), "at the end of an instance");
        kit_error_log(cuda_error(cuda.cuStreamDestroy_v2(memory->stream), "cuStreamDestroy"),
                      "at the end of an instance");
        for (int i = 0; i < MAX_DEVICES; i++)
                if (memory->contexts[i] != NULL)
                        (void)cuda.cuDevicePrimaryCtxRelease_v2(i);
        free(memory->read.bytes);
        free(memory->written.bytes);
        free(memory);
}

static TRITONSERVER_Error *reserve(struct room *room, size_t n_bytes, void **ret) {
        if (room->bytes == NULL || room->n_bytes < n_bytes) {
                free(room->bytes);
                room->bytes = malloc(n_bytes + 1);
                room->n_bytes = room->bytes != NULL ? n_bytes : 0;
        }
        *ret = room->bytes;
        return room->bytes != NULL ? NULL : kit_error_no_memory(n_bytes, "memory of an instance");
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Makes the device's context current: the host and another device than the instance's exchange bytes in it. */
static TRITONSERVER_Error *enter(struct testing_memory *memory, int64_t device) {
        if (device < 0 || device >= MAX_DEVICES)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "memory of device %lld",
                                 (long long)device);
        if (memory->contexts[device] == NULL)
                CUDA_TRY(cuDevicePrimaryCtxRetain(&memory->contexts[device], (cu_device)device));
        return cuda_error(cuda.cuCtxSetCurrent(memory->contexts[device]), "cuCtxSetCurrent");
}

static TRITONSERVER_Error *move(cu_stream stream, void *gpu, void *host, size_t n_bytes,
                                bool to_gpu) {
        cu_pointer at = (cu_pointer)(uintptr_t)gpu;

        if (to_gpu)
                CUDA_TRY(cuMemcpyHtoDAsync_v2(at, host, n_bytes, stream));
        else
                CUDA_TRY(cuMemcpyDtoHAsync_v2(host, at, n_bytes, stream));
        return cuda_error(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

static TRITONSERVER_Error *move_elsewhere(void *gpu, void *host, size_t n_bytes, bool to_gpu) {
        TRITONSERVER_Error *err;
        cu_stream           stream;

        CUDA_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        err = move(stream, gpu, host, n_bytes, to_gpu);
        kit_error_log(cuda_error(cuda.cuStreamDestroy_v2(stream), "cuStreamDestroy"), "a copy");
        return err;
}

/* Copies between the host and a device, and waits. */
static TRITONSERVER_Error *copy(struct testing_memory *memory, int64_t device, void *gpu,
                                void *host, size_t n_bytes, bool to_gpu) {
        TRITONSERVER_Error *err;

        if (n_bytes == 0)
                return NULL;
        if (memory == NULL)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "an instance without a GPU was given GPU memory");
        KIT_TRY(check_current(memory));
        if (device == memory->device)
                return move(memory->stream, gpu, host, n_bytes, to_gpu);
        err = enter(memory, device);
        if (err == NULL)
                err = move_elsewhere(gpu, host, n_bytes, to_gpu);
        kit_error_log(enter(memory, memory->device), "after a copy");
        return err;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

struct piece {
        void                   *at;
        uint64_t                n_bytes;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
};

static TRITONSERVER_Error *get_piece(const struct testing_instance *instance,
                                     const struct kit_input *input, uint32_t i, struct piece *ret) {
        const void *at;

        ret->type = instance->memory != NULL ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
        ret->id = instance->memory != NULL ? instance->memory->device : 0;
        KIT_TRY(TRITONBACKEND_InputBuffer(input->triton, i, &at, &ret->n_bytes, &ret->type,
                                          &ret->id));
        ret->at = (void *)(uintptr_t)at;
        return NULL;
}

TRITONSERVER_Error *testing_copy(const struct testing_instance *instance,
                                 const struct kit_input *input, void *out) {
        uint64_t done = 0;

        for (uint32_t i = 0; i < input->n_buffers; i++) {
                struct piece p;

                KIT_TRY(get_piece(instance, input, i, &p));
                if (p.n_bytes > input->n_bytes - done)
                        break;
                if (p.type == TRITONSERVER_MEMORY_GPU)
                        KIT_TRY(copy(instance->memory, p.id, p.at, (char *)out + done, p.n_bytes,
                                     false));
                else if (p.n_bytes > 0)
                        memmove((char *)out + done, p.at, p.n_bytes);
                done += p.n_bytes;
        }
        if (done == input->n_bytes)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "the buffers of input '%s' do not add up to its %llu bytes", input->name,
                         (unsigned long long)input->n_bytes);
}

TRITONSERVER_Error *testing_borrow(const struct testing_instance *instance,
                                   const struct kit_input *input, const void **ret_bytes,
                                   const void **ret_at) {
        struct piece p;
        void        *bytes;

        *ret_bytes = *ret_at = NULL;
        if (input->n_buffers != 1)
                return NULL;
        KIT_TRY(get_piece(instance, input, 0, &p));
        *ret_bytes = *ret_at = p.at;
        if (p.type != TRITONSERVER_MEMORY_GPU || instance->memory == NULL)
                return NULL;
        KIT_TRY(reserve(&instance->memory->read, p.n_bytes, &bytes));
        *ret_bytes = bytes;
        return testing_copy(instance, input, bytes);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void prefer(const struct testing_instance *instance, size_t n_bytes,
                   struct testing_buffer *ret) {
        *ret = (struct testing_buffer){
                .n_bytes = n_bytes,
                .type = instance->memory != NULL ? TRITONSERVER_MEMORY_GPU
                                                 : TRITONSERVER_MEMORY_CPU,
                .id = instance->memory != NULL ? instance->memory->device : 0,
        };
}

/* Where the memory that was given is a GPU's, main memory stands for it. */
static TRITONSERVER_Error *stand_in(const struct testing_instance *instance,
                                    struct testing_buffer         *buffer) {
        buffer->bytes = buffer->at;
        if (buffer->type != TRITONSERVER_MEMORY_GPU)
                return NULL;
        if (instance->memory == NULL)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "an instance without a GPU was given GPU memory");
        return reserve(&instance->memory->written, buffer->n_bytes, &buffer->bytes);
}

TRITONSERVER_Error *testing_output_new(const struct testing_instance *instance,
                                       TRITONBACKEND_Response        *response,
                                       const struct kit_output *output, size_t n_bytes,
                                       struct testing_buffer *ret) {
        TRITONBACKEND_Output *made;

        prefer(instance, n_bytes, ret);
        KIT_TRY(TRITONBACKEND_ResponseOutput(response, &made, output->name, output->type,
                                             output->shape, output->n_dims));
        KIT_TRY(TRITONBACKEND_OutputBuffer(made, &ret->at, n_bytes, &ret->type, &ret->id));
        return stand_in(instance, ret);
}

TRITONSERVER_Error *testing_state_new(const struct testing_instance *instance,
                                      TRITONBACKEND_Request         *request,
                                      const struct kit_output *state, size_t n_bytes,
                                      TRITONBACKEND_State **ret_state, struct testing_buffer *ret) {
        prefer(instance, n_bytes, ret);
        KIT_TRY(TRITONBACKEND_StateNew(ret_state, request, state->name, state->type, state->shape,
                                       state->n_dims));
        KIT_TRY(TRITONBACKEND_StateBuffer(*ret_state, &ret->at, n_bytes, &ret->type, &ret->id));
        return stand_in(instance, ret);
}

TRITONSERVER_Error *testing_put(const struct testing_instance *instance,
                                const struct testing_buffer   *buffer) {
        if (buffer->type != TRITONSERVER_MEMORY_GPU)
                return NULL;
        return copy(instance->memory, buffer->id, buffer->at, buffer->bytes, buffer->n_bytes, true);
}
