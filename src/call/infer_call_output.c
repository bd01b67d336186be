/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the outputs of a call. Runs on the backend's thread. */
#include "call/infer_call.h"

#include <string.h>

#include "core_api/core_error.h"

#include "triton/core/tritonserver.h"

static const struct infer_call_target *find_target(const struct infer_call *c, const char *output) {
        for (size_t i = 0; i < c->n_targets; i++)
                if (strcmp(c->targets[i].output, output) == 0)
                        return &c->targets[i];
        return NULL;
}

static size_t round_up(size_t n) {
        return (n + INFER_CALL_ALIGNMENT - 1) & ~(size_t)(INFER_CALL_ALIGNMENT - 1);
}

static void *take_inline(struct infer_call *c, size_t bytes) {
        char *first = c->inline_memory +
                      (round_up((uintptr_t)c->inline_memory) - (uintptr_t)c->inline_memory);
        size_t at;

        if (bytes > INFER_CALL_INLINE_BYTES)
                return NULL;
        at = atomic_load_explicit(&c->inline_used, memory_order_relaxed);
        do {
                if (round_up(bytes) > INFER_CALL_INLINE_BYTES - at)
                        return NULL;
        } while (!atomic_compare_exchange_weak(&c->inline_used, &at, at + round_up(bytes)));
        return first + at;
}

static struct error *get_memory(struct infer_call *c, const char *output, size_t bytes,
                                void **ret_memory, struct buf **ret_holder) {
        const struct infer_call_target *target = find_target(c, output);

        *ret_holder = NULL;
        if (target && bytes > target->bytes)
                return error_new(ERR_INVALID_ARG,
                                 "shared memory size specified with the request for output '%s' "
                                 "(%zu bytes) should be at least %zu bytes to hold the results",
                                 output, target->bytes, bytes);
        *ret_memory = target ? target->memory : take_inline(c, bytes);
        if (*ret_memory)
                return NULL;

        *ret_holder = buf_new(c->options.pool, bytes);
        if (!*ret_holder)
                return error_new(ERR_UNAVAILABLE, "%s for output '%s' of %zu bytes",
                                 buf_pool_shortage(c->options.pool, bytes), output, bytes);
        (*ret_holder)->len = bytes;
        *ret_memory = (*ret_holder)->bytes;
        return NULL;
}

static struct TRITONSERVER_Error *on_alloc(struct TRITONSERVER_ResponseAllocator *allocator,
                                           const char *tensor_name, size_t byte_size,
                                           TRITONSERVER_MemoryType memory_type,
                                           int64_t memory_type_id, void *userp, void **buffer,
                                           void                   **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_memory_type,
                                           int64_t                 *actual_memory_type_id) {
        struct buf   *holder = NULL;
        struct error *err;

        (void)allocator, (void)memory_type, (void)memory_type_id;
        *buffer = NULL;
        *actual_memory_type = TRITONSERVER_MEMORY_CPU;
        *actual_memory_type_id = 0;
        err = get_memory(userp, tensor_name, byte_size, buffer, &holder);
        *buffer_userp = holder;
        return core_error_give(err);
}

static struct TRITONSERVER_Error *on_free(struct TRITONSERVER_ResponseAllocator *allocator,
                                          void *buffer, void *buffer_userp, size_t byte_size,
                                          TRITONSERVER_MemoryType memory_type,
                                          int64_t                 memory_type_id) {
        (void)allocator, (void)buffer, (void)byte_size, (void)memory_type, (void)memory_type_id;
        buf_unref(buffer_userp);
        return NULL;
}

/* Backends that ask where outputs should be before they compute. */
static struct TRITONSERVER_Error *on_query(struct TRITONSERVER_ResponseAllocator *allocator,
                                           void *userp, const char *tensor_name, size_t *byte_size,
                                           TRITONSERVER_MemoryType *memory_type,
                                           int64_t                 *memory_type_id) {
        (void)allocator, (void)userp, (void)tensor_name, (void)byte_size;
        *memory_type = TRITONSERVER_MEMORY_CPU;
        *memory_type_id = 0;
        return NULL;
}

static struct error *make_allocator(struct infer_core *core) {
        TRY(core_error_take(
                TRITONSERVER_ResponseAllocatorNew(&core->allocator, on_alloc, on_free, NULL)));
        return core_error_take(
                TRITONSERVER_ResponseAllocatorSetQueryFunction(core->allocator, on_query));
}

struct error *infer_core_init(struct infer_core               *core,
                              const struct infer_core_options *options) {
        struct error *err;

        *core = (struct infer_core){
                .server = options->server,
                .shared_memory = options->shared_memory,
                .admission = options->admission,
        };
        TRY(header_forward_init(&core->header_forward, options->header_forward_pattern));
        err = make_allocator(core);
        if (err)
                infer_core_done(core);
        return err;
}

void infer_core_done(struct infer_core *core) {
        header_forward_done(&core->header_forward);
        if (core->allocator)
                core_error_drop(TRITONSERVER_ResponseAllocatorDelete(core->allocator));
        core->allocator = NULL;
}
