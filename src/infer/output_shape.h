/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape of an output as the client sees it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct model_io;
struct model_io_set;

/* Number of dims that output_shape_restore() may write: at least n_dims. `t` is the output in the
 * configuration, NULL when it is not listed there. */
size_t output_shape_max_dims(const struct model_io *t, uint32_t n_dims);

/* Converts the dims from the backend's form to the client's: undoes the configuration's reshape, or
 * copies them when `t` is NULL or has none. Returns the number of dims written. */
uint32_t output_shape_restore(const struct model_io_set *io, const struct model_io *t,
                              const int64_t *dims, uint32_t n_dims, int64_t *ret_dims);
