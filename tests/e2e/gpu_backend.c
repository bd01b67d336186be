/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend on CUDA's driver, as a user's would be. An instance of KIND_GPU takes inputs where they lie, works on
 * its device with a stream of its own, asks for outputs in its device's memory and copies to what it is given.
 * It relies on the context that the server made current, and fails with a clear text when that is not the
 * instance's. An instance of KIND_CPU does the same with main memory.
 *
 * Model configuration, parameters:
 *
 *     op              identity  OUTPUT<x> repeats INPUT<x>, else the input at the same place; any type (default)
 *                     add       OUTPUT0 = INPUT0 + INPUT1, FP32, by a kernel
 *                     state     OUTPUT0 = INPUT0 + INPUT_STATE, FP32, which is also the new OUTPUT_STATE
 *                     append    OUTPUT_STATE = INPUT_STATE, then the elements of INPUT0; any type of one dimension;
 *                               OUTPUT0 is the same
 *     cpu_outputs     "true": outputs and states are asked for in main memory
 *     cpu_inputs      "true": inputs are asked for in main memory
 *     unsynchronised  "true": outputs in main memory are filled without a wait for the stream: what tests must notice
 *     reports         "true": the model reports 100 bytes of main memory, each instance 1000 of its own
 *     scratch         "server": scratch memory comes from TRITONBACKEND_MemoryManagerAllocate()
 *
 * Any output named WHERE is INT32 [n, 2]: memory type and id of each of the n inputs, in the order of the
 * configuration; those of an input that the request lacks are -1.
 *
 * Of the backend: --backend-config=gpu,preferred=KIND_GPU or KIND_CPU adds a preferred instance group.
 *
 * Ownership.  An instance owns its stream, kernel and scratch memory.
 * Threads.  An instance: one at a time. */
#include "driver_table.h"
#include "kit/batch.h"
#include "kit/input.h"
#include "kit/model.h"
#include "kit/output.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_THREADS 256
#define MAX_DEVICES 16

/* out[i] = a[i] + b[i] */
static const char add_ptx[] =
        ".version 6.0\n"
        ".target sm_50\n"
        ".address_size 64\n"
        ".visible .entry add_f32(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n)\n"
        "{\n"
        "        .reg .pred %p<2>;\n"
        "        .reg .b32 %r<6>;\n"
        "        .reg .f32 %f<4>;\n"
        "        .reg .b64 %d<11>;\n"
        "        ld.param.u64 %d1, [a];\n"
        "        ld.param.u64 %d2, [b];\n"
        "        ld.param.u64 %d3, [out];\n"
        "        ld.param.u32 %r1, [n];\n"
        "        mov.u32 %r2, %ctaid.x;\n"
        "        mov.u32 %r3, %ntid.x;\n"
        "        mov.u32 %r4, %tid.x;\n"
        "        mad.lo.s32 %r5, %r2, %r3, %r4;\n"
        "        setp.ge.u32 %p1, %r5, %r1;\n"
        "        @%p1 bra DONE;\n"
        "        cvta.to.global.u64 %d4, %d1;\n"
        "        cvta.to.global.u64 %d5, %d2;\n"
        "        cvta.to.global.u64 %d6, %d3;\n"
        "        mul.wide.u32 %d7, %r5, 4;\n"
        "        add.s64 %d8, %d4, %d7;\n"
        "        add.s64 %d9, %d5, %d7;\n"
        "        add.s64 %d10, %d6, %d7;\n"
        "        ld.global.f32 %f1, [%d8];\n"
        "        ld.global.f32 %f2, [%d9];\n"
        "        add.f32 %f3, %f1, %f2;\n"
        "        st.global.f32 [%d10], %f3;\n"
        "DONE:\n"
        "        ret;\n"
        "}\n";

enum operation { IDENTITY, ADD, STATE, APPEND };

struct gpu_model {
        struct kit_model             kit;
        enum operation               operation;
        bool                         cpu_outputs, cpu_inputs, is_unsynchronised, reports;
        TRITONBACKEND_MemoryManager *manager; /* NULL: scratch memory is the driver's */
};

