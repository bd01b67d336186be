/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/batch.h"

#include "kit/scratch.h"
#include "triton/core/neso.h"

#include <stdlib.h>

/* The receivers of this many responses are notified together. With more, the first receiver would
 * wait too long: a response takes about 0.6 us. */
#define MAX_BURST 128

/* Other servers do not have these functions. */
#pragma weak NESO_ModelInstanceExecutionStart
#pragma weak NESO_ThreadBeginResponses
#pragma weak NESO_ThreadEndResponses

/* The server has read the clock when it began the execution. */
static uint64_t execution_start(TRITONBACKEND_ModelInstance *instance) {
        TRITONSERVER_Error *err;
        uint64_t            start_ns;

        if (NESO_ModelInstanceExecutionStart == NULL)
                return kit_clock_ns();
        err = NESO_ModelInstanceExecutionStart(instance, &start_ns);
        if (err == NULL)
                return start_ns;
        TRITONSERVER_ErrorDelete(err);
        return kit_clock_ns();
}

/* Ends the slot: reports its statistics, sends the response with `err`, which stays the caller's, and
 * releases the request. */
static void end_slot(struct kit_batch *batch, struct kit_slot *slot, const struct kit_stats *stats,
                     TRITONSERVER_Error *err) {
        kit_stats_report(stats, batch->instance, slot->request, err == NULL);
        if (slot->response != NULL)
                kit_error_log(TRITONBACKEND_ResponseSend(slot->response,
                                                         TRITONSERVER_RESPONSE_COMPLETE_FINAL, err),
                              "failed to send a response");
        kit_error_log(TRITONBACKEND_RequestRelease(slot->request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "failed to release a request");
        slot->request = NULL;
        slot->response = NULL;
        batch->n_live--;
        batch->n_rows -= slot->rows;
}

/* The same for a slot that ends before the batch does. */
static void fail_slot(struct kit_batch *batch, struct kit_slot *slot, TRITONSERVER_Error *err) {
        struct kit_stats stats = batch->stats;

        if (stats.exec_end == 0)
                stats.exec_end = kit_clock_ns();
        end_slot(batch, slot, &stats, err);
}

TRITONSERVER_Error *kit_batch_open(struct kit_batch *batch, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests) {
        batch->instance = instance;
        batch->memory = NULL;
        batch->stats = (struct kit_stats){ .exec_start = execution_start(instance) };
        batch->n_slots = batch->n_live = n_requests;
        batch->n_rows = n_requests;
        batch->has_row_dim = false;
        batch->slots = batch->few;
        if (n_requests > KIT_BATCH_FEW)
                batch->slots = kit_alloc_array(n_requests, sizeof(*batch->slots));
        if (batch->slots == NULL)
                return kit_error_no_memory(n_requests * sizeof(*batch->slots), "a batch");
        for (uint32_t i = 0; i < n_requests; i++) {
                struct kit_slot    *slot = &batch->slots[i];
                TRITONSERVER_Error *err = TRITONBACKEND_ResponseNew(&slot->response, requests[i]);

                slot->request = requests[i];
                slot->rows = 1;
                if (err != NULL) {
                        slot->response = NULL;
                        fail_slot(batch, slot, err);
                        kit_error_log(err, "failed to create a response");
                }
        }
        return NULL;
}

static TRITONSERVER_Error *read_rows(struct kit_slot *slot) {
        TRITONBACKEND_Input *input;
        const int64_t       *shape;
        const char          *name;
        uint32_t             n_inputs, n_dims;

        KIT_TRY(TRITONBACKEND_RequestInputCount(slot->request, &n_inputs));
        if (n_inputs == 0)
                return NULL;
        KIT_TRY(TRITONBACKEND_RequestInputByIndex(slot->request, 0, &input));
        KIT_TRY(TRITONBACKEND_InputProperties(input, &name, NULL, &shape, &n_dims, NULL, NULL));
        if (n_dims == 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "input '%s' has no batch dimension, but the model batches", name);
        if (shape[0] < 1)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "input '%s' has a batch of %lld, the model needs at least 1", name,
                                 (long long)shape[0]);
        slot->rows = shape[0];
        return NULL;
}

void kit_batch_read_rows(struct kit_batch *batch, int64_t max_batch_size) {
        struct kit_slot *slot;

        batch->has_row_dim = max_batch_size > 0;
        if (!batch->has_row_dim)
                return;
        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                TRITONSERVER_Error *err = read_rows(slot);

                batch->n_rows += slot->rows - 1; /* kit_batch_open() counted one */
                if (err != NULL)
                        kit_batch_fail(batch, slot, err);
        }
}

void kit_batch_drop_cancelled(struct kit_batch *batch) {
        struct kit_slot *slot;

        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                bool                is_cancelled = false;
                TRITONSERVER_Error *err =
                        TRITONBACKEND_RequestIsCancelled(slot->request, &is_cancelled);

                if (err == NULL && is_cancelled)
                        err = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "");
                if (err != NULL)
                        kit_batch_fail(batch, slot, err);
        }
}

void kit_batch_fail(struct kit_batch *batch, struct kit_slot *slot, TRITONSERVER_Error *err) {
        fail_slot(batch, slot, err);
        TRITONSERVER_ErrorDelete(err);
}

void kit_batch_fail_all(struct kit_batch *batch, TRITONSERVER_Error *err) {
        struct kit_slot *slot;

        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1))
                fail_slot(batch, slot, err);
        TRITONSERVER_ErrorDelete(err);
}

void kit_batch_each(struct kit_batch *batch, void (*run)(struct kit_batch *one, void *state),
                    void             *state) {
        struct kit_slot *slot;

        for (slot = kit_batch_live(batch, batch->slots); slot != NULL;
             slot = kit_batch_live(batch, slot + 1)) {
                struct kit_batch one = {
                        .instance = batch->instance,
                        .memory = batch->memory,
                        .slots = slot,
                        .n_slots = 1,
                        .n_live = 1,
                        .n_rows = slot->rows,
                        .has_row_dim = batch->has_row_dim,
                        .stats = batch->stats,
                };

                run(&one, state);
                batch->n_live -= 1 - one.n_live;
                batch->n_rows -= slot->rows - one.n_rows;
        }
}

static void answer_live(struct kit_batch *batch) {
        bool is_row = batch->n_live > 1 && NESO_ThreadBeginResponses != NULL &&
                      NESO_ThreadEndResponses != NULL;
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);

        while (slot != NULL) {
                if (is_row)
                        NESO_ThreadBeginResponses();
                for (unsigned n = 0; slot != NULL && n < MAX_BURST; n++) {
                        end_slot(batch, slot, &batch->stats, NULL);
                        slot = kit_batch_live(batch, slot + 1);
                }
                if (is_row)
                        NESO_ThreadEndResponses();
        }
}

void kit_batch_close(struct kit_batch *batch) {
        if (batch->n_live > 0) {
                batch->stats.exec_end = kit_clock_ns();
                kit_stats_report_batch(&batch->stats, batch->instance, batch->n_rows);
        }
        answer_live(batch);
        if (batch->slots != batch->few)
                free(batch->slots);
        batch->slots = NULL;
        batch->n_slots = 0;
}
