/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing of a request as a struct shm_request in the region: one block with everything, including
 * the bytes of the inputs.
 *
 * Threads.  Any.
 */
#pragma once

#include "python/python_model.h"
#include "python/region.h"

/* INTERNAL "Failed to increase the shared memory pool size to <n> bytes. ..." when the region has no
 * room for it; then *ret_block is 0. Other errors leave *ret_block unchanged. */
TRITONSERVER_Error *request_write(const struct model *model, TRITONBACKEND_Request *request,
                                  uint32_t handle, struct region *region, uint32_t *ret_block);
