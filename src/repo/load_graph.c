/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_graph.h"

#include "base/mem.h"
#include "repo/dir_fingerprint.h"
#include "repo/repo_compose.h"
#include "repo/repo_remote.h"

#include <string.h>

void load_graph_init(struct load_graph *p, struct repo *r, const struct repo_scan *scan) {
        *p = (struct load_graph){ .repo = r, .scan = scan, .user = load_user_get() };
        MUTEX_GUARD(&r->table.lock);
        p->n_unloads = r->n_unloads;
}

void load_graph_done(struct load_graph *p) {
        load_graph_release(p);
        for (size_t i = 0; i < p->n_items; i++) {
                error_free(p->items[i]->error);
                error_free(p->items[i]->refusal);
                free(p->items[i]->cycle);
                model_needs_done(&p->items[i]->needs);
                free(p->items[i]->waits_for);
                free(p->items[i]);
        }
        for (size_t i = 0; i < p->n_scans; i++) {
                repo_scan_done(p->scans[i]);
                free(p->scans[i]);
        }
        free(p->items);
        free(p->scans);
}

static struct load_item *find_item(const struct load_graph *p, const struct model_key *key) {
        for (size_t i = 0; i < p->n_items; i++)
                if (model_key_compare(&p->items[i]->found->key, key) == 0)
                        return p->items[i];
        return NULL;
}

/* ---- needs ----------------------------------------------------------------------------------- */

static const struct repo_scan *scan_for(struct load_graph *p, const char *name) {
        struct repo_scan *scan;

        if (p->scan != NULL)
                return p->scan;
        scan = mem_zalloc(sizeof(*scan));
        repo_scan_read_one(p->repo, name, scan);
        p->scans = mem_realloc(p->scans, (p->n_scans + 1) * sizeof(struct repo_scan *));
        p->scans[p->n_scans++] = scan;
        return scan;
}

/* Returns NULL when no repository has the model, or when several have it and none of them is the
 * repository of the user. */
static const struct found_model *find_need(struct load_graph *p, const struct found_model *user,
                                           const struct model_need *need) {
        const struct repo_scan   *scan = scan_for(p, need->name);
        struct model_key          key = { .namespace = user->key.namespace, .name = need->name };
        const struct found_model *found;
        size_t                    n;

        if (*need->namespace != '\0')
                key.namespace = need->namespace;
        found = repo_scan_find(scan, &key);
        if (found != NULL || *need->namespace != '\0')
                return found;
        found = repo_scan_find_name(scan, need->name, &n);
        return found != NULL && n == 1 ? found : NULL;
}

/* A configuration that came with an earlier load is valid until its file changes. */
static struct error *read_needs(struct load_graph *p, const struct found_model *found,
                                const char *config_json, struct model_needs *ret) {
        AUTO_CHARS              kept = NULL;
        struct dir_fingerprint *fingerprint = NULL;
        uint64_t                replaced = 0;
        const char             *directory = "";
        struct repo_entry      *e;

        mutex_lock(&p->repo->table.lock);
        e = repo_table_find_locked(&p->repo->table, &found->key);
        if (config_json == NULL && e != NULL && e->sent_config != NULL) {
                kept = mem_strdup(e->sent_config);
                replaced = e->replaced_config_fingerprint;
        }
        mutex_unlock(&p->repo->table.lock);
        if (kept != NULL) {
                error_free(found_model_fingerprint(found, &fingerprint));
                if (fingerprint == NULL || fingerprint->config != replaced)
                        free(STEAL(kept));
                dir_fingerprint_free(fingerprint);
        }
        /* Its load reports why a configuration cannot be fetched. */
        error_free(found_model_config_directory(found, &directory));
        return model_needs_peek(&p->repo->env, found->key.name, directory,
                                config_json != NULL ? config_json : kept, ret);
}

static void add_wait(struct load_item *item, struct load_item *other) {
        item->waits_for =
                mem_realloc(item->waits_for, (item->n_waits + 1) * sizeof(struct load_item *));
        item->waits_for[item->n_waits++] = other;
}

/* A depth-first walk: the ancestors are the items whose needs are being added. A model deeper than
 * LOAD_GRAPH_MAX_DEPTH is missing then. */
struct ancestor {
        const struct model_key *key;
        const struct ancestor  *next;
        unsigned                depth;
};

