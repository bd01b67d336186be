/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/plugin_items.h"

#include "base/mem.h"

#define BLOCK_ITEMS 64

struct plugin_block {
        struct plugin_item items[BLOCK_ITEMS];
};

void plugin_items_done(struct plugin_items *t) {
        for (uint32_t i = 0; i < t->n_blocks; i++)
                free(t->blocks[i]);
        free(t->blocks);
        *t = (struct plugin_items){ 0 };
}

struct plugin_item *plugin_items_at(const struct plugin_items *t, uint32_t place) {
        uint32_t at = place - 1;

        return &t->blocks[at / BLOCK_ITEMS]->items[at % BLOCK_ITEMS];
}

static bool grow(struct plugin_items *t) {
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
                block->items[i - 1].place = t->n_blocks * BLOCK_ITEMS + i;
                block->items[i - 1].next_free = t->first_free;
                t->first_free = block->items[i - 1].place;
        }
        t->blocks[t->n_blocks++] = block;
        return true;
}

struct plugin_item *plugin_items_add(struct plugin_items *t) {
        struct plugin_item *item;

        if (t->first_free == 0 && !grow(t))
                return NULL;
        item = plugin_items_at(t, t->first_free);
        t->first_free = item->next_free;
        t->n++;
        item->n_uses++;
        item->mark = 0;
        item->view = (sched_item){ .id = (uint64_t)item->n_uses << 32 | item->place };
        return item;
}

void plugin_items_remove(struct plugin_items *t, struct plugin_item *item) {
        item->view.id = 0;
        item->req = NULL;
        item->next_free = t->first_free;
        t->first_free = item->place;
        t->n--;
}

void plugin_items_clear(struct plugin_items *t) {
        for (uint32_t i = 0; i < t->n_blocks; i++)
                for (uint32_t k = 0; k < BLOCK_ITEMS; k++)
                        if (t->blocks[i]->items[k].view.id != 0)
                                plugin_items_remove(t, &t->blocks[i]->items[k]);
}

struct plugin_item *plugin_items_find(const struct plugin_items *t, uint64_t id) {
        uint32_t            place = (uint32_t)id;
        struct plugin_item *item;

        if (place == 0 || place > t->n_blocks * BLOCK_ITEMS)
                return NULL;
        item = plugin_items_at(t, place);
        return item->view.id == id ? item : NULL;
}
