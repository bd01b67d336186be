/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of one execution, and what has become of each of them.
 *
 * TRITONBACKEND_ModelInstanceExecute must answer and release every request exactly once, also
 * those that fail on the way. A batch keeps count: a slot per request, which is live until it was
 * answered. A request that fails is answered at once and drops out; the others go on.
 *
 *     kit_batch_open() -> [kit_batch_fail() of some] -> kit_batch_close()
 *
 * Statistics are reported before a response leaves, so that a client that asks for them after its
 * answer finds itself counted.
 *
 * Ownership.  A batch owns its requests and responses from open to close; on an error of
 * kit_batch_open() nothing was answered and the server still has them. The struct may live on the
 * stack: it needs no memory of its own up to KIT_BATCH_FEW requests.
 * Threads.  A batch has one user at a time.
 */
#pragma once

#include "kit/errors.h"
#include "kit/stats.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_BATCH_FEW 8

struct kit_slot {
        TRITONBACKEND_Request  *request;  /* NULL: answered and released */
        TRITONBACKEND_Response *response; /* owned; NULL together with the request */
        int64_t                 rows;     /* batch rows; 1 where the model does not batch */
};

struct kit_batch {
        TRITONBACKEND_ModelInstance *instance;
        struct kit_slot             *slots; /* `few`, or owned */
        uint32_t                     n_slots;
        uint32_t                     n_live;
        int64_t                      n_rows;      /* of the live slots together */
        bool                         has_row_dim; /* the first dimension of tensors is the rows */
        struct kit_stats             stats;       /* exec_start is set by open */
        struct kit_slot              few[KIT_BATCH_FEW];
};

TRITONSERVER_Error *kit_batch_open(struct kit_batch *batch, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests);

/* Finds out the rows of each request from its first input. With max_batch_size 0 each has one and
 * tensors have no row dimension. Requests that cannot be right are answered INVALID_ARG. */
void kit_batch_read_rows(struct kit_batch *batch, int64_t max_batch_size);

/* Answers those whose clients no longer wait with CANCELLED. */
void kit_batch_drop_cancelled(struct kit_batch *batch);

/* Answers a live slot with `err`, which is taken. */
void kit_batch_fail(struct kit_batch *batch, struct kit_slot *slot, TRITONSERVER_Error *err);

/* Answers all that are still live with `err`, which is taken. */
void kit_batch_fail_all(struct kit_batch *batch, TRITONSERVER_Error *err);

/* Calls `run` for each live slot with a batch of that slot alone, which shares request and response
 * with this one. For a batch that failed as a whole: so only those requests fail that cannot be
 * run. `run` fails the slot, or fills its response; it must not close the batch. */
void kit_batch_each(struct kit_batch *batch, void (*run)(struct kit_batch *one, void *state),
                    void             *state);

/* Sends the responses of the live slots, reports, releases. The batch is over. */
void kit_batch_close(struct kit_batch *batch);

/* The first live slot at or after `slot`, NULL when there is none:
 *     for (s = kit_batch_live(b, b->slots); s != NULL; s = kit_batch_live(b, s + 1)) */
static inline struct kit_slot *kit_batch_live(const struct kit_batch *batch,
                                              struct kit_slot        *slot) {
        for (; slot < batch->slots + batch->n_slots; slot++)
                if (slot->request != NULL)
                        return slot;
        return NULL;
}

#ifdef __cplusplus
}
#endif