/* Some bytes of any memory. */
struct place {
        void                   *bytes;
        size_t                  n_bytes;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
};

struct scratch {
        void  *bytes; /* of the instance's device, or of main memory; owned */
        size_t n_bytes;
};

struct instance {
        struct gpu_model *model; /* borrowed */
        bool              has_gpu;
        int               device;
        cu_stream         stream;
        cu_module         module;
        cu_function       add;
        cu_context        contexts[MAX_DEVICES]; /* retained for copies between devices */
        struct scratch    scratch[3];
        struct scratch    way; /* of copies between the host and another device */
        void *kept; /* host memory that queued copies read; owned; a list by its first word */
};

/* ---- the driver ------------------------------------------------------------------------------ */

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER; /* guards the opening of `cuda` */
static struct driver_table cuda;

static TRITONSERVER_Error *cuda_error(cu_result result, const char *what) {
        const char *name = NULL, *text = NULL;

        if (result == CU_SUCCESS)
                return NULL;
        (void)cuda.cuGetErrorName(result, &name);
        (void)cuda.cuGetErrorString(result, &text);
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s: %s: %s", what,
                         name != NULL ? name : "an unknown error", text != NULL ? text : "");
}

#define CUDA_TRY(call) KIT_TRY(cuda_error(cuda.call, #call))

static TRITONSERVER_Error *open_driver_locked(void) {
        if (cuda.library != NULL)
                return NULL;
        if (!driver_table_open(&cuda, CUDA_LIBRARY)) {
                cuda.library = NULL;
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "no driver: %s", dlerror());
        }
        return cuda_error(cuda.cuInit(0), "cuInit");
}

static TRITONSERVER_Error *open_driver(void) {
        TRITONSERVER_Error *err;

        pthread_mutex_lock(&lock);
        err = open_driver_locked();
        pthread_mutex_unlock(&lock);
        return err;
}

/* The server makes the device of an instance current before it calls the backend. */
static TRITONSERVER_Error *check_current(const struct instance *instance, const char *where) {
        cu_device device = -1;

        if (!instance->has_gpu)
                return NULL;
        KIT_TRY(cuda_error(cuda.cuCtxGetDevice(&device), where));
        if (device == instance->device)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "%s: device %d is current, and the instance has device %d", where, device,
                         instance->device);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static cu_pointer address(const void *memory) {
        return (cu_pointer)(uintptr_t)memory;
}

static TRITONSERVER_Error *get_context(struct instance *instance, int64_t device, cu_context *ret) {
        if (device < 0 || device >= MAX_DEVICES)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "memory of device %lld",
                                 (long long)device);
        if (instance->contexts[device] == NULL)
                CUDA_TRY(cuDevicePrimaryCtxRetain(&instance->contexts[device], (cu_device)device));
        *ret = instance->contexts[device];
        return NULL;
}

static TRITONSERVER_Error *copy_between_devices(struct instance *instance, const struct place *to,
                                                const struct place *from) {
        cu_context to_context, from_context;

        if (to->id == from->id && to->id == instance->device) {
                CUDA_TRY(cuMemcpyDtoDAsync_v2(address(to->bytes), address(from->bytes),
                                              from->n_bytes, instance->stream));
                return NULL;
        }
        KIT_TRY(get_context(instance, to->id, &to_context));
        KIT_TRY(get_context(instance, from->id, &from_context));
        CUDA_TRY(cuMemcpyPeerAsync(address(to->bytes), to_context, address(from->bytes),
                                   from_context, from->n_bytes, instance->stream));
        return NULL;
}

/* Queues the copy of all of `from`, or makes it where no device takes part. Between the host and a device, that is
 * the instance's. */
