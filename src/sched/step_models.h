/* SPDX-License-Identifier: BSD-3-Clause */
/* The models that the steps of a composed model (an ensemble, a chain) use.
 *
 * A snapshot never changes. A request takes the current one when it is admitted and keeps it to its
 * end, so that it sees a reload of a step's model wholly or not at all, and an unload lets it finish.
 * The repository replaces the snapshot of the holder when the model of a step is published or goes;
 * while a step has no model, the holder has the reason instead and requests are refused with it.
 *
 *     repository   -- step_models_holder_set(), _block() -->  holder
 *     request      -- step_models_take() at admission    -->  snapshot -> models[step]
 *                     step_models_unref() at its end
 *
 * A step's model may itself be composed. Its snapshot of that moment is `nested[step]`: the inner
 * request gets it in `struct request.steps`, and step_models_take() gives it that one, not the
 * current one.
 *
 * Ownership.  Snapshots are counted, and hold references to models, never one to the composed model
 * itself. The holder belongs to the composed model and holds one reference to the current snapshot.
 * So nothing waits for a step's model to end but its own requests and the snapshots that they hold.
 * Threads.  Any. The holder's lock (rank LOCK_QUEUE) is held for a few instructions; no reference is
 * dropped under it.
 */
#pragma once

#include "base/error.h"
#include "base/lock.h"
#include "base/ref.h"

#include <stddef.h>

struct model;
struct request;
struct step_models;

/* Where the step's model and its own steps' models come from. */
struct step_model {
        struct model       *model;
        struct step_models *nested; /* NULL: it is not composed, or is used by itself */
};

struct step_models {
        struct ref ref;
        void      *plan; /* what the scheduler has made of these models; may be NULL */
        void (*free_plan)(void *plan);
        struct step_models **nested; /* refs; one for each step, may be NULL */
        size_t               n;
        struct model        *models[]; /* refs; one for each step */
};

/* Takes references of its own. It has no plan yet. */
struct step_models *step_models_new(const struct step_model *steps, size_t n);
void                step_models_ref(struct step_models *s);
void                step_models_unref(struct step_models *s); /* NULL is fine */

struct step_models_holder {
        struct mutex        lock;    /* rank LOCK_QUEUE; guards everything below */
        struct step_models *current; /* ref; NULL: a step is not ready */
        struct error       *why;     /* owned; then the reason, else NULL */
};

/* Blocked with "the models of its steps are not loaded yet" at first. */
void step_models_holder_init(struct step_models_holder *h);
void step_models_holder_done(struct step_models_holder *h);

/* From now on requests get this one. Takes it. */
void step_models_holder_set(struct step_models_holder *h, struct step_models *s);
/* From now on requests are refused with `why`, an UNAVAILABLE that names the step. Takes it. */
void step_models_holder_block(struct step_models_holder *h, struct error *why);
/* A reference to the current snapshot, or NULL. */
struct step_models *step_models_holder_get(struct step_models_holder *h);
/* The reason why there is none; NULL when there is one. */
struct error *step_models_holder_why(struct step_models_holder *h);

/* For a request that is being admitted: a reference to the snapshot that it was given with its
 * outer request, else to the current one. A copy of the reason when there is none. */
struct error *step_models_take(struct step_models_holder *h, const struct request *req,
                               struct step_models **ret) NODISCARD;
