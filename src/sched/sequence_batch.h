/* SPDX-License-Identifier: BSD-3-Clause */
/* One instance of a model with sequences, as its engine sees it: an executor around the backend's
 * that completes each batch with what sequences need.
 *
 *     engine --batch--> sequence_instance --controls, null requests--> the backend's executor
 *
 * With slots (strategy `direct` of a model that batches) request i of an execution is that of slot
 * i, up to the last slot in use. A slot that has nothing to run gets a null request: shaped as the
 * others, zeros, READY false. Nobody hears of its response, and no statistics count it. Where
 * requests must have equal shapes, those that differ from the first one run in an execution of
 * their own right afterwards. So do those whose states differ in shape, with either strategy.
 *
 * Where all requests have the same inputs, null requests are kept: one of each slot is used again
 * and again.
 *
 * Ownership.  The scheduler's; borrows the backend's executor while it has one.
 * Threads.  What runs a batch is the executor's, one execution at a time.
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

/* What the instances of a model share. */
struct sequence_batching {
        struct model                   *model;      /* borrowed */
        const struct sequence_controls *controls;   /* borrowed */
        struct mutex                   *lock;       /* borrowed: guards places */
        bool                            is_by_slot; /* null requests in slots with nothing to run */
        bool                            has_fixed_inputs; /* all requests have the same ones */
};

struct sequence_instance {
        struct executor                 base;     /* what the engine runs */
        struct executor                *inner;    /* borrowed: the backend's; NULL: not in use */
        const struct sequence_batching *batching; /* borrowed */
        struct sequence_place          *place;    /* borrowed: the table's */
        struct scheduler               *engine;   /* owned */

        /* The runner's. */
        struct request **by_slot; /* owned; `cap` of each */
        struct request **batch;
        uint32_t         cap;
        struct reusable_null           *
                *nulls; /* owned, and each; `cap`: one to be used again in each slot */
        struct zero_block *zeros; /* owned: for the inputs of null requests, largest first */
};

struct sequence_instance *sequence_instance_new(const struct sequence_batching *b);
/* Its engine must be freed. */
void sequence_instance_free(struct sequence_instance *in);
/* From now on it is that one's. */
void sequence_instance_bind(struct sequence_instance *in, struct executor *inner);