static TRITONSERVER_Error *copy_near(struct instance *instance, const struct place *to,
                                     const struct place *from) {
        bool to_gpu = to->type == TRITONSERVER_MEMORY_GPU;
        bool from_gpu = from->type == TRITONSERVER_MEMORY_GPU;

        if (from->n_bytes == 0)
                return NULL;
        if ((to_gpu || from_gpu) && !instance->has_gpu)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "an instance without a GPU was given GPU memory");
        if (to_gpu && from_gpu)
                return copy_between_devices(instance, to, from);
        if (to_gpu)
                CUDA_TRY(cuMemcpyHtoDAsync_v2(address(to->bytes), from->bytes, from->n_bytes,
                                              instance->stream));
        else if (from_gpu)
                CUDA_TRY(cuMemcpyDtoHAsync_v2(to->bytes, address(from->bytes), from->n_bytes,
                                              instance->stream));
        else
                memmove(to->bytes, from->bytes, from->n_bytes);
        return NULL;
}

/* Host memory that lives until the stream has done its work. */
static void *keep(struct instance *instance, size_t n_bytes) {
        void **kept = malloc(sizeof(*kept) + n_bytes);

        if (kept == NULL)
                abort();
        *kept = instance->kept;
        instance->kept = kept;
        return kept + 1;
}

static TRITONSERVER_Error *wait_for_stream(struct instance *instance) {
        TRITONSERVER_Error *err = NULL;

        if (instance->has_gpu)
                err = cuda_error(cuda.cuStreamSynchronize(instance->stream), "cuStreamSynchronize");
        while (instance->kept != NULL) {
                void *kept = instance->kept;

                instance->kept = *(void **)kept;
                free(kept);
        }
        return err;
}

/* ---- scratch memory -------------------------------------------------------------------------- */

static TRITONSERVER_MemoryType own_type(const struct instance *instance) {
        return instance->has_gpu ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
}

static int64_t own_id(const struct instance *instance) {
        return instance->has_gpu ? instance->device : 0;
}

static void scratch_free(struct instance *instance, struct scratch *s) {
        TRITONSERVER_Error *err = NULL;

        if (s->bytes == NULL)
                return;
        if (instance->model->manager != NULL)
                err = TRITONBACKEND_MemoryManagerFree(instance->model->manager, s->bytes,
                                                      own_type(instance), own_id(instance));
        else if (instance->has_gpu)
                err = cuda_error(cuda.cuMemFree_v2(address(s->bytes)), "cuMemFree");
        else
                free(s->bytes);
        kit_error_log(err, "scratch memory");
        *s = (struct scratch){ NULL, 0 };
}

static TRITONSERVER_Error *scratch_alloc(struct instance *instance, size_t n_bytes, void **ret) {
        if (instance->model->manager != NULL)
                return TRITONBACKEND_MemoryManagerAllocate(instance->model->manager, ret,
                                                           own_type(instance), own_id(instance),
                                                           n_bytes);
        if (instance->has_gpu) {
                cu_pointer memory;

                CUDA_TRY(cuMemAlloc_v2(&memory, n_bytes));
                *ret = (void *)(uintptr_t)memory;
                return NULL;
        }
        *ret = malloc(n_bytes);
        return *ret != NULL ? NULL : kit_error_no_memory(n_bytes, "scratch memory");
}

/* Nothing queued uses the scratch memory. */
static TRITONSERVER_Error *scratch_reserve(struct instance *instance, struct scratch *s,
                                           size_t n_bytes, struct place *ret) {
        if (s->n_bytes < n_bytes) {
                scratch_free(instance, s);
                KIT_TRY(scratch_alloc(instance, n_bytes, &s->bytes));
                s->n_bytes = n_bytes;
        }
        *ret = (struct place){ s->bytes, n_bytes, own_type(instance), own_id(instance) };
        return NULL;
}

static bool is_far(const struct instance *instance, const struct place *p) {
        return p->type == TRITONSERVER_MEMORY_GPU && p->id != instance->device;
}