static bool is_ancestor(const struct ancestor *a, const struct model_key *key) {
        for (; a != NULL; a = a->next)
                if (model_key_compare(a->key, key) == 0)
                        return true;
        return false;
}

/* Prints the cycle, starting at the model that is needed again. */
static char *print_cycle(const struct ancestor *a, const struct model_key *again) {
        char *text = model_key_label(again);

        for (; a != NULL; a = a->next) {
                char *label = model_key_label(a->key);
                char *longer = mem_printf("%s -> %s", label, text);

                free(label);
                free(text);
                text = longer;
                if (model_key_compare(a->key, again) == 0)
                        break;
        }
        return text;
}

/* The item needs the model `again`, which is an ancestor of it, or itself. */
static char *describe_cycle(const struct load_item *item, const struct ancestor *a,
                            const struct model_key *again) {
        AUTO_CHARS first = model_key_label(again);
        AUTO_CHARS last = model_key_label(&item->found->key);
        AUTO_CHARS all = NULL;

        if (item->needs.kind == NEEDS_STEPS)
                return mem_printf(CIRCULAR_ENSEMBLES_FORMAT, first, last, first);
        all = print_cycle(a, again);
        return mem_printf("chain of model '%s' is circular: %s", item->found->key.name, all);
}

static struct load_item *add_item(struct load_graph *p, const struct found_model *found,
                                  const char *config_json, bool is_requested,
                                  const struct ancestor *ancestor);

static void add_needs(struct load_graph *p, struct load_item *item,
                      const struct ancestor *ancestor) {
        const struct ancestor here = { &item->found->key, ancestor,
                                       ancestor != NULL ? ancestor->depth + 1 : 0 };

        for (size_t i = 0; i < item->needs.n; i++) {
                const struct model_need  *need = &item->needs.items[i];
                const struct found_model *found = find_need(p, item->found, need);
                struct load_item         *other;
                struct model_need         exact = *need;

                if (found == NULL)
                        continue;
                if (here.depth == LOAD_GRAPH_MAX_DEPTH) {
                        item->too_deep = need;
                        continue;
                }
                if (is_ancestor(&here, &found->key)) {
                        if (item->cycle == NULL)
                                item->cycle = describe_cycle(item, &here, &found->key);
                        continue;
                }
                other = find_item(p, &found->key);
                /* Not another one of that name, which may be loaded already. */
                exact.namespace = (char *)(uintptr_t)found->key.namespace;
                if (other == NULL && !item->needs.is_strict && !found->is_duplicate &&
                    !repo_compose_has(p->repo, &item->found->key, &exact))
                        other = add_item(p, found, NULL, false, &here);
                if (other != NULL)
                        add_wait(item, other);
        }
}

static struct load_item *add_item(struct load_graph *p, const struct found_model *found,
                                  const char *config_json, bool is_requested,
                                  const struct ancestor *ancestor) {
        struct load_item *item = mem_zalloc(sizeof(*item));

        item->graph = p;
        item->found = found;
        item->config_json = config_json;
        item->is_requested = is_requested;
        item->refusal = read_needs(p, found, config_json, &item->needs);
        add_needs(p, item, ancestor);
        p->items = mem_realloc(p->items, (p->n_items + 1) * sizeof(struct load_item *));
        p->items[p->n_items++] = item;
        return item;
}

struct load_item *load_graph_add(struct load_graph *p, const struct found_model *found,
                                 const char *config_json, bool is_requested) {
        struct load_item *item = find_item(p, &found->key);

        if (item == NULL)
                return add_item(p, found, config_json, is_requested, NULL);
        item->is_requested = item->is_requested || is_requested;
        return item;
}

static const struct load_item *find_awaited(const struct load_item  *item,
                                            const struct model_need *need) {
        for (size_t i = 0; i < item->n_waits; i++)
                if (strcmp(item->waits_for[i]->found->key.name, need->name) == 0)
                        return item->waits_for[i];
        return NULL;
}

const struct error *load_graph_find_refusal(const struct load_graph *p,
                                            const struct load_item  *item) {
        if (item->refusal != NULL)
                return item->refusal;
        for (size_t i = 0; i < item->needs.n; i++) {
                const struct model_need *need = &item->needs.items[i];
                const struct load_item  *other = find_awaited(item, need);

                if (other != NULL && other->refused_by != NULL &&
                    !repo_compose_is_loaded(p->repo, &item->found->key, need))
                        return other->refused_by;
        }
        return NULL;
}

