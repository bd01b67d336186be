/* SPDX-License-Identifier: BSD-3-Clause */
/* The instances of a model as a plug-in scheduler sees them: numbered members, each free or busy.
 *
 * A member is there from the start, as init() is called before the engine has instances; its instance joins
 * later. A member is busy from the moment it is given a batch until the execution has ended.
 *
 * Ownership.  Executors and instances are borrowed.
 * Threads.  The queue's lock.
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
        struct instance       *in;       /* borrowed; NULL: not yet */
        bool                   is_busy;
        enum dispatch_reason   reason; /* of the batch that it has been given */
};

struct plugin_members {
        sched_member               *views;  /* owned, and their names */
        struct plugin_member_state *states; /* owned; of each */
        uint32_t                    n;
        bool                        is_exclusive; /* one of each virtual instance runs at a time */
};

/* Passive ones are no members. */
void plugin_members_init(struct plugin_members *m, struct executor *const *executors,
                         uint32_t n_executors);
void plugin_members_done(struct plugin_members *m);

/* The member that the instance is from now on: one that waits for it, or a new one. */
bool     plugin_members_expects(const struct plugin_members *m, const struct instance *in);
uint32_t plugin_members_join(struct plugin_members *m, struct instance *in);
/* The numbers of those after it change. */
void plugin_members_remove(struct plugin_members *m, uint32_t at);

/* Its number; false for one that has left. */
bool plugin_members_find(const struct plugin_members *m, const struct instance *in, uint32_t *ret);
/* May the member be given a batch? */
bool plugin_members_is_free(const struct plugin_members *m, uint32_t at);
/* Does some member execute, or have a batch? */
bool plugin_members_are_busy(const struct plugin_members *m);
/* Is there a free member whose smallest batch has so many rows at most? */
bool plugin_members_have_free(const struct plugin_members *m, uint64_t n_rows);