/* Queues the copy of all of `from`, or makes it where no device takes part. */
static TRITONSERVER_Error *copy(struct instance *instance, const struct place *to,
                                const struct place *from) {
        struct place way;

        if (!instance->has_gpu || is_far(instance, to) == is_far(instance, from) ||
            (to->type == TRITONSERVER_MEMORY_GPU && from->type == TRITONSERVER_MEMORY_GPU) ||
            from->n_bytes == 0)
                return copy_near(instance, to, from);
        CUDA_TRY(cuStreamSynchronize(instance->stream)); /* the way may be in use */
        KIT_TRY(scratch_reserve(instance, &instance->way, from->n_bytes, &way));
        way.n_bytes = from->n_bytes;
        KIT_TRY(copy_near(instance, &way, from));
        return copy_near(instance, to, &way);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static TRITONSERVER_Error *get_piece(const struct instance *instance, const struct kit_input *input,
                                     uint32_t index, struct place *ret) {
        bool        wants_gpu = instance->has_gpu && !instance->model->cpu_inputs;
        const void *bytes;
        uint64_t    n_bytes;

        ret->type = wants_gpu ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
        ret->id = wants_gpu ? instance->device : 0;
        KIT_TRY(TRITONBACKEND_InputBuffer(input->triton, index, &bytes, &n_bytes, &ret->type,
                                          &ret->id));
        ret->bytes = (void *)(uintptr_t)bytes;
        ret->n_bytes = n_bytes;
        if (ret->type == TRITONSERVER_MEMORY_GPU && !instance->has_gpu)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "input '%s' lies in memory of device %lld, and the instance has "
                                 "no GPU",
                                 input->name, (long long)ret->id);
        return NULL;
}

/* Copies all pieces, one after the other. */
static TRITONSERVER_Error *copy_input(struct instance *instance, const struct kit_input *input,
                                      struct place to) {
        for (uint32_t i = 0; i < input->n_buffers; i++) {
                struct place from;

                KIT_TRY(get_piece(instance, input, i, &from));
                if (from.n_bytes > to.n_bytes)
                        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                         "input '%s' has more bytes than it says", input->name);
                KIT_TRY(copy(instance, &to, &from));
                to.bytes = (char *)to.bytes + from.n_bytes;
                to.n_bytes -= from.n_bytes;
        }
        return NULL;
}

