/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_hold.h"

#include "base/mem.h"
#include "repo/load_user.h"
#include "repo/repo_compose.h"

#include <string.h>

void load_hold_add_locked(struct repo *r, struct load_hold *h, const struct model_key *key,
                          const struct model_needs *needs) {
        AUTO_CHARS label = model_key_label(key);

        label_list_add(&h->held, label);
        label_list_add(&h->loading, key->name);
        repo_compose_add_needs_locked(r, key, needs, &h->held);
}

static bool has_pending_unload_locked(struct repo *r, const struct load_hold *h) {
        if (r->n_unloads_pending == 0)
                return false;
        for (size_t i = 0; i < h->held.n; i++) {
                const struct repo_entry *e =
                        repo_table_find_label_locked(&r->table, h->held.items[i]);

                if (e != NULL && e->n_unloads > 0)
                        return true;
        }
        return false;
}

bool load_hold_take_locked(struct repo *r, struct load_hold *h, uint64_t n_unloads) {
        if (load_user_get().name == NULL)
                while (has_pending_unload_locked(r, h) && !r->is_stopping)
                        cond_wait(&r->table.changed, &r->table.lock);
        if (r->n_unloads != n_unloads)
                return false;
        load_hold_force_locked(r, h);
        return true;
}

void load_hold_force_locked(struct repo *r, struct load_hold *h) {
        h->number = ++r->last_hold;
        h->next = r->holds;
        r->holds = h;
}

void load_hold_release(struct repo *r, struct load_hold *h) {
        if (h->number > 0) {
                struct load_hold **link = &r->holds;

                MUTEX_GUARD(&r->table.lock);
                while (*link != h)
                        link = &(*link)->next;
                *link = h->next;
                cond_broadcast(&r->table.changed);
        }
        label_list_done(&h->held);
        label_list_done(&h->loading);
        h->number = 0;
}

bool load_hold_covers_locked(const struct repo *r, const char *label, uint64_t up_to) {
        for (const struct load_hold *h = r->holds; h != NULL; h = h->next) {
                if (h->number > up_to)
                        continue;
                for (size_t i = 0; i < h->held.n; i++)
                        if (strcmp(h->held.items[i], label) == 0)
                                return true;
        }
        return false;
}
