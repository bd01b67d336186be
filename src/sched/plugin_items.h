/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests that a plug-in scheduler knows, by the ids that it was told.
 *
 * An id is the number of a slot and how often that slot has been used, so that one that has ended is
 * not found again. Places are made in blocks that never move, and groups have memory of their own: a
 * plug-in may keep a pointer to an item until the item ends.
 *
 * Ownership.  Requests are borrowed.
 * Threads.  The queue's lock.
 */
#pragma once

#include "triton/core/neso_scheduler.h"

#include <stdbool.h>
#include <stdint.h>

struct plugin_group;
struct request;

struct plugin_item {
        uint64_t             id;   /* 0: the slot is free */
        sched_item          *view; /* what the plug-in sees: `own`, or one of the group's */
        sched_item           own;
        struct plugin_group *group;      /* that it came with; NULL: alone */
        struct request      *req;        /* borrowed */
        uint64_t             mark;       /* of the call that named it last */
        uint32_t             rows_taken; /* the first ones of view->rows */
        uint32_t             slot;       /* its number + 1 */
        uint32_t             n_uses;
        uint32_t             next_free;
};

/* Items that are announced together lie side by side, until the last of them has ended and the
 * announcement is over. */
struct plugin_group {
        uint32_t   n_users; /* items, and the announcement */
        sched_item views[];
};

struct plugin_items {
        struct plugin_block **blocks; /* owned, and each */
        uint32_t              n_blocks;
        uint32_t              first_free; /* its number + 1; 0: none */
        uint32_t              n;          /* items that there are */
};

void plugin_items_done(struct plugin_items *t); /* items may be left */

/* A new item with an id, the rest is the caller's; NULL when memory is short. */
struct plugin_item *plugin_items_add(struct plugin_items *t);
/* The same for the group's view number `at`. */
struct plugin_item *plugin_items_add_to(struct plugin_items *t, struct plugin_group *group,
                                        uint32_t at);
void                plugin_items_remove(struct plugin_items *t, struct plugin_item *item);

/* NULL when memory is short. */
struct plugin_group *plugin_group_new(uint32_t n);
/* The announcement is over. */
void                   plugin_group_leave(struct plugin_group *group);
static inline uint32_t plugin_item_rows(const struct plugin_item *item) {
        return item->view->rows - item->rows_taken;
}
/* Removes all of them. */
void plugin_items_clear(struct plugin_items *t);
/* NULL when there is none. */
struct plugin_item *plugin_items_find(const struct plugin_items *t, uint64_t id);
/* By the number of its slot, plugin_item.slot. */
struct plugin_item *plugin_items_at(const struct plugin_items *t, uint32_t slot);