/* The input as one piece of the instance's own memory: where it lies, or a copy. */
static TRITONSERVER_Error *gather(struct instance *instance, const struct kit_input *input,
                                  struct scratch *s, struct place *ret) {
        if (input->n_buffers == 1) {
                KIT_TRY(get_piece(instance, input, 0, ret));
                if (!instance->has_gpu ||
                    (ret->type == TRITONSERVER_MEMORY_GPU && ret->id == instance->device))
                        return NULL;
        }
        KIT_TRY(scratch_reserve(instance, s, (size_t)input->n_bytes, ret));
        return copy_input(instance, input, *ret);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void prefer(const struct instance *instance, struct place *ret) {
        bool wants_gpu = instance->has_gpu && !instance->model->cpu_outputs;

        ret->type = wants_gpu ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
        ret->id = wants_gpu ? instance->device : 0;
}

static TRITONSERVER_Error *output_new(const struct instance *instance, const struct kit_slot *slot,
                                      const struct kit_output *output, size_t n_bytes,
                                      struct place *ret) {
        TRITONBACKEND_Output *made;

        prefer(instance, ret);
        ret->n_bytes = n_bytes;
        KIT_TRY(TRITONBACKEND_ResponseOutput(slot->response, &made, output->name, output->type,
                                             output->shape, output->n_dims));
        return TRITONBACKEND_OutputBuffer(made, &ret->bytes, n_bytes, &ret->type, &ret->id);
}

/* The mistake that `unsynchronised` asks for: by way of memory of the backend's own, so that nothing else breaks. */
static TRITONSERVER_Error *copy_early(struct instance *instance, const struct place *to,
                                      const struct place *from) {
        struct place kept = *to;

        kept.bytes = keep(instance, from->n_bytes);
        KIT_TRY(copy(instance, &kept, from));
        memcpy(to->bytes, kept.bytes, from->n_bytes);
        return NULL;
}

static TRITONSERVER_Error *put_output(struct instance *instance, const struct kit_slot *slot,
                                      const struct kit_output *output, const struct place *from) {
        struct place to;

        if (!kit_wants_output(slot->request, output->name))
                return NULL;
        KIT_TRY(output_new(instance, slot, output, from->n_bytes, &to));
        if (instance->model->is_unsynchronised && to.type != TRITONSERVER_MEMORY_GPU)
                return copy_early(instance, &to, from);
        return copy(instance, &to, from);
}

/* The new state: from->n_bytes, of which those that lie there already are not copied. */
static TRITONSERVER_Error *put_state(struct instance *instance, const struct kit_slot *slot,
                                     const struct kit_output *state, const struct place *from) {
        TRITONBACKEND_State *made;
        struct place         to;

        prefer(instance, &to);
        KIT_TRY(TRITONBACKEND_StateNew(&made, slot->request, state->name, state->type, state->shape,
                                       state->n_dims));
        KIT_TRY(TRITONBACKEND_StateBuffer(made, &to.bytes, from->n_bytes, &to.type, &to.id));
        KIT_TRY(copy(instance, &to, from));
        return TRITONBACKEND_StateUpdate(made);
}

static TRITONSERVER_Error *put_where(struct instance *instance, const struct kit_slot *slot,
                                     const char *name) {
        const struct kit_model *kit = &instance->model->kit;
        int64_t                 shape[3] = { slot->rows, kit->n_inputs, 2 };
        bool                    has_rows = kit->max_batch_size > 0;
        size_t                  n_row = 2 * (size_t)kit->n_inputs;
        size_t                  n_bytes = n_row * (size_t)slot->rows * sizeof(int32_t);
        int32_t                *where = keep(instance, n_bytes);
        struct kit_output       output = { .name = name,
                                           .type = TRITONSERVER_TYPE_INT32,
                                           .shape = has_rows ? shape : shape + 1,
                                           .n_dims = has_rows ? 3 : 2 };

        for (uint32_t i = 0; i < kit->n_inputs; i++) {
                struct kit_input input;
                struct place     piece = { .type = (TRITONSERVER_MemoryType)-1, .id = -1 };

                if (kit_input_find(slot->request, kit->inputs[i].name, &input) &&
                    input.n_buffers > 0)
                        KIT_TRY(get_piece(instance, &input, 0, &piece));
                for (int64_t row = 0; row < slot->rows; row++) {
                        where[(size_t)row * n_row + 2 * i] = (int32_t)piece.type;
                        where[(size_t)row * n_row + 2 * i + 1] = (int32_t)piece.id;
                }
        }
        return put_output(instance, slot, &output,
                          &(struct place){ where, n_bytes, TRITONSERVER_MEMORY_CPU, 0 });
}

/* ---- operations ------------------------------------------------------------------------------ */

static const struct kit_tensor *input_of(const struct kit_model *model, uint32_t output_index) {
        const char *output = model->outputs[output_index].name;

        if (strncmp(output, "OUTPUT", 6) == 0)
                for (uint32_t i = 0; i < model->n_inputs; i++)
                        if (strncmp(model->inputs[i].name, "INPUT", 5) == 0 &&
                            strcmp(model->inputs[i].name + 5, output + 6) == 0)
                                return &model->inputs[i];
        return output_index < model->n_inputs ? &model->inputs[output_index] : NULL;
}

static TRITONSERVER_Error *run_identity(struct instance *instance, const struct kit_slot *slot) {
        const struct kit_model *kit = &instance->model->kit;

        for (uint32_t i = 0; i < kit->n_outputs; i++) {
                const struct kit_tensor *tensor = input_of(kit, i);
                struct kit_output        output = { .name = kit->outputs[i].name };
                struct kit_input         input;
                struct place             to;

                if (strcmp(output.name, "WHERE") == 0 || tensor == NULL ||
                    !kit_wants_output(slot->request, output.name) ||
                    !kit_input_find(slot->request, tensor->name, &input))
                        continue;
                output.type = input.type;
                output.shape = input.shape;
                output.n_dims = input.n_dims;
                KIT_TRY(output_new(instance, slot, &output, (size_t)input.n_bytes, &to));
                KIT_TRY(copy_input(instance, &input, to));
        }
        return NULL;
}

/* Buffers of requests may lie anywhere. */
static void add_on_host(const char *a, const char *b, char *out, unsigned n) {
        for (size_t i = 0; i < n; i++) {
                size_t at = i * sizeof(float);
                float  x, y;

                memcpy(&x, a + at, sizeof(x));
                memcpy(&y, b + at, sizeof(y));
                x += y;
                memcpy(out + at, &x, sizeof(x));
        }
}

static TRITONSERVER_Error *launch_add(struct instance *instance, const struct place *a,
                                      const struct place *b, const struct place *out) {
        cu_pointer memory[3] = { address(a->bytes), address(b->bytes), address(out->bytes) };
        unsigned   n = (unsigned)(out->n_bytes / sizeof(float));
        void      *parameters[] = { &memory[0], &memory[1], &memory[2], &n };

        if (n == 0)
                return NULL;
        if (!instance->has_gpu) {
                add_on_host(a->bytes, b->bytes, out->bytes, n);
                return NULL;
        }
        CUDA_TRY(cuLaunchKernel(instance->add, (n + BLOCK_THREADS - 1) / BLOCK_THREADS, 1, 1,
                                BLOCK_THREADS, 1, 1, 0, instance->stream, parameters, NULL));
        return NULL;
}

static TRITONSERVER_Error *run_add(struct instance *instance, const struct kit_slot *slot) {
        bool              is_state = instance->model->operation == STATE;
        struct kit_input  a, b;
        struct place      a_place, b_place, sum;
        struct kit_output output = { .name = "OUTPUT0" };

        KIT_TRY(kit_input_open(slot->request, "INPUT0", &a));
        KIT_TRY(kit_input_open(slot->request, is_state ? "INPUT_STATE" : "INPUT1", &b));
        if (a.type != TRITONSERVER_TYPE_FP32 || b.type != a.type || a.n_bytes != b.n_bytes)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "'%s' and '%s' must be FP32 of one shape", a.name, b.name);
        KIT_TRY(gather(instance, &a, &instance->scratch[0], &a_place));
        KIT_TRY(gather(instance, &b, &instance->scratch[1], &b_place));
        KIT_TRY(scratch_reserve(instance, &instance->scratch[2], (size_t)a.n_bytes, &sum));
        KIT_TRY(launch_add(instance, &a_place, &b_place, &sum));
        output.type = a.type;
        output.shape = a.shape;
        output.n_dims = a.n_dims;
        KIT_TRY(put_output(instance, slot, &output, &sum));
        output.name = "OUTPUT_STATE";
        return is_state ? put_state(instance, slot, &output, &sum) : NULL;
}

