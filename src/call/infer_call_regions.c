/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in shared memory: from what a client names to where the bytes are. */
#include "call/infer_call.h"

#include <string.h>

#include "shm/shared_memory.h"

/* As large as a gRPC message may be by default. */
#define MAX_COPIED_BYTES ((size_t)1 << 30)

static struct error *find_place(struct infer_call *c, const struct infer_shared_memory *asked,
                                char **ret) {
        struct shm_region *r;

        TRY(shared_memory_take(c->options.core->shared_memory, asked->region, &r));
        c->regions[c->n_regions++] = r;
        return shm_region_find(r, asked->offset, asked->byte_size, ret);
}

/* The elements of BYTES tell their own length, which the core checks and the backend believes. */
static struct error *copy_input(struct infer_call *c, struct infer_input *in) {
        struct buf *copy;

        if (in->bytes.len > MAX_COPIED_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "BYTES input '%s' in shared memory has %zu bytes, at most %zu are "
                                 "allowed",
                                 in->name, in->bytes.len, MAX_COPIED_BYTES);
        copy = buf_new(c->options.pool, in->bytes.len);
        if (!copy)
                return infer_no_memory();
        memcpy(copy->bytes, in->bytes.ptr, in->bytes.len);
        in->bytes.ptr = copy->bytes;
        in->converted = copy;
        return NULL;
}

static struct error *place_input(struct infer_call *c, struct infer_input *in) {
        char *memory;

        if (!in->shared_memory.region)
                return NULL;
        TRY(find_place(c, &in->shared_memory, &memory));
        in->bytes = str_range(memory, (size_t)in->shared_memory.byte_size);
        return in->datatype == TRITONSERVER_TYPE_BYTES ? copy_input(c, in) : NULL;
}

static struct error *place_output(struct infer_call *c, const struct infer_requested_output *out) {
        char *memory;

        if (!out->shared_memory.region)
                return NULL;
        TRY(find_place(c, &out->shared_memory, &memory));
        c->targets[c->n_targets++] = (struct infer_call_target){
                .output = out->name,
                .memory = memory,
                .bytes = (size_t)out->shared_memory.byte_size,
        };
        return NULL;
}

static size_t count_inputs(const struct infer_request *q) {
        size_t n = 0;

        for (uint32_t i = 0; i < q->n_inputs; i++)
                n += q->inputs[i].shared_memory.region != NULL;
        return n;
}

static size_t count_outputs(const struct infer_request *q) {
        size_t n = 0;

        for (uint32_t i = 0; i < q->n_outputs; i++)
                n += q->outputs[i].shared_memory.region != NULL;
        return n;
}

struct error *infer_call_find_regions(struct infer_call *c, struct infer_request *q,
                                      struct arena *arena) {
        size_t n_inputs = count_inputs(q), n_outputs = count_outputs(q);

        if (LIKELY(n_inputs + n_outputs == 0))
                return NULL;
        c->regions = arena_try_alloc(arena, (n_inputs + n_outputs) * sizeof(*c->regions));
        c->targets = arena_try_alloc(arena, MAX(n_outputs, 1) * sizeof(*c->targets));
        if (!c->regions || !c->targets)
                return infer_no_memory();
        for (uint32_t i = 0; i < q->n_inputs; i++)
                TRY(place_input(c, &q->inputs[i]));
        for (uint32_t i = 0; i < q->n_outputs; i++)
                TRY(place_output(c, &q->outputs[i]));
        return NULL;
}

struct error *infer_call_check_regions(const struct infer_call *c) {
        for (size_t i = 0; i < c->n_regions; i++)
                TRY(shm_region_check_intact(c->regions[i]));
        return NULL;
}
