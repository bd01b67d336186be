/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/plugin_look.h"

#include "sched/request_queue.h"

/* Runs of items of one shape class that are looked at. */
#define MAX_RUNS 8

static const struct plugin_item *item_of(const struct plugin_look *l, const struct request *req) {
        return plugin_items_at(l->items, req->ticket);
}

static bool can_fill(const struct plugin_look *l, const sched_member *m, uint64_t shape_class) {
        struct queue_walk w = queue_walk_begin(l->queue);
        struct request   *req;
        uint64_t          n_rows = 0;

        while (n_rows < m->lo && (req = queue_walk_next(&w)) != NULL) {
                const struct plugin_item *item = item_of(l, req);

                if (item->view->shape_class == shape_class &&
                    (l->may_split || n_rows + plugin_item_rows(item) <= m->hi))
                        n_rows += plugin_item_rows(item);
        }
        return n_rows >= m->lo;
}

bool plugin_look_is_served(const struct plugin_look *l, const struct plugin_item *item) {
        for (uint32_t i = 0; i < l->members->n; i++)
                if (plugin_members_is_free(l->members, i) &&
                    can_fill(l, &l->members->views[i], item->view->shape_class))
                        return true;
        return false;
}

const struct plugin_item *plugin_look_find_served(const struct plugin_look *l) {
        struct queue_walk         w = queue_walk_begin(l->queue);
        const struct plugin_item *seen = NULL;
        struct request           *req;

        for (unsigned n_runs = 0; n_runs < MAX_RUNS && (req = queue_walk_next(&w)) != NULL;) {
                const struct plugin_item *item = item_of(l, req);

                if (seen != NULL && item->view->shape_class == seen->view->shape_class)
                        continue;
                if (plugin_look_is_served(l, item))
                        return item;
                seen = item;
                n_runs++;
        }
        return NULL;
}