static TRITONSERVER_Error *run_append(struct instance *instance, const struct kit_slot *slot) {
        struct kit_input  more, state;
        struct kit_output output = { .name = "OUTPUT0" };
        int64_t           shape[KIT_MAX_DIMS];
        struct place      all, end;

        KIT_TRY(kit_input_open(slot->request, "INPUT0", &more));
        KIT_TRY(kit_input_open(slot->request, "INPUT_STATE", &state));
        if (more.n_dims == 0 || more.n_dims > KIT_MAX_DIMS || state.n_dims != more.n_dims)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "INPUT0 needs a dimension");
        memcpy(shape, more.shape, more.n_dims * sizeof(*shape));
        shape[more.n_dims - 1] += state.shape[state.n_dims - 1];
        KIT_TRY(scratch_reserve(instance, &instance->scratch[2],
                                (size_t)(state.n_bytes + more.n_bytes), &all));
        end = all;
        end.bytes = (char *)all.bytes + state.n_bytes;
        end.n_bytes = (size_t)more.n_bytes;
        KIT_TRY(copy_input(instance, &state, all));
        KIT_TRY(copy_input(instance, &more, end));
        output.type = more.type;
        output.shape = shape;
        output.n_dims = more.n_dims;
        KIT_TRY(put_output(instance, slot, &output, &all));
        output.name = "OUTPUT_STATE";
        return put_state(instance, slot, &output, &all);
}

