/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the data of a load from JSON; load/input_set.h has the format.
 */
#pragma once

#include "load/input_set.h"

/* Adds the entries of the text. `shapes`: of each input where the entry has none. INVALID_ARG names the entry
 * and the input: "data[3].INPUT0: ...". */
struct error *input_json_read(struct input_set *s, const struct load_model *m,
                              const struct load_shape *shapes, struct str text) NODISCARD;