const struct model_need *load_graph_find_failed(const struct load_graph *p,
                                                const struct load_item  *item) {
        if (item->needs.kind == NEEDS_STEPS)
                return NULL;
        for (size_t i = 0; i < item->needs.n; i++) {
                const struct model_need *need = &item->needs.items[i];
                const struct load_item  *other = find_awaited(item, need);

                if (other != NULL && other->error != NULL &&
                    !repo_compose_is_known(p->repo, &item->found->key, need))
                        return need;
        }
        return NULL;
}

bool load_graph_lacks(const struct load_graph *p, const struct load_item *item,
                      const struct model_need *need) {
        return find_awaited(item, need) == NULL &&
               !repo_compose_has(p->repo, &item->found->key, need);
}

/* Each item is looked at once, however many ways lead to it. */
static const struct model_need *find_lacking(const struct load_graph *p, struct load_item *item,
                                             const struct load_item **ret_user) {
        if (item->n_looks == p->n_looks)
                return NULL;
        item->n_looks = p->n_looks;
        for (size_t i = 0; i < item->needs.n; i++) {
                const struct model_need *need = &item->needs.items[i];

                if (!load_graph_lacks(p, item, need))
                        continue;
                *ret_user = item;
                return need;
        }
        for (size_t i = 0; i < item->n_waits; i++) {
                const struct model_need *need = find_lacking(p, item->waits_for[i], ret_user);

                if (need != NULL)
                        return need;
        }
        return NULL;
}

const struct model_need *load_graph_find_lacking(struct load_graph *p, struct load_item *item,
                                                 const struct load_item **ret_user) {
        p->n_looks++;
        return find_lacking(p, item, ret_user);
}

void load_graph_drop_needs(struct load_graph *p) {
        for (size_t i = 0; i < p->n_items; i++)
                if (!p->items[i]->is_requested)
                        p->items[i]->is_dropped = true;
}

/* ---- hold ------------------------------------------------------------------------------------ */

bool load_graph_hold(struct load_graph *p, bool is_last) {
        struct repo *r = p->repo;

        MUTEX_GUARD(&r->table.lock);
        for (size_t i = 0; i < p->n_items; i++)
                load_hold_add_locked(r, &p->hold, &p->items[i]->found->key, &p->items[i]->needs);
        if (load_hold_take_locked(r, &p->hold, p->n_unloads))
                return true;
        if (is_last)
                load_hold_force_locked(r, &p->hold);
        return is_last;
}

void load_graph_release(struct load_graph *p) {
        load_hold_release(p->repo, &p->hold);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* Threads take items in order, so the items for which this one waits have been taken already. */
static void await_needs(struct load_item *item) {
        struct repo *r = item->graph->repo;

        MUTEX_GUARD(&r->table.lock);
        for (size_t i = 0; i < item->n_waits; i++)
                while (!item->waits_for[i]->is_done)
                        cond_wait(&r->table.changed, &r->table.lock);
}

static void run_item(struct work *job) {
        struct load_item  *item = CONTAINER_OF(job, struct load_item, job);
        struct repo       *r = item->graph->repo;
        struct repo_entry *e;

        await_needs(item);
        if (!item->is_dropped) {
                struct load_user before = load_user_set(item->graph->user);

                item->error = item->graph->load(r, item);
                (void)load_user_set(before);
        }
        MUTEX_GUARD(&r->table.lock);
        e = repo_table_find_locked(&r->table, &item->found->key);
        if (e != NULL && item->is_requested && !item->is_dropped && item->error == NULL)
                e->is_requested = true;
        item->is_done = true;
        cond_broadcast(&r->table.changed);
}

/* Items that wait for nothing come first, so that no thread waits while there is work. */
void load_graph_run(struct load_graph *p) {
        struct work **jobs = mem_zalloc((p->n_items + 1) * sizeof(struct work *));
        size_t        n = 0;

        for (int waits = 0; waits < 2; waits++)
                for (size_t i = 0; i < p->n_items; i++) {
                        if ((p->items[i]->n_waits > 0) != (waits == 1))
                                continue;
                        p->items[i]->job.run = run_item;
                        jobs[n++] = &p->items[i]->job;
                }
        if (n == 1)
                run_item(jobs[0]);
        else
                work_run_all("neso-loader", jobs, n, p->repo->n_load_threads);
        free(jobs);
}