static TRITONSERVER_Error *run_operation(struct instance *instance, const struct kit_slot *slot) {
        KIT_TRY(check_current(instance, "TRITONBACKEND_ModelInstanceExecute"));
        switch (instance->model->operation) {
        case IDENTITY: KIT_TRY(run_identity(instance, slot)); break;
        case APPEND: KIT_TRY(run_append(instance, slot)); break;
        default: KIT_TRY(run_add(instance, slot)); break;
        }
        if (kit_wants_output(slot->request, "WHERE") &&
            kit_model_find_output(&instance->model->kit, "WHERE") != NULL)
                KIT_TRY(put_where(instance, slot, "WHERE"));
        return NULL;
}

/* A request is done before the next one begins: the scratch memory is one's. */
static void run_slot(struct instance *instance, struct kit_batch *batch, struct kit_slot *slot) {
        TRITONSERVER_Error *err = run_operation(instance, slot);
        TRITONSERVER_Error *late = wait_for_stream(instance);

        if (err == NULL)
                err = late;
        else
                kit_error_log(late, "after a failure");
        if (err != NULL)
                kit_batch_fail(batch, slot, err);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        struct kit_batch batch;
        struct instance *instance;
        void            *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        KIT_TRY(kit_batch_open(&batch, triton, requests, n_requests));
        instance = state;
        kit_batch_read_rows(&batch, instance->model->kit.max_batch_size);
        batch.stats.compute_start = kit_clock_ns();
        for (struct kit_slot *slot = kit_batch_live(&batch, batch.slots); slot != NULL;
             slot = kit_batch_live(&batch, slot + 1))
                run_slot(instance, &batch, slot);
        batch.stats.compute_end = kit_clock_ns();
        kit_batch_close(&batch);
        return NULL;
}

/* ---- models ---------------------------------------------------------------------------------- */

static TRITONSERVER_Error *read_operation(struct gpu_model *model) {
        static const char *const names[] = { "identity", "add", "state", "append" };
        const char              *name = kit_model_parameter(&model->kit, "op");

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (name == NULL || strcmp(name, names[i]) == 0) {
                        model->operation = (enum operation)i;
                        return NULL;
                }
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "model '%s': parameter 'op' is '%s'",
                         model->kit.name, name);
}

/* One usage, of the instance if there is one, else of the model. */
static TRITONSERVER_Error *report(TRITONBACKEND_Model *model, TRITONBACKEND_ModelInstance *instance,
                                  TRITONSERVER_MemoryType type, int64_t id, size_t n_bytes) {
        TRITONSERVER_BufferAttributes *usage;
        TRITONSERVER_Error            *err;

        KIT_TRY(TRITONSERVER_BufferAttributesNew(&usage));
        err = TRITONSERVER_BufferAttributesSetMemoryType(usage, type);
        if (err == NULL)
                err = TRITONSERVER_BufferAttributesSetMemoryTypeId(usage, id);
        if (err == NULL)
                err = TRITONSERVER_BufferAttributesSetByteSize(usage, n_bytes);
        if (err == NULL)
                err = instance != NULL
                              ? TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, &usage, 1)
                              : TRITONBACKEND_ModelReportMemoryUsage(model, &usage, 1);
        kit_error_log(TRITONSERVER_BufferAttributesDelete(usage), "attributes");
        return err;
}

static TRITONSERVER_Error *open_model(TRITONBACKEND_Model *triton, struct gpu_model *model) {
        const char            *scratch;
        TRITONBACKEND_Backend *backend;

        KIT_TRY(kit_model_open(triton, &model->kit));
        KIT_TRY(read_operation(model));
        KIT_TRY(kit_model_parameter_bool(&model->kit, "cpu_outputs", &model->cpu_outputs));
        KIT_TRY(kit_model_parameter_bool(&model->kit, "cpu_inputs", &model->cpu_inputs));
        KIT_TRY(kit_model_parameter_bool(&model->kit, "unsynchronised", &model->is_unsynchronised));
        KIT_TRY(kit_model_parameter_bool(&model->kit, "reports", &model->reports));
        if (model->reports)
                KIT_TRY(report(triton, NULL, TRITONSERVER_MEMORY_CPU, 0, 100));
        scratch = kit_model_parameter(&model->kit, "scratch");
        if (scratch != NULL && strcmp(scratch, "server") == 0) {
                KIT_TRY(TRITONBACKEND_ModelBackend(triton, &backend));
                KIT_TRY(TRITONBACKEND_BackendMemoryManager(backend, &model->manager));
        }
        return TRITONBACKEND_ModelSetState(triton, model);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct gpu_model   *model = kit_alloc_array(1, sizeof(*model));
        TRITONSERVER_Error *err;

        if (model == NULL)
                return kit_error_no_memory(sizeof(*model), "a model");
        err = open_model(triton, model);
        if (err != NULL) {
                kit_model_close(&model->kit);
                free(model);
        }
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *state;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &state));
        if (state != NULL)
                kit_model_close(&((struct gpu_model *)state)->kit);
        free(state);
        return NULL;
}

