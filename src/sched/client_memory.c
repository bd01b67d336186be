/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/client_memory.h"

#include "base/buf.h"
#include "base/mem.h"
#include "infer/response.h"
#include "sched/step_memory.h"

#include <stdint.h>

/* The lowest bit of an output's userp marks a record. Records and bufs have a larger alignment. */
#define RECORD_MARK 1u

static struct client_memory *record_of(void *userp) {
        uintptr_t bits = (uintptr_t)userp;

        return (bits & RECORD_MARK) != 0 ? (struct client_memory *)(bits - RECORD_MARK) : NULL;
}

static void free_record(struct client_memory *m) {
        if (m->is_on_heap)
                free(m);
}

struct error *client_memory_get(const struct request *outer, struct client_memory *room,
                                const struct wanted_output *wanted,
                                const struct given_memory  *ret) {
        const struct response_allocator *a = outer->allocator;
        struct client_memory            *m = room != NULL ? room : try_alloc(sizeof(*m));
        struct error                    *err;

        if (m == NULL)
                return step_memory_shortage(wanted->name, wanted->byte_size);
        *m = (struct client_memory){ .allocator = a, .is_on_heap = room == NULL };
        err = a->alloc((struct response_allocator *)a, wanted->name, wanted->byte_size,
                       wanted->type, wanted->id, outer->allocator_userp, ret->buffer, &m->userp,
                       ret->actual_type, ret->actual_id);
        if (err != NULL)
                free_record(m);
        else
                *ret->buffer_userp = (char *)m + RECORD_MARK;
        return err;
}

bool client_memory_hand_over(struct response_output *to, struct response_output *from,
                             struct error **ret_error) {
        struct client_memory *m = from->has_buffer ? record_of(from->userp) : NULL;
        void                 *userp;

        if (m == NULL)
                return false;
        userp = m->userp;
        free_record(m);
        *ret_error = response_take_buffer(to, from, userp);
        return true;
}

struct error *client_memory_release(struct response_allocator *allocator, void *buffer,
                                    void *buffer_userp, size_t byte_size, enum memory_type type,
                                    int64_t id) {
        struct client_memory            *m = record_of(buffer_userp);
        const struct response_allocator *a = m != NULL ? m->allocator : NULL;
        struct error                    *err = NULL;

        (void)allocator;
        if (m == NULL) {
                buf_unref(buffer_userp);
                return NULL;
        }
        if (a->release != NULL)
                err = a->release((struct response_allocator *)a, buffer, m->userp, byte_size, type,
                                 id);
        free_record(m);
        return err;
}
