/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/shape.h"

#include "base/strbuf.h"

#include <inttypes.h>
#include <string.h>

int64_t shape_element_count(const int64_t *dims, size_t n_dims) {
        int64_t count = 1;
        bool    is_variable = false;
        bool    has_overflow = false;

        for (size_t i = 0; i < n_dims; i++) {
                if (dims[i] < SHAPE_ANY_DIM)
                        return SHAPE_INVALID_DIM;
                if (dims[i] == SHAPE_ANY_DIM)
                        is_variable = true;
                else if (__builtin_mul_overflow(count, dims[i], &count))
                        has_overflow = true;
        }
        if (is_variable)
                return SHAPE_VARIABLE;
        return has_overflow ? SHAPE_OVERFLOW : count;
}

int64_t shape_byte_size(enum data_type type, const int64_t *dims, size_t n_dims) {
        int64_t count = shape_element_count(dims, n_dims);
        int64_t size = (int64_t)data_type_size(type);
        int64_t bytes;

        if (count < 0)
                return count;
        if (size == 0)
                return SHAPE_VARIABLE;
        if (__builtin_mul_overflow(count, size, &bytes))
                return SHAPE_BYTES_OVERFLOW;
        return bytes;
}

bool shape_equal(const int64_t *a, size_t n_a, const int64_t *b, size_t n_b) {
        return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof(*a)) == 0);
}

bool shape_matches(const int64_t *dims, size_t n_dims, const int64_t *given, size_t n_given) {
        if (n_dims != n_given)
                return false;
        for (size_t i = 0; i < n_dims; i++)
                if (given[i] < 0 || (dims[i] != SHAPE_ANY_DIM && dims[i] != given[i]))
                        return false;
        return true;
}

bool shape_is_variable(const int64_t *dims, size_t n_dims) {
        for (size_t i = 0; i < n_dims; i++)
                if (dims[i] == SHAPE_ANY_DIM)
                        return true;
        return false;
}

/* Index of the next variable dimension from `at` on; n_dims when there is none. */
static size_t next_variable(struct shape_form form, size_t at) {
        while (at < form.n_dims && form.dims[at] != SHAPE_ANY_DIM)
                at++;
        return at;
}

bool shape_reshape(struct shape_form from, struct shape_form to, const int64_t *given,
                   int64_t *ret) {
        size_t at = 0; /* the next dimension of `from` to compare */

        if (!shape_matches(from.dims, from.n_dims, given, from.n_dims))
                return false;
        for (size_t i = 0; i < to.n_dims; i++) {
                if (to.dims[i] != SHAPE_ANY_DIM) {
                        ret[i] = to.dims[i];
                        continue;
                }
                at = next_variable(from, at);
                if (at == from.n_dims)
                        return false;
                ret[i] = given[at++];
        }
        return next_variable(from, at) == from.n_dims;
}

void shape_print(const int64_t *dims, size_t n_dims, struct strbuf *to) {
        strbuf_putc(to, '[');
        for (size_t i = 0; i < n_dims; i++)
                strbuf_printf(to, "%s%" PRId64, i == 0 ? "" : ",", dims[i]);
        strbuf_putc(to, ']');
}
