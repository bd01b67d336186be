/* SPDX-License-Identifier: BSD-3-Clause */
/* Could a free member run what waits? So a plug-in scheduler that leaves items waiting is told apart from
 * one that cannot do otherwise: a member may be free, and what waits be too few rows of each shape class
 * for its smallest batch.
 *
 * "Yes" is certain. "No" may be wrong where requests are not run in parts and only a certain choice of
 * them fills a member.
 *
 * Ownership.  Everything is borrowed.
 * Threads.  The queue's lock.
 */
#pragma once

#include "sched/plugin_items.h"
#include "sched/plugin_members.h"

#include <stdbool.h>

struct request_queue;

struct plugin_look {
        const struct plugin_members *members;
        const struct plugin_items   *items;
        struct request_queue        *queue;
        bool                         may_split; /* requests may run in parts */
};

/* Could it be in a batch together with others of its shape class? */
bool plugin_look_is_served(const struct plugin_look *l, const struct plugin_item *item);
/* The first item of which that is so, among the first shape classes of the queue; NULL: none. */
const struct plugin_item *plugin_look_find_served(const struct plugin_look *l);
