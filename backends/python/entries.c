/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of an instance: the requests that it has, by handle (python_instance.h). */
#include "kit/scratch.h"
#include "python/holds.h"
#include "python/python_instance.h"
#include "triton/core/neso.h"

#include <stdlib.h>

/* Other servers do not have this function. */
#pragma weak NESO_CancelWatchDelete

#define INDEX_BITS 20 /* low bits of a handle; the others count the uses of the entry */
#define MAX_ENTRIES (1u << INDEX_BITS)

static bool grow_locked(struct instance *in) {
        uint32_t       n = in->n_entries == 0 ? 64 : in->n_entries * 2;
        struct entry **entries;
        uint32_t      *next_free;

        if (n > MAX_ENTRIES)
                return false;
        entries = realloc(in->entries, n * sizeof(*entries));
        if (entries != NULL)
                in->entries = entries;
        next_free = realloc(in->next_free, n * sizeof(*next_free));
        if (next_free != NULL)
                in->next_free = next_free;
        if (entries == NULL || next_free == NULL)
                return false;
        for (uint32_t i = in->n_entries; i < n; i++) {
                in->entries[i] = kit_alloc_array(1, sizeof(*in->entries[i]));
                if (in->entries[i] == NULL)
                        break;
                in->entries[i]->instance = in;
                in->entries[i]->handle = i;
                in->next_free[i] = in->free_entries_head;
                in->free_entries_head = i;
                in->n_entries = i + 1;
        }
        return in->free_entries_head != SHM_NO_INDEX;
}

struct entry *entry_new_locked(struct instance *in, TRITONBACKEND_Request *request) {
        struct entry *e;

        if (in->free_entries_head == SHM_NO_INDEX && !grow_locked(in))
                return NULL;
        e = in->entries[in->free_entries_head];
        in->free_entries_head = in->next_free[in->free_entries_head];
        *e = (struct entry){ .instance = in,
                             .handle = e->handle + MAX_ENTRIES, /* marks the next use */
                             .request = request,
                             .is_used = true,
                             .is_executing = true };
        return e;
}

struct entry *entry_find_locked(const struct instance *in, uint32_t handle) {
        uint32_t i = handle & (MAX_ENTRIES - 1);

        if (i < in->n_entries && in->entries[i]->is_used && in->entries[i]->handle == handle)
                return in->entries[i];
        return NULL;
}

struct entry *entry_find(struct instance *in, uint32_t handle) {
        struct entry *e;

        (void)pthread_mutex_lock(&in->lock);
        e = entry_find_locked(in, handle);
        (void)pthread_mutex_unlock(&in->lock);
        return e;
}

static void end_watch(struct entry *e) {
        if (e->watch != NULL)
                kit_error_log(NESO_CancelWatchDelete(e->watch), "failed to end a watch");
        e->watch = NULL;
}

void entry_end(struct entry *e) {
        end_watch(e);
        if (e->factory != NULL)
                kit_error_log(TRITONBACKEND_ResponseFactoryDelete(e->factory),
                              "failed to delete a response factory");
        e->factory = NULL;
        e->is_ended = true;
}

void entry_free_locked(struct entry *e) {
        struct instance *in = e->instance;
        uint32_t         i = e->handle & (MAX_ENTRIES - 1);

        e->is_used = false;
        in->next_free[i] = in->free_entries_head;
        in->free_entries_head = i;
}

void entry_free(struct entry *e) {
        struct instance *in = e->instance;

        entry_end(e);
        (void)pthread_mutex_lock(&in->lock);
        entry_free_locked(e);
        (void)pthread_mutex_unlock(&in->lock);
}

TRITONSERVER_Error *entry_open(struct entry *e) {
        if (e->factory != NULL)
                return NULL;
        return TRITONBACKEND_ResponseFactoryNew(&e->factory, e->request);
}

TRITONSERVER_Error *entry_respond(struct entry *e, TRITONBACKEND_Response **ret) {
        if (e->factory != NULL)
                return TRITONBACKEND_ResponseNewFromFactory(ret, e->factory);
        return TRITONBACKEND_ResponseNew(ret, e->request);
}

/* Without memory for a response the last flag is sent alone; the server then adds an error of its own. */
static TRITONSERVER_Error *send_error(struct entry *e, TRITONSERVER_Error *err) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *lost = entry_respond(e, &response), *not_opened;

        if (lost == NULL)
                return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                  err);
        not_opened = entry_open(e);
        if (not_opened != NULL) {
                TRITONSERVER_ErrorDelete(not_opened);
                return lost;
        }
        TRITONSERVER_ErrorDelete(lost);
        return TRITONBACKEND_ResponseFactorySendFlags(e->factory,
                                                      TRITONSERVER_RESPONSE_COMPLETE_FINAL);
}

void entry_fail(struct entry *e, TRITONSERVER_Error *err) {
        if (e->is_final)
                return;
        e->is_final = true;
        kit_error_log(send_error(e, err), "failed to send an error");
}

void entry_release(struct entry *e, uint32_t flags) {
        if (e->request == NULL)
                return;
        if (e->is_final)
                end_watch(e); /* it holds memory of the request, which the front end reuses */
        if (e->hold != NULL && holds_release(e, flags))
                return;
        kit_error_log(TRITONBACKEND_RequestRelease(e->request, flags), "Failed to release request");
        e->request = NULL;
}
