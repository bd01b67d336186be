/* SPDX-License-Identifier: BSD-3-Clause */
/* A hold: the models that a load needs, which no unload removes until the load has ended.
 *
 * An unload waits for the holds that existed when it was requested, not for later ones, so a sequence
 * of loads cannot delay it for ever. A load that is requested later waits until that unload has ended,
 * and then loads the model again. A load holds nothing while it waits, so two of them cannot wait for
 * each other.
 *
 *     load_hold_add_locked()    for each model that is to be loaded, with what it needs
 *     load_hold_take_locked()   false: an unload has ended since; the load plans anew
 *     load_hold_release()       when the load has ended
 *
 * Ownership.  The load owns its hold. load_hold_release() frees what is in it.
 * Threads.  Any. The table's lock guards holds that are taken.
 */
#pragma once

#include "repo/label_list.h"
#include "repo/model_needs.h"
#include "repo/repo_private.h"

struct load_hold {
        struct load_hold *next;
        uint64_t          number;  /* 1, 2, ... in the order of taking; 0: not taken */
        struct label_list held;    /* labels: the models that are to be loaded, and their needs */
        struct label_list loading; /* names of the models that are to be loaded */
};

/* Adds a model that is to be loaded, and all that it needs, directly or indirectly. */
void load_hold_add_locked(struct repo *r, struct load_hold *h, const struct model_key *key,
                          const struct model_needs *needs);
/* Takes the hold. Before that it waits until no unload of its models is requested or runs; a load
 * that a model's initialization waits for does not wait here, because that model may be held.
 * Returns false, and takes nothing, when an unload of any model has ended since r->n_unloads had the
 * value `n_unloads`. */
bool load_hold_take_locked(struct repo *r, struct load_hold *h, uint64_t n_unloads) NODISCARD;
/* The same without a condition. */
void load_hold_force_locked(struct repo *r, struct load_hold *h);
/* Releases the hold if it is taken, and empties it. */
void load_hold_release(struct repo *r, struct load_hold *h);

/* True when one of the holds up to this number holds the model. */
bool load_hold_covers_locked(const struct repo *r, const char *label, uint64_t up_to);
