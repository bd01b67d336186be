/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing of a request as a struct shm_request in the region: one block with everything, including
 * the bytes of the inputs. Inputs on GPUs stay there when the model takes them so (holds.h).
 *
 * Threads.  Any.
 */
#pragma once

#include "python/holds.h"
#include "python/python_model.h"
#include "python/region.h"

/* INTERNAL "Failed to increase the shared memory pool size to <n> bytes. ..." when the region has no
 * room for it; then *ret_block is 0. Other errors leave *ret_block unchanged. *ret_hold is the caller's: the
 * inputs that stay on GPUs; NULL when there are none. */
TRITONSERVER_Error *request_write(const struct model *model, TRITONBACKEND_Request *request,
                                  uint32_t handle, struct region *region, uint32_t *ret_block,
                                  struct hold **ret_hold);
