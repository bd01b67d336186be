/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server says of a model: its inputs and outputs.
 *
 * Ownership.  Texts are in the arena of the command, or ranges of the answer there.
 */
#pragma once

#include "cli/ctl_private.h"
#include "cli/tensor_values.h"

struct model_tensor {
        struct str           name;
        struct str           datatype; /* "FP32" */
        struct tensor_shape  shape;    /* with the batch dimension; -1: any size */
        struct model_tensor *next;
};

struct model_metadata {
        struct str           name, platform;
        struct str           versions; /* JSON */
        struct model_tensor *inputs, *outputs;
};

/* *ret_body: the answer; may be NULL. */
struct error *ctl_metadata_get(struct ctl *c, struct model_metadata *ret, struct str *ret_body)
        NODISCARD;