/* ---- instances ------------------------------------------------------------------------------- */

static TRITONSERVER_Error *open_device(struct instance *instance, int device) {
        KIT_TRY(open_driver());
        instance->has_gpu = true;
        instance->device = device;
        KIT_TRY(check_current(instance, "TRITONBACKEND_ModelInstanceInitialize"));
        CUDA_TRY(cuStreamCreate(&instance->stream, CU_STREAM_NON_BLOCKING));
        CUDA_TRY(cuModuleLoadData(&instance->module, add_ptx));
        CUDA_TRY(cuModuleGetFunction(&instance->add, instance->module, "add_f32"));
        return NULL;
}

static TRITONSERVER_Error *close_device(struct instance *instance) {
        KIT_TRY(check_current(instance, "TRITONBACKEND_ModelInstanceFinalize"));
        for (size_t i = 0; i < sizeof(instance->scratch) / sizeof(instance->scratch[0]); i++)
                scratch_free(instance, &instance->scratch[i]);
        scratch_free(instance, &instance->way);
        if (instance->module != NULL)
                CUDA_TRY(cuModuleUnload(instance->module));
        if (instance->stream != NULL)
                CUDA_TRY(cuStreamDestroy_v2(instance->stream));
        for (int i = 0; i < MAX_DEVICES; i++)
                if (instance->contexts[i] != NULL)
                        CUDA_TRY(cuDevicePrimaryCtxRelease_v2(i));
        return NULL;
}

static TRITONSERVER_Error *open_instance(TRITONBACKEND_ModelInstance *triton,
                                         struct instance             *instance) {
        TRITONSERVER_InstanceGroupKind kind;
        TRITONBACKEND_Model           *model;
        int32_t                        device;
        void                          *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceModel(triton, &model));
        KIT_TRY(TRITONBACKEND_ModelState(model, &state));
        instance->model = state;
        KIT_TRY(TRITONBACKEND_ModelInstanceKind(triton, &kind));
        KIT_TRY(TRITONBACKEND_ModelInstanceDeviceId(triton, &device));
        if (kind == TRITONSERVER_INSTANCEGROUPKIND_GPU)
                KIT_TRY(open_device(instance, device));
        if (instance->model->reports)
                KIT_TRY(report(NULL, triton, own_type(instance), own_id(instance), 1000));
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        struct instance    *instance = kit_alloc_array(1, sizeof(*instance));
        TRITONSERVER_Error *err;

        if (instance == NULL)
                return kit_error_no_memory(sizeof(*instance), "an instance");
        err = open_instance(triton, instance);
        if (err != NULL) {
                kit_error_log(close_device(instance), "after a failure");
                free(instance);
        }
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        TRITONSERVER_Error *err = NULL;
        void               *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        if (state != NULL)
                err = close_device(state);
        free(state);
        return err;
}

/* ---- the backend ----------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("gpu");
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        TRITONSERVER_Error *err = NULL;
        const char         *preferred;
        struct kit_json    *config;

        KIT_TRY(kit_backend_config(backend, &config));
        preferred = kit_json_string(kit_json_find(kit_json_root(config), "cmdline/preferred"), "");
        if (strcmp(preferred, "KIND_GPU") == 0)
                err = TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                        attributes, TRITONSERVER_INSTANCEGROUPKIND_GPU, 1, NULL, 0);
        else if (strcmp(preferred, "KIND_CPU") == 0)
                err = TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                        attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 1, NULL, 0);
        kit_json_free(config);
        return err;
}
