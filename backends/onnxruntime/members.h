/* SPDX-License-Identifier: BSD-3-Clause */
/* Models with one file per member: instance groups that run files of their own, often built for one
 * batch size each (the parameter `member_files`).
 *
 * The configuration of such a model is not completed, since its files may differ in the values.
 *
 * Ownership.  A model owns its members; instances borrow their plans.
 * Threads.  Members do not change after members_open().
 */
#pragma once

#include "onnxruntime/onnx_session.h"
#include "onnxruntime/run.h"

/* Called by Neso, see triton/core/neso.h. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *NESOBACKEND_ModelInstanceBatchRange(
        TRITONBACKEND_ModelInstance *triton, uint32_t *min_rows, uint32_t *max_rows);

struct member {
        char           *file; /* owned */
        struct session  session;
        struct run_plan plan;
};

struct members {
        struct member **items; /* owned, as is each: plans point into them */
        size_t          n_items;
};

/* There are no members without the parameter. */
TRITONSERVER_Error *members_open(const struct ort *ort, const struct kit_model *model,
                                 struct members *ret);
void                members_close(struct members *members);

/* True when the model's own file must be opened: the model has no members, or such a file
 * exists. */
bool members_need_main(const struct members *members, const struct kit_model *model);

/* Finds the plan of the instance's file; *ret is NULL when its group has none. */
TRITONSERVER_Error *members_find(const struct members        *members,
                                 TRITONBACKEND_ModelInstance *instance,
                                 const struct run_plan      **ret);
