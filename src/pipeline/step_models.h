/* SPDX-License-Identifier: BSD-3-Clause */
/* The models that the steps of a composed model (an ensemble, a chain) use.
 *
 * A snapshot never changes. A request takes the current snapshot when it is admitted and keeps it
 * until its end. So a reload of a step's model does not change the models of a running request, and
 * an unload lets the request finish. The repository replaces the holder's snapshot when the model
 * of a step is published or removed. While a step has no model, the holder has an error in place of
 * the snapshot, and requests are refused with it.
 *
 *     repository   -- step_models_holder_set(), _block() -->  holder
 *     request      -- step_models_take() at admission    -->  snapshot -> models[step]
 *                     step_models_unref() at its end
 *
 * A live sequence of a step's model belongs to the load where it began. When that load is replaced, the
 * holder keeps the snapshot as an older one, and a request that continues the sequence gets it: all steps
 * are then those that were there when its load served. The older snapshot is dropped when the last
 * sequence of each of its replaced models has ended.
 *
 * A step's model may itself be composed. `nested[step]` is its snapshot at the time when the outer
 * snapshot was made. The inner request carries it in `struct request.steps`, and step_models_take()
 * returns it in place of the current one.
 *
 * Ownership.  Snapshots are reference counted. They hold references to the models of the steps,
 * never to the composed model itself. The composed model owns the holder, and the holder has one
 * reference to the current snapshot and to each older one. So only running requests, their snapshots and
 * live sequences delay the end of a step's model.
 * Threads.  Any. The holder's lock (rank LOCK_QUEUE) is held for a few instructions. No reference
 * is dropped under it.
 */
#pragma once

#include "base/error.h"
#include "base/lock.h"
#include "base/ref.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct model;
struct request;
struct step_models;

/* The model of one step, and the snapshot of its own steps. */
struct step_model {
        struct model       *model;
        struct step_models *nested; /* NULL: not composed, or runs without its next model */
        /* n_all of the chain that begins at a model which runs without its next: such a chain is asked whether it is
         * ready, too. 0 when the models of the chain are steps as well. */
        size_t n_next;
};

struct step_models {
        struct ref ref;
        void      *plan; /* the scheduler's plan for these models; may be NULL */
        void (*free_plan)(void *plan);
        struct step_models  *next_older; /* in a holder */
        struct step_models **nested;     /* refs; one for each step, each may be NULL */
        size_t               n;
        size_t n_all; /* with the steps of steps; they are counted as often as they run */
        /* Refs: one for each step; with `next`, stages 2..n: the first model owns the holder. */
        struct model *models[];
};

/* Takes its own references. The new snapshot has no plan yet. */
struct step_models *step_models_new(const struct step_model *steps, size_t n);
void                step_models_ref(struct step_models *s);
void                step_models_unref(struct step_models *s); /* NULL is fine */

struct step_models_holder {
        struct mutex        lock;      /* rank LOCK_QUEUE; guards everything below */
        struct step_models *current;   /* ref; NULL: a step is not ready */
        struct error       *why;       /* owned; the reason when `current` is NULL, else NULL */
        struct step_models *older;     /* refs, linked by next_older, the newest first */
        atomic_bool         has_older; /* may be read without the lock */
};

/* Initially blocked with "the models of its steps are not loaded yet". */
void step_models_holder_init(struct step_models_holder *h);
void step_models_holder_done(struct step_models_holder *h);

/* New requests get this snapshot from now on. Takes it. */
void step_models_holder_set(struct step_models_holder *h, struct step_models *s);
/* New requests are refused from now on. Takes `why`, an UNAVAILABLE error that names the step. */
void step_models_holder_block(struct step_models_holder *h, struct error *why);
/* Returns a new reference to the current snapshot, or NULL when requests are refused. */
struct step_models *step_models_holder_get(struct step_models_holder *h);
/* Returns a copy of the reason; NULL when there is a snapshot. */
struct error *step_models_holder_why(struct step_models_holder *h);

/* Drops the older snapshots whose replaced models have no sequence any more. To be called after the
 * last sequence of a model with is_kept has ended. */
void step_models_holder_prune(struct step_models_holder *h);
/* True when the holder has older snapshots. */
bool step_models_holder_has_older(const struct step_models_holder *h);

/* For a request that is being admitted. Returns a new reference to the snapshot that an inner request
 * carries, else to an older one with the sequence that the request continues, else to the current one.
 * Error: a copy of the reason when there is none. */
struct error *step_models_take(struct step_models_holder *h, const struct request *req,
                               struct step_models **ret) NODISCARD;
