/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares answers with the expected outputs of their inputs, byte by byte.
 *
 * Ownership.  Borrows model and inputs.
 * Threads.  Any: it is constant.
 */
#pragma once

#include "load/channel.h"
#include "load/input_set.h"
#include "load/load_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_checker {
        const struct load_model *model;
        const struct input_set  *inputs;
        enum target_protocol     protocol;
        uint64_t                 batch;
};

/* `first`: the entry of the request's first row. True when the answer has each expected output once, and
 * none differs; outputs without an expected value are not compared. */
bool answer_checker_compare(const struct answer_checker *c, size_t first, const struct answer *a);
