/* SPDX-License-Identifier: BSD-3-Clause */
/* The instances of a model as a plug-in scheduler sees them: numbered members, each free or busy.
 *
 * All members exist from the start, since init() is called before the engine has instances. The instance
 * of a member joins later. A member is busy from the time when it gets a batch until the execution has
 * ended.
 *
 * Ownership.  Executors and instances are borrowed.
 * Threads.  The caller holds the queue's lock.
 */
#pragma once

#include "sched/policy.h"
#include "triton/core/neso_scheduler.h"

#include <stdbool.h>
#include <stdint.h>

struct executor;
struct instance;

struct plugin_member_state {
        const struct executor *executor; /* borrowed */
        struct instance       *in;       /* borrowed; NULL: has not joined yet */
        bool                   is_busy;
        enum dispatch_reason   reason; /* of its current batch */
};

struct plugin_members {
        sched_member               *views;  /* owned, and their names */
        struct plugin_member_state *states; /* owned; one for each view */
        uint32_t                    n;
        bool                        is_exclusive; /* one member of a virtual instance at a time */
};

/* Adds a member for each executor that is not passive. */
void plugin_members_init(struct plugin_members *m, struct executor *const *executors,
                         uint32_t n_executors);
void plugin_members_done(struct plugin_members *m);

/* The first function returns true when a member waits for this instance to join. The second makes
 * the instance that member, or a new member, and returns its number. */
bool     plugin_members_expects(const struct plugin_members *m, const struct instance *in);
uint32_t plugin_members_join(struct plugin_members *m, struct instance *in);
/* Removes a member. The numbers of later members decrease by one. */
void plugin_members_remove(struct plugin_members *m, uint32_t at);

/* Finds the number of the instance's member; false when the instance has left. */
bool plugin_members_find(const struct plugin_members *m, const struct instance *in, uint32_t *ret);
/* True when the member may get a batch. */
bool plugin_members_is_free(const struct plugin_members *m, uint32_t at);
/* True when some member is busy. */
bool plugin_members_are_busy(const struct plugin_members *m);
/* True when some free member's smallest batch has at most n_rows rows. */
bool plugin_members_have_free(const struct plugin_members *m, uint64_t n_rows);
