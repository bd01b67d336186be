/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/client_memory.h"

#include "infer/response.h"

bool client_memory_hand_over(struct response_output *to, struct response_output *from,
                             struct error **ret_error) {
        if (!from->has_buffer || from->n_redirects == 0)
                return false;
        *ret_error = response_take_buffer(to, from);
        return true;
}
