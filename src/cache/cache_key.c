/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_key.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"

#include <string.h>

/* More are sorted in memory of their own. */
#define FEW_NAMES 16

static void add_text(struct siphash *h, const char *text) {
        size_t len = strlen(text);

        siphash_add_u64(h, len);
        siphash_add(h, text, len);
}

static bool add_bytes(struct siphash *h, const struct request_input *in) {
        siphash_add_u64(h, in->byte_size);
        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                if (c->attributes.memory_type == MEMORY_GPU || c->host_policy != NULL)
                        return false;
                siphash_add(h, c->base, c->attributes.byte_size);
        }
        return true;
}

static bool add_input(struct siphash *h, const struct request_input *in) {
        add_text(h, in->name);
        siphash_add_u64(h, (uint64_t)in->type << 32 | in->n_dims);
        siphash_add(h, in->shape, in->n_dims * sizeof(*in->shape));
        return add_bytes(h, in);
}

static bool inputs_are_sorted(const struct request *req) {
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                if (in->next != NULL && strcmp(in->name, in->next->name) > 0)
                        return false;
        return true;
}

static int compare_inputs(const void *a, const void *b) {
        return strcmp((*(const struct request_input *const *)a)->name,
                      (*(const struct request_input *const *)b)->name);
}

static bool add_sorted_inputs(struct siphash *h, const struct request *req) {
        const struct request_input  *few[FEW_NAMES];
        const struct request_input **sorted = few;
        size_t                       n = 0;
        bool                         is_good = true;

        if (req->n_inputs > FEW_NAMES)
                sorted = try_alloc(req->n_inputs * sizeof(const struct request_input *));
        if (sorted == NULL)
                return false;
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                sorted[n++] = in;
        qsort(sorted, n, sizeof(*sorted), compare_inputs);
        for (size_t i = 0; i < n && is_good; i++)
                is_good = add_input(h, sorted[i]);
        if (sorted != few)
                free(sorted);
        return is_good;
}

static bool add_inputs(struct siphash *h, const struct request *req) {
        siphash_add_u64(h, req->n_inputs);
        if (!inputs_are_sorted(req))
                return add_sorted_inputs(h, req);
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                if (!add_input(h, in))
                        return false;
        return true;
}

static bool asks_for(const struct request *req, const char *name) {
        for (uint32_t i = 0; i < req->n_output_names; i++)
                if (strcmp(req->output_names[i], name) == 0)
                        return true;
        return false;
}

/* Which of the model's outputs, in the model's order. */
static void add_outputs(struct siphash *h, const struct request *req) {
        const struct model_io_set *io = req->model->io;

        for (uint32_t i = 0; i < io->n_outputs; i++) {
                unsigned char is_asked = asks_for(req, io->outputs[i].name);

                siphash_add(h, &is_asked, 1);
        }
}

static void print_key(const struct siphash *h, struct cache_key *ret) {
        static const char digits[] = "0123456789abcdef";
        unsigned char     bytes[SIPHASH_BYTES];

        siphash_finish(h, bytes);
        for (size_t i = 0; i < SIPHASH_BYTES; i++) {
                ret->text[2 * i] = digits[bytes[i] >> 4];
                ret->text[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret->text[CACHE_KEY_TEXT_BYTES - 1] = '\0';
}

bool cache_keys_make(const struct request *req, struct cache_keys *ret) {
        struct siphash h;

        siphash_init(&h, &req->model->cache_key);
        if (!add_inputs(&h, req))
                return false;
        print_key(&h, &ret->all);
        ret->is_some = req->n_output_names < req->model->io->n_outputs;
        if (ret->is_some) {
                add_outputs(&h, req);
                print_key(&h, &ret->some);
        }
        return true;
}
