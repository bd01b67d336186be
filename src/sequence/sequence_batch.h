/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model with sequences, in the form that its engine sees: an executor that wraps the
 * backend's and completes each batch with what sequences need.
 *
 *     engine --batch--> sequence_instance --controls, null requests--> the backend's executor
 *
 * With slots (strategy `direct` of a model that batches), request i of an execution is that of slot i,
 * up to the last slot in use. A slot that has nothing to run gets a null request: it has the shapes of
 * the other requests, zeros as values, and READY false. Its response is dropped and not counted in the
 * statistics. Where requests must have equal shapes, requests that differ from the first one run in a
 * separate execution directly afterwards. The same holds for requests whose states differ in shape, with
 * either strategy.
 *
 * Where all requests have the same inputs, each slot reuses one null request.
 *
 * For iterative sequences it marks a request that was cancelled before its execution as the last one of
 * its sequence (sequence/sequence_table.h, the closing execution).
 *
 * Ownership.  The scheduler owns the instance. The instance borrows the backend's executor while it is
 * in use.
 * Threads.  The executor runs one execution at a time.
 */
#pragma once

#include "base/lock.h"
#include "infer/executor.h"
#include "infer/scheduler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;
struct sequence_controls;
struct sequence_place;

/* Shared by the instances of a model. */
struct sequence_batching {
        struct model                   *model;      /* borrowed */
        const struct sequence_controls *controls;   /* borrowed */
        struct mutex                   *lock;       /* borrowed: guards the places */
        bool                            is_by_slot; /* slots without a request get null requests */
        bool                            has_fixed_inputs; /* all requests have the same inputs */
        bool                            closes; /* the backend sees the end of each sequence */
};

struct sequence_instance {
        struct executor                 base;     /* for the engine */
        struct executor                *inner;    /* borrowed: the backend's; NULL: unused */
        const struct sequence_batching *batching; /* borrowed */
        struct sequence_place          *place;    /* borrowed: the table's */
        struct scheduler               *engine;   /* owned */

        /* Used by the running thread only. */
        struct request       **by_slot; /* owned; `cap` of each */
        struct request       **batch;
        uint32_t               cap;
        struct reusable_null **nulls; /* owned, and each; one for each slot, `cap` slots */
        struct zero_block     *zeros; /* owned: inputs of null requests, largest block first */
};

struct sequence_instance *sequence_instance_new(const struct sequence_batching *b);
/* Its engine must have been freed. */
void sequence_instance_free(struct sequence_instance *in);
/* Makes the instance use that executor from now on. */
void sequence_instance_bind(struct sequence_instance *in, struct executor *inner);
