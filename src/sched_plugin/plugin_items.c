/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched_plugin/plugin_items.h"

#include "base/mem.h"

#define BLOCK_ITEMS 64

struct plugin_block {
        struct plugin_item items[BLOCK_ITEMS];
};

void plugin_items_done(struct plugin_items *t) {
        plugin_items_clear(t);
        for (uint32_t i = 0; i < t->n_blocks; i++)
                free(t->blocks[i]);
        free(t->blocks);
        *t = (struct plugin_items){ 0 };
}

struct plugin_item *plugin_items_at(const struct plugin_items *t, uint32_t slot) {
        uint32_t at = slot - 1;

        return &t->blocks[at / BLOCK_ITEMS]->items[at % BLOCK_ITEMS];
}

static bool grow_items(struct plugin_items *t) {
        struct plugin_block **blocks;
        struct plugin_block  *block;

        if (t->n_blocks >= UINT32_MAX / BLOCK_ITEMS - 1)
                return false;
        blocks = try_realloc(t->blocks, (t->n_blocks + 1) * sizeof(*blocks));
        if (blocks == NULL)
                return false;
        t->blocks = blocks;
        block = try_zalloc(sizeof(*block));
        if (block == NULL)
                return false;
        for (uint32_t i = BLOCK_ITEMS; i > 0; i--) {
                block->items[i - 1].slot = t->n_blocks * BLOCK_ITEMS + i;
                block->items[i - 1].next_free = t->first_free;
                t->first_free = block->items[i - 1].slot;
        }
        t->blocks[t->n_blocks++] = block;
        return true;
}

struct plugin_item *plugin_items_add(struct plugin_items *t) {
        struct plugin_item *item;

        if (t->first_free == 0 && !grow_items(t))
                return NULL;
        item = plugin_items_at(t, t->first_free);
        t->first_free = item->next_free;
        t->n++;
        item->n_uses++;
        item->mark = 0;
        item->rows_taken = 0;
        item->id = (uint64_t)item->n_uses << 32 | item->slot;
        item->own = (sched_item){ .id = item->id };
        item->view = &item->own;
        return item;
}

struct plugin_group *plugin_group_new(uint32_t n) {
        struct plugin_group *group;
        size_t               n_bytes;

        if (__builtin_mul_overflow((size_t)n, sizeof(*group->views), &n_bytes) ||
            __builtin_add_overflow(n_bytes, sizeof(*group), &n_bytes))
                return NULL;
        group = try_zalloc(n_bytes);
        if (group != NULL)
                group->n_users = 1;
        return group;
}

void plugin_group_leave(struct plugin_group *group) {
        if (--group->n_users == 0)
                free(group);
}

struct plugin_item *plugin_items_add_to(struct plugin_items *t, struct plugin_group *group,
                                        uint32_t at) {
        struct plugin_item *item = plugin_items_add(t);

        if (item == NULL)
                return NULL;
        item->group = group;
        group->n_users++;
        item->view = &group->views[at];
        *item->view = item->own;
        return item;
}

void plugin_items_remove(struct plugin_items *t, struct plugin_item *item) {
        item->id = item->view->id = 0;
        item->view = NULL;
        item->req = NULL;
        if (item->group != NULL)
                plugin_group_leave(STEAL(item->group));
        item->next_free = t->first_free;
        t->first_free = item->slot;
        t->n--;
}

void plugin_items_clear(struct plugin_items *t) {
        for (uint32_t i = 0; i < t->n_blocks; i++)
                for (uint32_t k = 0; k < BLOCK_ITEMS; k++)
                        if (t->blocks[i]->items[k].id != 0)
                                plugin_items_remove(t, &t->blocks[i]->items[k]);
}

struct plugin_item *plugin_items_find(const struct plugin_items *t, uint64_t id) {
        uint32_t            slot = (uint32_t)id;
        struct plugin_item *item;

        if (slot == 0 || slot > t->n_blocks * BLOCK_ITEMS)
                return NULL;
        item = plugin_items_at(t, slot);
        return item->id == id ? item : NULL;
}
