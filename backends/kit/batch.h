/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of one execution and the state of each.
 *
 * TRITONBACKEND_ModelInstanceExecute must answer and release every request exactly once, also when
 * it fails. A batch has a slot for each request; the slot is live until the request was answered. A
 * request that fails is answered at once, and the other slots stay live.
 *
 *     kit_batch_open() -> [kit_batch_fail() of some] -> kit_batch_close()
 *
 * Statistics are reported before a response is sent, so that a client that reads them after its
 * response finds its request counted.
 *
 * Ownership.  A batch owns its requests and responses from open to close. When kit_batch_open()
 * returns an error, nothing was answered and the server still owns the requests. The struct may be
 * on the stack: up to KIT_BATCH_FEW requests it allocates nothing.
 * Threads.  One user at a time.
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

struct kit_memory; /* memory.h */

struct kit_batch {
        TRITONBACKEND_ModelInstance *instance;
        struct kit_memory           *memory; /* borrowed; NULL, as open sets it: tensors are in main
                                              * memory */
        struct kit_slot             *slots;  /* `few`, or owned */
        uint32_t                     n_slots;
        uint32_t                     n_live;
        int64_t                      n_rows;      /* of all live slots */
        bool                         has_row_dim; /* the first dimension of tensors is the number of
                                                   * rows */
        struct kit_stats             stats;       /* exec_start is set by open */
        struct kit_slot              few[KIT_BATCH_FEW];
};

TRITONSERVER_Error *kit_batch_open(struct kit_batch *batch, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests);

/* Determines the rows of each request from its first input. With max_batch_size 0 each request has
 * one row, and tensors have no row dimension. Malformed requests are answered INVALID_ARG. */
void kit_batch_read_rows(struct kit_batch *batch, int64_t max_batch_size);

/* Answers cancelled requests with CANCELLED. */
void kit_batch_drop_cancelled(struct kit_batch *batch);

/* Answers a live slot with `err`, which is taken. */
void kit_batch_fail(struct kit_batch *batch, struct kit_slot *slot, TRITONSERVER_Error *err);

/* Answers all live slots with `err`, which is taken. */
void kit_batch_fail_all(struct kit_batch *batch, TRITONSERVER_Error *err);

/* Calls `run` for each live slot with a batch of that slot alone, which shares request and response
 * with this one. To be used after the batch failed as a whole, so that only the requests fail that
 * cannot be run. `run` fails the slot or fills its response; it must not close the batch. */
void kit_batch_each(struct kit_batch *batch, void (*run)(struct kit_batch *one, void *state),
                    void             *state);

/* Sends the responses of the live slots, reports statistics and releases the requests. Ends the
 * batch. */
void kit_batch_close(struct kit_batch *batch);

/* Returns the first live slot at or after `slot`; NULL when there is none.
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
