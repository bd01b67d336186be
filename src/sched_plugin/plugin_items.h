/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests that a plug-in scheduler knows, by their ids (a slot map).
 *
 * An id is the number of a slot and the number of uses of that slot, so that the id of an item that has
 * ended finds nothing. Slots are allocated in blocks that never move, and groups have their own memory:
 * a plug-in may keep a pointer to an item until the item ends.
 *
 * Ownership.  Requests are borrowed.
 * Threads.  The caller holds the queue's lock.
 */
#pragma once

#include "triton/core/neso_scheduler.h"

#include <stdbool.h>
#include <stdint.h>

struct plugin_group;
struct request;

struct plugin_item {
        uint64_t             id;   /* 0: the slot is free */
        sched_item          *view; /* what the plug-in sees: `own`, or an entry of the group */
        sched_item           own;
        struct plugin_group *group;      /* announced with it; NULL: announced alone */
        struct request      *req;        /* borrowed */
        uint64_t             mark;       /* number of the last dispatch call that named it */
        uint32_t             rows_taken; /* dispatched rows, from the first of view->rows */
        uint32_t             slot;       /* number of its slot + 1 */
        uint32_t             n_uses;
        uint32_t             next_free;
};

/* Items that are announced together are adjacent in memory. The memory is freed when the last of
 * them has ended and the announcement is over. */
struct plugin_group {
        uint32_t   n_users; /* items of the group, and the announcement */
        sched_item views[];
};

struct plugin_items {
        struct plugin_block **blocks; /* owned, and each */
        uint32_t              n_blocks;
        uint32_t              first_free; /* number of the first free slot + 1; 0: none */
        uint32_t              n;          /* number of items */
};

void plugin_items_done(struct plugin_items *t); /* may still contain items */

/* Adds an item with an id; the caller fills in the rest. NULL when memory is short. */
struct plugin_item *plugin_items_add(struct plugin_items *t);
/* Adds an item whose view is entry `at` of the group. */
struct plugin_item *plugin_items_add_to(struct plugin_items *t, struct plugin_group *group,
                                        uint32_t at);
void                plugin_items_remove(struct plugin_items *t, struct plugin_item *item);

/* NULL when memory is short. */
struct plugin_group *plugin_group_new(uint32_t n);
/* Ends the announcement. */
void                   plugin_group_leave(struct plugin_group *group);
static inline uint32_t plugin_item_rows(const struct plugin_item *item) {
        return item->view->rows - item->rows_taken;
}
/* Removes all items. */
void plugin_items_clear(struct plugin_items *t);
/* Returns NULL when no item has the id. */
struct plugin_item *plugin_items_find(const struct plugin_items *t, uint64_t id);
/* Returns the item of a slot; `slot` is plugin_item.slot. */
struct plugin_item *plugin_items_at(const struct plugin_items *t, uint32_t slot);
