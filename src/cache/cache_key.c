/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_key.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"

#include <endian.h>
#include <string.h>

/* Sorted on the stack up to this number; more need memory of their own. */
#define FEW_INPUTS 16

/* Stands in the place of an input's index: outputs follow in the message. */
#define OUTPUTS UINT64_MAX
/* Likewise, before the inputs: the epoch follows. */
#define EPOCH (UINT64_MAX - 1)

static bool add_bytes(struct keyed_hash *h, const struct request_input *in) {
        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                if (c->attributes.memory_type == MEMORY_GPU || c->host_policy != NULL)
                        return false;
                keyed_hash_add(h, c->base, c->attributes.byte_size);
        }
        keyed_hash_pad(h);
        return true;
}

static uint64_t dim_of(const struct request_input *in, uint32_t i) {
        return i < in->n_dims ? (uint64_t)in->shape[i] : 0;
}

static bool add_input(struct keyed_hash *h, const struct request *req,
                      const struct request_input *in) {
        uint64_t place = (uint64_t)(in->io - req->model->io->inputs);

        keyed_hash_add_pair(h, place << 32 | in->n_dims, dim_of(in, 0));
        for (uint32_t i = 1; i < in->n_dims; i += 2)
                keyed_hash_add_pair(h, dim_of(in, i), dim_of(in, i + 1));
        /* For other types the request was checked to have the number of bytes that follows from the
         * shape. */
        if (in->type == DATA_TYPE_BYTES)
                keyed_hash_add_pair(h, in->byte_size, 0);
        return add_bytes(h, in);
}

static bool inputs_are_sorted(const struct request *req) {
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                if (in->next != NULL && in->io > in->next->io)
                        return false;
        return true;
}

static int compare_inputs(const void *a, const void *b) {
        const struct model_io *one = (*(const struct request_input *const *)a)->io;
        const struct model_io *other = (*(const struct request_input *const *)b)->io;

        return (one > other) - (one < other);
}

static bool add_sorted_inputs(struct keyed_hash *h, const struct request *req) {
        const struct request_input  *few[FEW_INPUTS];
        const struct request_input **sorted = few;
        size_t                       n = 0;
        bool                         is_good = true;

        if (req->n_inputs > FEW_INPUTS)
                sorted = try_alloc(req->n_inputs * sizeof(const struct request_input *));
        if (sorted == NULL)
                return false;
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                sorted[n++] = in;
        qsort(sorted, n, sizeof(*sorted), compare_inputs);
        for (size_t i = 0; i < n && is_good; i++)
                is_good = add_input(h, req, sorted[i]);
        if (sorted != few)
                free(sorted);
        return is_good;
}

static bool add_inputs(struct keyed_hash *h, const struct request *req) {
        if (!inputs_are_sorted(req))
                return add_sorted_inputs(h, req);
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                if (!add_input(h, req, in))
                        return false;
        return true;
}

static bool asks_for(const struct request *req, const char *name) {
        for (uint32_t i = 0; i < req->n_output_names; i++)
                if (strcmp(req->output_names[i], name) == 0)
                        return true;
        return false;
}

/* Adds a bit for each of the model's outputs, in the model's order: set for requested ones. */
static void add_outputs(struct keyed_hash *h, const struct request *req) {
        const struct model_io_set *io = req->model->io;

        keyed_hash_add_pair(h, OUTPUTS, io->n_outputs);
        for (uint32_t i = 0; i < io->n_outputs;) {
                uint64_t asked = 0;

                do
                        asked |= (uint64_t)asks_for(req, io->outputs[i].name) << i % 64;
                while (++i < io->n_outputs && i % 64 != 0);
                keyed_hash_add_pair(h, asked, 0);
        }
}

/* The hexadecimal digits of four bytes, computed at once: each half byte is spread to a byte of its
 * own, the first digit of the lowest byte lowest. */
static uint64_t hex_digits(uint32_t bytes) {
        uint64_t v = bytes, above_nine;

        v = (v | v << 16) & UINT64_C(0x0000ffff0000ffff);
        v = (v | v << 8) & UINT64_C(0x00ff00ff00ff00ff);
        v = (v >> 4 | v << 8) & UINT64_C(0x0f0f0f0f0f0f0f0f);
        above_nine = (v + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
        return v + UINT64_C(0x3030303030303030) + above_nine * ('a' - '0' - 10);
}

static void print_digits(uint64_t bytes, char *to) {
        uint64_t digits[2] = { htole64(hex_digits((uint32_t)bytes)),
                               htole64(hex_digits((uint32_t)(bytes >> 32))) };

        memcpy(to, digits, sizeof(digits));
}

static void print_key(const struct keyed_hash *h, struct cache_key *ret) {
        uint64_t words[2];

        keyed_hash_finish(h, words);
        print_digits(words[0], ret->text);
        print_digits(words[1], ret->text + sizeof(words));
        ret->text[CACHE_KEY_TEXT_BYTES - 1] = '\0';
}

bool cache_keys_make(const struct request *req, const struct keyed_hash_key *secret,
                     struct cache_keys *ret) {
        /* Read before the request takes its snapshot of models, so the snapshot is of this epoch or
         * a later one. */
        uint64_t          epoch = atomic_load(&req->model->cache_epoch);
        struct keyed_hash h;

        keyed_hash_init(&h, secret, &req->model->cache_key);
        if (epoch > 0)
                keyed_hash_add_pair(&h, EPOCH, epoch);
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
