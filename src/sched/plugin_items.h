/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests that a plug-in scheduler knows, by the ids that it was told.
 *
 * An id is the number of a place and how often that place has been used, so that one that has ended is
 * not found again. Places are made in blocks that never move: a plug-in may keep a pointer to an item
 * until the item ends.
 *
 * Ownership.  Requests are borrowed.
 * Threads.  The queue's lock.
 */
#pragma once

#include "triton/core/neso_scheduler.h"

#include <stdbool.h>
#include <stdint.h>

struct request;

struct plugin_item {
        sched_item      view;  /* view.id 0: the place is free */
        struct request *req;   /* borrowed */
        uint64_t        mark;  /* of the call that named it last */
        uint32_t        place; /* its number + 1 */
        uint32_t        n_uses;
        uint32_t        next_free;
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
void                plugin_items_remove(struct plugin_items *t, struct plugin_item *item);
/* Removes all of them. */
void plugin_items_clear(struct plugin_items *t);
/* NULL when there is none. */
struct plugin_item *plugin_items_find(const struct plugin_items *t, uint64_t id);
/* By the number of its place, plugin_item.place. */
struct plugin_item *plugin_items_at(const struct plugin_items *t, uint32_t place);
