/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of a load: rows of each input, made (zeros, random values) or read from files.
 *
 *     {"data": [ENTRY, ...], "validation_data": [ENTRY, ...]}
 *
 * An entry is an object with a member for each input: a flat array, {"b64": "..."}, or {"content": array or
 * {"b64": ...}, "shape": [...]}. An array of entries is the data of one sequence, in order. The k-th entry of
 * the validation data has the outputs for the k-th entry of the data.
 *
 * Ownership.  The set owns all bytes, in an arena of a limited size.
 * Threads.  Constant after it was made.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "load/load_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of all values. */
#define INPUT_SET_MAX_BYTES ((size_t)1 << 30)

struct input_values {
        struct str        bytes; /* raw values of one row; ptr NULL: the entry has none */
        struct load_shape shape;
};

struct input_entry {
        struct input_values *inputs;  /* in arena; as many as the model has */
        struct input_values *outputs; /* expected; NULL: not checked */
};

/* Entries [first, first + n) are a sequence of their own. */
struct input_stream {
        size_t first, n;
};

struct input_set {
        struct arena         arena;
        struct input_entry  *entries; /* owned */
        size_t               n_entries;
        struct input_stream *streams; /* owned; none: entries are used in turn by all sequences */
        size_t               n_streams;
        bool                 has_validation;
};

struct input_options {
        char *const *sources; /* "zero", "random", directories, files; none: random */
        size_t       n_sources;
        char *const *shapes; /* "NAME:3,224,224" */
        size_t       n_shapes;
        uint64_t     string_length;
        const char  *string;     /* NULL: letters at random */
        uint64_t     n_distinct; /* entries of random values */
        uint64_t     seed;
};

/* INVALID_ARG names the file, the entry and the input. */
struct error *input_set_make(const struct load_model *m, const struct input_options *o,
                             struct input_set *ret) NODISCARD;
void          input_set_done(struct input_set *s);
