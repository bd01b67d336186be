/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds the number of versions that load at a time, for all changes together, and follows loads that
 * wait for loads.
 *
 * A model may load other models while it is initialized. It waits for them and computes nothing
 * meanwhile, so it gives its slot back for that time; otherwise as many such models as there are slots
 * would wait for a slot for ever. It takes the slot again without waiting: for a short time more
 * versions than the limit may load. A load that would wait for itself is refused.
 *
 * Unloads wait for loads, too: for those that need the model (load_hold.h).
 *
 *     thread of a load     load_user_set(&(struct load_user){ "outer", 1 })
 *     repo_change_begin()  load_wait_begin_locked()  refuses "outer -> inner -> outer"
 *     repo_change_end()    load_wait_end_locked()
 *
 * Ownership.  A slot belongs to the load that uses it.
 * Threads.  Any. The table's lock guards everything; the current user belongs to the thread.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct repo;
struct repo_entry;

struct load_slot {
        struct load_slot *next;
        const char       *name; /* of the model; borrowed */
        int64_t           version;
        unsigned n_waits; /* loads that its initialization waits for; > 0: it was given back */
};

/* Waits for a slot. UNAVAILABLE when the server is stopping. */
struct error *load_slot_acquire(struct repo *r, struct load_slot *slot) NODISCARD;
void          load_slot_release(struct repo *r, struct load_slot *slot);

/* To be called before a change of the entry is waited for, and after it. An unload waits for the holds
 * up to `last_hold` (load_hold.h); 0: a load. INVALID_ARG when that change, or the load of such a hold,
 * waits for the thread's user. */
struct error *load_wait_begin_locked(struct repo *r, const struct repo_entry *e, uint64_t last_hold)
        NODISCARD;
void load_wait_end_locked(struct repo *r, const struct repo_entry *e);
