/* SPDX-License-Identifier: BSD-3-Clause */
/* For input_set.c, input_set_make.c, input_json.c and their test only: how a set grows. */
#pragma once

#include "load/input_set.h"

struct error *input_set_no_room(void);
struct error *input_set_add(struct input_set *s, const struct load_model *m,
                            struct input_entry **ret) NODISCARD;
void          input_set_add_stream(struct input_set *s, struct input_stream stream);
/* Gives the entry places for expected outputs. */
struct error *input_set_expect(struct input_set *s, const struct load_model *m,
                               struct input_entry *e) NODISCARD;
/* Reads a text file, which has an element of BYTES on each line. INVALID_ARG beyond `max` bytes: four are added to each
 * line. */
struct error *input_lines_read(struct input_set *s, struct str text, size_t max, struct str *ret)
        NODISCARD;
/* Counts the elements of a shape; INVALID_ARG when it is variable. */
struct error *input_shape_count(const struct load_tensor *t, const struct load_shape *shape,
                                uint64_t *ret) NODISCARD;
/* Counts the elements of raw values; false when the last one is cut. */
bool input_count_elements(const struct load_tensor *t, struct str bytes, uint64_t *ret);
/* Checks that the values are as many as the shape has. */
struct error *input_check_count(const struct load_tensor *t, const struct input_values *v)
        NODISCARD;
