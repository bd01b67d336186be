/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request_strings.h"

#include "config/shape.h"
#include "infer/model.h"
#include "infer/request.h"

#define LENGTH_BYTES 4

/* Position of a walk over the elements. */
struct string_walk {
        int64_t  n_elements;
        uint64_t rest_of_element;
};

static uint32_t read_length(const unsigned char *p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Walks over one chunk. False when the chunk ends within a length; *ret_left are the bytes of the
 * length that it has. */
static bool walk_chunk(struct string_walk *w, const struct input_chunk *chunk, size_t *ret_left) {
        const unsigned char *at = chunk->base;
        size_t               left = chunk->attributes.byte_size;

        while (left > 0) {
                if (w->rest_of_element == 0) {
                        if (left < LENGTH_BYTES) {
                                *ret_left = left;
                                return false;
                        }
                        w->rest_of_element = read_length(at);
                        w->n_elements++;
                        at += LENGTH_BYTES;
                        left -= LENGTH_BYTES;
                }
                size_t take = w->rest_of_element < left ? (size_t)w->rest_of_element : left;

                at += take;
                left -= take;
                w->rest_of_element -= take;
        }
        return true;
}

struct error *request_check_strings(const struct request *req, const struct request_input *in) {
        const char        *model = req->model->name;
        int64_t            expected = shape_element_count(in->given_shape, in->n_given_dims);
        struct string_walk w = { 0 };
        size_t             left;

        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                if (c->host_policy != NULL)
                        continue;
                if (!walk_chunk(&w, c, &left))
                        return request_error(req, ERR_INVALID_ARG,
                                             "incomplete string length indicator for inference "
                                             "input '%s' for model '%s', expecting %d bytes but "
                                             "only %zu bytes available. Please make sure the "
                                             "string length indicator is in one buffer.",
                                             in->name, model, LENGTH_BYTES, left);
        }
        if (w.n_elements != expected)
                return request_error(req, ERR_INVALID_ARG,
                                     "expected %lld string elements for inference input '%s' for "
                                     "model '%s', got %lld",
                                     (long long)expected, in->name, model, (long long)w.n_elements);
        if (w.rest_of_element > 0)
                return request_error(req, ERR_INVALID_ARG,
                                     "incomplete last string element for inference input '%s' for "
                                     "model '%s', %llu bytes are missing",
                                     in->name, model, (unsigned long long)w.rest_of_element);
        return NULL;
}
