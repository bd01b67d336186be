/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/host_inputs.h"

#include "base/mem.h"
#include "infer/buffer_copy.h"
#include "infer/model.h"

#define COPY_ALIGNMENT 64 /* of each chunk, as that of whole inputs elsewhere */

/* A chunk, and where its bytes are on the device. */
struct host_copy {
        struct input_chunk      *chunk; /* borrowed: of the request */
        const void              *base;
        struct buffer_attributes attributes;
};

/* The chunks that were copied together. */
struct host_copies {
        struct host_copies *before;   /* owned: copied earlier */
        void               *memory;   /* owned: pinned memory for all of them */
        uint64_t            start_ns; /* 0: not of host_inputs_copy() */
        uint32_t            n;
        struct gpu_copy    *transfers; /* n, within this block */
        struct host_copy    chunks[];
};

/* What is to be copied: the chunks on devices of one input, or of all (NULL). */
struct selection {
        struct request             *req;
        const struct request_input *only;
        uint32_t                    n;
        size_t                      n_bytes; /* with the gaps that align each chunk */
};

static struct error *out_of_memory(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE, "out of memory for inputs that are on a device");
}

static bool is_selected(const struct selection *s, const struct request_input *in) {
        return s->only == NULL || s->only == in;
}

/* False on overflow. */
static bool measure_copies(struct selection *s) {
        for (const struct request_input *in = s->req->first_input; in != NULL; in = in->next)
                for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                        size_t n = c->attributes.byte_size;

                        if (!is_selected(s, in) || !buffer_is_on_device(&c->attributes))
                                continue;
                        if (!size_add(n, COPY_ALIGNMENT - 1, &n) ||
                            !size_add(s->n_bytes, n / COPY_ALIGNMENT * COPY_ALIGNMENT, &s->n_bytes))
                                return false;
                        s->n++;
                }
        return true;
}

/* Makes a block for the selected chunks, without their memory. NULL when memory is short. */
static struct host_copies *new_block(const struct selection *s) {
        struct host_copies *block;
        size_t              n_bytes;

        if (!size_mul(s->n, sizeof(struct host_copy) + sizeof(struct gpu_copy), &n_bytes) ||
            !size_add(n_bytes, sizeof(*block), &n_bytes))
                return NULL;
        block = try_alloc(n_bytes);
        if (block == NULL)
                return NULL;
        *block = (struct host_copies){ .n = s->n };
        block->transfers = (struct gpu_copy *)(void *)&block->chunks[s->n];
        return block;
}

static void list_transfers(const struct selection *s, struct host_copies *block) {
        char    *to = block->memory;
        uint32_t at = 0;

        for (struct request_input *in = s->req->first_input; in != NULL; in = in->next)
                for (struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                        size_t n = c->attributes.byte_size;

                        if (!is_selected(s, in) || !buffer_is_on_device(&c->attributes))
                                continue;
                        block->chunks[at] = (struct host_copy){ c, c->base, c->attributes };
                        block->transfers[at++] =
                                (struct gpu_copy){ .to = to,
                                                   .from = c->base,
                                                   .to_device = GPU_HOST,
                                                   .from_device = buffer_device(&c->attributes),
                                                   .bytes = n };
                        to += (n + COPY_ALIGNMENT - 1) / COPY_ALIGNMENT * COPY_ALIGNMENT;
                }
}

static void replace_chunks(const struct host_copies *block, bool is_pinned) {
        for (uint32_t i = 0; i < block->n; i++) {
                struct input_chunk *c = block->chunks[i].chunk;

                c->base = block->transfers[i].to;
                c->attributes = buffer_of_host(c->attributes.byte_size, is_pinned);
        }
}

static struct error *fill_block(const struct selection *s, struct host_copies *block,
                                bool *ret_is_pinned) {
        struct gpus *gpus = s->req->model->gpus;

        TRY(gpu_pinned_alloc(gpus, s->n_bytes, &block->memory, ret_is_pinned));
        list_transfers(s, block);
        return gpu_copy_all(gpus, block->transfers, block->n);
}

static void free_block(const struct request *req, struct host_copies *block) {
        gpu_pinned_free(req->model->gpus, block->memory);
        free(block);
}

static struct error *copy_selected(struct selection *s, uint64_t start_ns) {
        struct request     *req = s->req;
        struct host_copies *block;
        struct error       *err;
        bool                is_pinned;

        if (!measure_copies(s))
                return out_of_memory(req);
        if (s->n == 0)
                return NULL;
        block = new_block(s);
        if (block == NULL)
                return out_of_memory(req);
        err = fill_block(s, block, &is_pinned);
        if (err != NULL) {
                free_block(req, block);
                return error_wrap(err, "[request id: %s] an input cannot be copied from a device",
                                  *req->id != '\0' ? req->id : "<id_unknown>");
        }
        replace_chunks(block, is_pinned);
        block->start_ns = start_ns;
        block->before = req->has_host_copies ? req->host_copies : NULL;
        req->host_copies = block;
        req->has_host_copies = true;
        return NULL;
}

struct error *host_inputs_copy(struct request *req, uint64_t now_ns) {
        struct selection all = { .req = req };

        TRY(copy_selected(&all, now_ns));
        req->has_device_inputs = false;
        return NULL;
}

struct error *host_inputs_copy_one(struct request *req, struct request_input *in) {
        struct selection one = { .req = req, .only = in };

        return copy_selected(&one, 0);
}

void host_inputs_free(struct request *req) {
        for (struct host_copies *block = req->host_copies, *before; block != NULL; block = before) {
                before = block->before;
                for (uint32_t i = 0; i < block->n; i++) {
                        const struct host_copy *copy = &block->chunks[i];

                        copy->chunk->base = copy->base;
                        copy->chunk->attributes = copy->attributes;
                }
                free_block(req, block);
        }
        req->has_host_copies = false;
        req->has_device_inputs = true;
}

uint64_t host_inputs_start(const struct request *req) {
        return req->has_host_copies ? req->host_copies->start_ns : 0;
}

void host_inputs_forget_start(struct request *req) {
        for (struct host_copies *block = req->host_copies; block != NULL; block = block->before)
                block->start_ns = 0;
}
