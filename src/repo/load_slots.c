/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_slots.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "repo/load_hold.h"
#include "repo/load_user.h"
#include "repo/repo_private.h"

#include <string.h>

#define MAX_CYCLE_BYTES 4096 /* of a message */

/* The initialization of `user` waits for a change of `target`. */
struct load_wait {
        struct load_wait *next;
        struct load_slot *slot;      /* borrowed: the user's, which was given back; NULL: none */
        char             *user;      /* owned */
        char             *target;    /* owned */
        char             *label;     /* owned; of the target */
        uint64_t          last_hold; /* the holds up to this one are waited for */
};

/* ---- slots ----------------------------------------------------------------------------------- */

struct error *load_slot_acquire(struct repo *r, struct load_slot *slot) {
        MUTEX_GUARD(&r->table.lock);
        while (r->n_loading >= r->n_load_threads && !r->is_stopping)
                cond_wait(&r->table.changed, &r->table.lock);
        if (r->is_stopping)
                return error_new_text(ERR_UNAVAILABLE, "Server exiting");
        r->n_loading++;
        slot->next = r->slots;
        r->slots = slot;
        return NULL;
}

void load_slot_release(struct repo *r, struct load_slot *slot) {
        struct load_slot **link = &r->slots;

        MUTEX_GUARD(&r->table.lock);
        while (*link != slot)
                link = &(*link)->next;
        *link = slot->next;
        if (slot->n_waits == 0)
                r->n_loading--;
        for (struct load_wait *w = r->waits; w != NULL; w = w->next)
                if (w->slot == slot)
                        w->slot =
                                NULL; /* its initialization has ended before the load it waited for */
        cond_broadcast(&r->table.changed);
}

static struct load_slot *find_slot(const struct repo *r, const struct load_user *user) {
        struct load_slot *slot = r->slots;

        while (slot != NULL &&
               (slot->version != user->version || strcmp(slot->name, user->name) != 0))
                slot = slot->next;
        return slot;
}

static void give_back_locked(struct repo *r, struct load_slot *slot) {
        if (slot->n_waits++ > 0)
                return;
        r->n_loading--;
        cond_broadcast(&r->table.changed);
}

static void take_again_locked(struct repo *r, struct load_slot *slot) {
        if (--slot->n_waits == 0)
                r->n_loading++;
}

/* ---- loads that wait for loads --------------------------------------------------------------- */

/* A change for which a caller waits. */
struct change_node {
        const char *name;
        const char *label;
        uint64_t    last_hold; /* of an unload: the holds up to this one are waited for */
};

static bool find_path(const struct repo *r, const struct change_node *from, const char *to,
                      struct strbuf *path);

static bool is_held_by(const struct change_node *n, const struct load_hold *h) {
        for (size_t i = 0; i < h->held.n && h->number <= n->last_hold; i++)
                if (strcmp(h->held.items[i], n->label) == 0)
                        return true;
        return false;
}

/* True when a load that holds the model of this unload waits for `to`. */
static bool find_path_by_holds(const struct repo *r, const struct change_node *from, const char *to,
                               struct strbuf *path) {
        for (const struct load_hold *h = r->holds; h != NULL; h = h->next) {
                if (!is_held_by(from, h))
                        continue;
                for (size_t i = 0; i < h->loading.n; i++)
                        if (find_path(r, &(struct change_node){ .name = h->loading.items[i] }, to,
                                      path))
                                return true;
        }
        return false;
}

/* True when the change of `from` waits for `to`; then appends " -> <model>" for each. */
static bool find_path(const struct repo *r, const struct change_node *from, const char *to,
                      struct strbuf *path) {
        size_t len = path->len;

        strbuf_printf(path, " -> %s", from->name);
        if (strcmp(from->name, to) == 0)
                return true;
        for (const struct load_wait *w = r->waits; w != NULL; w = w->next) {
                const struct change_node target = { w->target, w->label, w->last_hold };

                if (strcmp(w->user, from->name) == 0 && find_path(r, &target, to, path))
                        return true;
        }
        if (from->last_hold > 0 && find_path_by_holds(r, from, to, path))
                return true;
        path->len = len;
        if (path->cap > 0)
                path->ptr[len] = '\0';
        return false;
}

static struct error *check_cycle(const struct repo *r, const struct load_user *user,
                                 const struct repo_entry *e, uint64_t last_hold) {
        const struct change_node from = { e->name, e->label, last_hold };
        AUTO_STRBUF              path = { .max = MAX_CYCLE_BYTES };

        strbuf_puts(&path, user->name);
        if (!find_path(r, &from, user->name, &path))
                return NULL;
        if (path.no_memory) /* a path that is only too long is cut */
                return strbuf_check(&path, "the text of an error");
        return error_new(ERR_INVALID_ARG, "model '%s' is %s a load that waits for this one: %s",
                         e->name, e->is_busy ? "changed by" : "needed by", strbuf_cstr(&path));
}

struct error *load_wait_begin_locked(struct repo *r, const struct repo_entry *e,
                                     uint64_t last_hold) {
        struct load_user  user = load_user_get();
        struct load_wait *w;

        if (user.name == NULL)
                return NULL;
        if (e->is_busy || load_hold_covers_locked(r, e->label, last_hold))
                TRY(check_cycle(r, &user, e, last_hold));
        w = mem_alloc(sizeof(*w));
        *w = (struct load_wait){ .next = r->waits,
                                 .slot = find_slot(r, &user),
                                 .user = mem_strdup(user.name),
                                 .target = mem_strdup(e->name),
                                 .label = mem_strdup(e->label),
                                 .last_hold = last_hold };
        r->waits = w;
        if (w->slot != NULL)
                give_back_locked(r, w->slot);
        return NULL;
}

void load_wait_end_locked(struct repo *r, const struct repo_entry *e) {
        struct load_user  user = load_user_get();
        struct load_wait *w, **link = &r->waits;

        if (user.name == NULL)
                return;
        while (strcmp((*link)->user, user.name) != 0 || strcmp((*link)->target, e->name) != 0)
                link = &(*link)->next;
        w = *link;
        *link = w->next;
        if (w->slot != NULL)
                take_again_locked(r, w->slot);
        free(w->user);
        free(w->target);
        free(w->label);
        free(w);
}
