/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/client_memory.h"

#include "base/buf.h"
#include "infer/response.h"

bool client_memory_hand_over(struct response_output *to, struct response_output *from,
                             struct error **ret_error) {
        if (!from->has_buffer || from->n_redirects == 0)
                return false;
        *ret_error = response_take_buffer(to, from);
        return true;
}

struct error *client_memory_release(struct response_allocator *allocator, void *buffer,
                                    void *buffer_userp, size_t byte_size, enum memory_type type,
                                    int64_t id) {
        (void)allocator;
        (void)buffer;
        (void)byte_size;
        (void)type;
        (void)id;
        buf_unref(buffer_userp);
        return NULL;
}
