/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_compose.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/model.h"
#include "repo/composed_model.h"
#include "repo/dir_fingerprint.h"
#include "repo/load_failure.h"
#include "repo/loaded_model.h"
#include "repo/model_graph.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

static struct repo_entry *find_label_locked(struct repo *r, const char *label) {
        return repo_table_find_label_locked(&r->table, label);
}

/* Returns the only one of these models that was not unloaded; NULL: none, or several. */
static struct repo_entry *find_only_locked(struct repo_entry *first) {
        struct repo_entry *only = NULL;

        for (struct repo_entry *e = first; e != NULL; e = e->next) {
                if (!repo_entry_is_identified_locked(e))
                        continue;
                if (only != NULL)
                        return NULL;
                only = e;
        }
        return only;
}

/* Finds the model that a need means: the one in the namespace that the need names, else the one in
 * the namespace of the user, else the only one of that name. With namespaces, an unloaded model
 * leaves its name to those of other namespaces. */
static struct repo_entry *find_need_locked(struct repo *r, const struct model_key *user,
                                           const struct model_need *need) {
        struct model_key   key = { .namespace = user->namespace, .name = need->name };
        struct repo_entry *own, *first, *only;

        if (*need->namespace != '\0')
                key.namespace = need->namespace;
        own = repo_table_find_locked(&r->table, &key);
        if (*need->namespace != '\0' || !r->has_namespaces ||
            (own != NULL && repo_entry_is_identified_locked(own)))
                return own;
        first = repo_table_first_locked(&r->table, need->name);
        only = find_only_locked(first);
        if (only != NULL || own != NULL)
                return only != NULL ? only : own;
        return first != NULL && first->next == NULL ? first : NULL;
}

static struct repo_version *find_version_locked(struct repo_entry *e, int64_t number) {
        struct repo_version *v;

        if (e == NULL)
                return NULL;
        v = number == -1 ? repo_entry_latest_locked(e) : repo_entry_find_version_locked(e, number);
        return v != NULL && repo_version_is_found(v) ? v : NULL;
}

struct model *repo_compose_find_step(void *owner, const struct model_key *user,
                                     const struct model_need *need) {
        struct repo         *r = owner;
        struct repo_version *v;

        MUTEX_GUARD(&r->table.lock);
        v = find_version_locked(find_need_locked(r, user, need), need->version);
        if (v == NULL)
                return NULL;
        model_ref(v->model);
        return v->model;
}

bool repo_compose_is_known(struct repo *r, const struct model_key *user,
                           const struct model_need *need) {
        MUTEX_GUARD(&r->table.lock);
        return find_need_locked(r, user, need) != NULL;
}

bool repo_compose_is_loaded(struct repo *r, const struct model_key *user,
                            const struct model_need *need) {
        MUTEX_GUARD(&r->table.lock);
        return find_version_locked(find_need_locked(r, user, need), need->version) != NULL;
}

bool repo_compose_has(struct repo *r, const struct model_key *user, const struct model_need *need) {
        const struct repo_version *v;

        MUTEX_GUARD(&r->table.lock);
        v = find_version_locked(find_need_locked(r, user, need), need->version);
        return v != NULL && v->blocked == NULL;
}

void repo_compose_add_needs_locked(struct repo *r, const struct model_key *user,
                                   const struct model_needs *needs, struct label_list *to) {
        for (size_t i = 0; i < needs->n; i++) {
                const struct repo_entry *e = find_need_locked(r, user, &needs->items[i]);
                const char              *label = e != NULL ? e->label : needs->items[i].name;
                struct model_order       order = { 0 };

                /* Without an order there is a cycle, and the load fails. */
                (void)model_graph_order(r->graph, &label, 1, &order);
                for (size_t k = 0; k < order.n; k++)
                        label_list_add(to, order.names[k]);
                model_order_done(&order);
        }
}

/* ---- needs ----------------------------------------------------------------------------------- */

static void set_needs_locked(struct repo *r, const struct repo_entry *e,
                             const struct model_needs *needs) {
        const struct model_key key = repo_entry_key(e);
        const char           **names;

        if (needs->n == 0) {
                model_graph_remove(r->graph, e->label);
                return;
        }
        names = mem_alloc(needs->n * sizeof(const char *));
        for (size_t i = 0; i < needs->n; i++) {
                const struct repo_entry *other = find_need_locked(r, &key, &needs->items[i]);

                names[i] = other != NULL ? other->label : needs->items[i].name;
        }
        model_graph_set(r->graph, e->label, names, needs->n);
        free(names);
}

static const struct model_needs *needs_of(const struct repo_version *v) {
        static const struct model_needs none = { .kind = NEEDS_NOTHING };
        const struct composed_model    *c;

        c = v != NULL && v->model != NULL ? loaded_model_of(v->model)->composed : NULL;
        return c != NULL ? &c->needs : &none;
}

/* Takes the last READY version: versions of a model rarely differ in their needs. */
static const struct model_needs *serving_needs_locked(const struct repo_entry *e) {
        for (size_t i = e->n_versions; i > 0; i--)
                if (e->versions[i - 1].state == VERSION_READY)
                        return needs_of(&e->versions[i - 1]);
        return needs_of(NULL);
}

static void restore_locked(struct repo *r, const struct repo_entry *e) {
        set_needs_locked(r, e, serving_needs_locked(e));
}

void repo_compose_restore(struct repo *r, struct repo_entry *e) {
        MUTEX_GUARD(&r->table.lock);
        restore_locked(r, e);
}

void repo_compose_await(struct repo *r, struct repo_entry *e, const struct model_needs *needs) {
        MUTEX_GUARD(&r->table.lock);
        label_list_done(&e->awaited);
        for (size_t i = 0; i < needs->n; i++)
                label_list_add(&e->awaited, needs->items[i].name);
}

static bool serves_locked(const struct repo_entry *e) {
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].state == VERSION_READY)
                        return true;
        return false;
}

void repo_compose_forget_locked(struct repo *r, struct repo_entry *e) {
        model_graph_remove(r->graph, e->label);
}

/* The reference server names two models of a cycle of ensembles. */
static struct error *check_cycle_locked(struct repo *r, const struct repo_entry *e,
                                        enum needs_kind kind) {
        struct model_order cycle;
        struct error      *err = NULL;

        model_graph_find_cycle(r->graph, e->label, &cycle);
        if (cycle.n > 0 && kind == NEEDS_STEPS) {
                err = error_new(ERR_INVALID_ARG, CIRCULAR_ENSEMBLES_FORMAT, cycle.names[0],
                                cycle.names[cycle.n - 1], cycle.names[0]);
        } else if (cycle.n > 0) {
                err = model_order_circular_chain(e->name, &cycle);
        }
        model_order_done(&cycle);
        return err;
}

/* Returns "<Code>: <text>" of the version that failed, borrowed; NULL when none did. */
static const char *find_reason(const struct repo_entry *e) {
        for (size_t i = e->n_versions; i > 0; i--)
                if (e->versions[i - 1].state == VERSION_UNAVAILABLE &&
                    !e->versions[i - 1].was_unloaded)
                        return e->versions[i - 1].reason;
        return NULL;
}

static struct error *step_missing(const struct repo_entry *e, const struct repo_entry *step,
                                  int64_t version) {
        const char *reason = find_reason(step);

        if (version != -1)
                return error_new(ERR_INVALID_ARG,
                                 "ensemble '%s' depends on '%s' whose required version %lld is not "
                                 "loaded",
                                 e->label, step->label, (long long)version);
        if (reason == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "ensemble '%s' depends on '%s' which has no loaded version.",
                                 e->label, step->label);
        return error_new(ERR_INVALID_ARG,
                         "ensemble '%s' depends on '%s' which has no loaded version. Model '%s' "
                         "loading failed with error: %s",
                         e->label, step->label, step->label, reason);
}

static struct error *stage_missing(const struct repo_entry *e, const struct model_needs *needs,
                                   const struct model_need *need, const struct repo_entry *stage) {
        const char *what = needs->kind == NEEDS_NEXT ? "next model" : "stage";
        const char *reason = stage != NULL ? find_reason(stage) : NULL;

        if (reason != NULL)
                return error_new(ERR_INVALID_ARG, "%s '%s' of model '%s' is not ready: %s", what,
                                 need->name, e->label, reason);
        if (needs->is_strict)
                return error_new(ERR_INVALID_ARG,
                                 "%s '%s' of model '%s' is not loaded, and chain_autoload is false",
                                 what, need->name, e->label);
        if (need->version != -1)
                return error_new(ERR_INVALID_ARG,
                                 "%s '%s' of model '%s' has no version %lld loaded", what,
                                 need->name, e->label, (long long)need->version);
        if (stage != NULL) /* its files could not be read, for example */
                return error_new(ERR_INVALID_ARG, "%s '%s' of model '%s' has no loaded version",
                                 what, need->name, e->label);
        return error_new(ERR_INVALID_ARG,
                         "%s '%s' of model '%s' is neither loaded nor in a model repository", what,
                         need->name, e->label);
}

/* The steps that are missing. Their number decides: their names may not fit into the memory. */
struct unknown_steps {
        size_t        n;
        struct strbuf names;
};

static void add_unknown(struct unknown_steps *u, const char *name) {
        strbuf_printf(&u->names, "%s%s", u->n > 0 ? ", " : "", name);
        u->n++;
}

static struct error *report_unknown(const struct repo_entry *e, const struct unknown_steps *u) {
        if (u->n == 0)
                return NULL;
        TRY(strbuf_check(&u->names, "the text of an error"));
        return error_new(ERR_INVALID_ARG,
                         "ensemble %s contains models that are not available or ambiguous: %s",
                         e->label, strbuf_cstr(&u->names));
}

static struct error *check_present_locked(struct repo *r, const struct repo_entry *e,
                                          const struct model_needs *needs) {
        const struct model_key key = repo_entry_key(e);
        struct unknown_steps   unknown = { 0 };
        struct error          *err = NULL;

        for (size_t i = 0; i < needs->n && err == NULL; i++) {
                const struct model_need *need = &needs->items[i];
                struct repo_entry       *other = find_need_locked(r, &key, need);

                if (find_version_locked(other, need->version) != NULL)
                        continue;
                if (needs->kind != NEEDS_STEPS)
                        err = stage_missing(e, needs, need, other);
                else if (other == NULL || (other->n_versions == 0 && !other->is_versionless))
                        add_unknown(&unknown, need->name);
                else
                        err = step_missing(e, other, need->version);
        }
        if (err == NULL)
                err = report_unknown(e, &unknown);
        strbuf_done(&unknown.names);
        return err;
}

static struct error *register_locked(struct repo *r, struct repo_entry *e,
                                     const struct model_needs *needs) {
        set_needs_locked(r, e, needs);
        TRY_OR(check_cycle_locked(r, e, needs->kind), restore_locked(r, e));
        TRY_OR(check_present_locked(r, e, needs), restore_locked(r, e));
        return NULL;
}

struct error *repo_compose_register(struct repo *r, struct repo_entry *e,
                                    const struct model_needs *needs) {
        struct error *why;

        mutex_lock(&r->table.lock);
        why = register_locked(r, e, needs);
        mutex_unlock(&r->table.lock);
        return why != NULL ? load_failure_logged(e->label, ERR_INVALID_ARG, why) : NULL;
}

/* ---- binding --------------------------------------------------------------------------------- */

/* Lists this label and those that depend on it. Each one comes after those that it needs. */
static void list_bottom_up_locked(struct repo *r, const char *label, struct label_list *ret) {
        struct model_order order;

        model_graph_dependents(r->graph, label, &order);
        *ret = (struct label_list){ .items = mem_alloc((order.n + 1) * sizeof(char *)) };
        ret->items[ret->n++] = mem_strdup(label);
        for (size_t i = order.n; i > 0; i--)
                ret->items[ret->n++] = mem_strdup(order.names[i - 1]);
        model_order_done(&order);
}

static void set_blocked_locked(struct repo_entry *e, const struct model *model,
                               const struct composed_block *b) {
        struct repo_block block = {
                .why = b->why,
                .is_hidden =
                        loaded_model_of((struct model *)(uintptr_t)model)->composed->needs.kind ==
                        NEEDS_STEPS,
                .is_fault = b->is_fault,
        };

        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].model == model)
                        repo_version_block_locked(&e->versions[i], b->why != NULL ? &block : NULL);
}

static void bind(struct repo *r, const char *label, struct model *model) {
        struct composed_model *c = loaded_model_of(model)->composed;
        struct composed_block  block;
        struct repo_entry     *e;

        composed_model_bind(c, &block);
        mutex_lock(&r->table.lock);
        e = find_label_locked(r, label);
        if (e != NULL)
                set_blocked_locked(e, model, &block);
        mutex_unlock(&r->table.lock);
        if (block.is_fault)
                log_error("model '%s' is not ready: %s", label, block.why);
        free(block.why);
}

/* Returns references to the versions of the model that need other models. The caller owns the
 * array. */
static struct model **list_composed(struct repo *r, const char *label, size_t *ret_n) {
        const struct repo_entry *e;
        struct model           **models;
        size_t                   n = 0;

        MUTEX_GUARD(&r->table.lock);
        e = find_label_locked(r, label);
        models = mem_alloc(((e != NULL ? e->n_versions : 0) + 1) * sizeof(struct model *));
        for (size_t i = 0; e != NULL && i < e->n_versions; i++) {
                struct model *m = e->versions[i].model;

                if (m == NULL || loaded_model_of(m)->composed == NULL)
                        continue;
                model_ref(m);
                models[n++] = m;
        }
        *ret_n = n;
        return models;
}

static void rebind_label(struct repo *r, const char *label) {
        size_t         n;
        struct model **models = list_composed(r, label, &n);

        for (size_t i = 0; i < n; i++) {
                bind(r, label, models[i]);
                model_unref(models[i]);
        }
        free(models);
}

static bool awaits_locked(struct repo *r, const struct repo_entry *e,
                          const struct label_list *labels) {
        for (size_t i = 0; i < labels->n; i++) {
                const struct repo_entry *changed = find_label_locked(r, labels->items[i]);

                if (changed != NULL && label_list_has(&e->awaited, changed->name))
                        return true;
        }
        return false;
}

/* The next poll tries models again that failed because one of these was missing or did not fit. */
static void retry_locked(struct repo *r, const struct label_list *labels) {
        for (size_t i = 0; i < r->table.n_entries; i++) {
                struct repo_entry *e = r->table.sorted[i];

                if (e->awaited.n == 0 || !awaits_locked(r, e, labels))
                        continue;
                e->is_due = true;
                dir_fingerprint_free(e->tried);
                e->tried = NULL;
        }
}

static bool needs_name(const struct model_needs *needs, const char *name) {
        for (size_t i = 0; i < needs->n; i++)
                if (strcmp(needs->items[i].name, name) == 0)
                        return true;
        return false;
}

static void add_bottom_up_locked(struct repo *r, const char *label, struct label_list *to) {
        struct label_list more;

        list_bottom_up_locked(r, label, &more);
        label_list_take(to, &more);
}

/* A name may mean a model of another namespace than before the change: records the needs of its
 * users again. Models that were not loaded because the name meant none are found by the name. */
static void add_users_of_name_locked(struct repo *r, const char *name, struct label_list *to) {
        add_bottom_up_locked(r, name, to);
        for (size_t i = 0; i < r->table.n_entries; i++) {
                struct repo_entry        *user = r->table.sorted[i];
                const struct model_needs *needs = serving_needs_locked(user);

                if (!needs_name(needs, name))
                        continue;
                set_needs_locked(r, user, needs);
                add_bottom_up_locked(r, user->label, to);
        }
}

void repo_compose_rebind(struct repo *r, const struct repo_entry *e) {
        struct label_list labels;

        mutex_lock(&r->table.lock);
        list_bottom_up_locked(r, e->label, &labels);
        if (r->has_namespaces)
                add_users_of_name_locked(r, e->name, &labels);
        mutex_unlock(&r->table.lock);
        mutex_lock(&r->binding);
        for (size_t i = 0; i < labels.n; i++)
                rebind_label(r, labels.items[i]);
        mutex_unlock(&r->binding);
        mutex_lock(&r->table.lock);
        retry_locked(r, &labels); /* after the binding, which may have made them found */
        mutex_unlock(&r->table.lock);
        label_list_done(&labels);
}

/* ---- live sequences -------------------------------------------------------------------------- */

void repo_compose_prune(void *owner) {
        struct model **loads;
        size_t         n = repo_loads(owner, NULL, &loads);

        for (size_t i = 0; i < n; i++) {
                struct composed_model *c = loaded_model_of(loads[i])->composed;

                if (c != NULL)
                        step_models_holder_prune(&c->holder);
                model_unref(loads[i]);
        }
        free(loads);
}

static bool keeps_steps(const struct repo_version *v, int64_t version) {
        return v->state == VERSION_READY && v->is_hidden &&
               (version == -1 || v->number == version) &&
               step_models_holder_has_older(&loaded_model_of(v->model)->composed->holder);
}

struct model *repo_compose_find_kept(struct repo *r, const char *name, int64_t version) {
        MUTEX_GUARD(&r->table.lock);
        for (const struct repo_entry *e = repo_table_first_locked(&r->table, name); e != NULL;
             e = e->next) {
                for (size_t i = e->n_versions; i > 0; i--) {
                        if (!keeps_steps(&e->versions[i - 1], version))
                                continue;
                        model_ref(e->versions[i - 1].model);
                        return e->versions[i - 1].model;
                }
        }
        return NULL;
}

/* ---- unloading ------------------------------------------------------------------------------- */

static bool is_next_of_locked(struct repo *r, const char *user, const char *name) {
        const struct repo_entry *e = find_label_locked(r, user);

        for (size_t i = 0; e != NULL && i < e->n_versions; i++) {
                const struct model_needs *needs = needs_of(&e->versions[i]);

                if (e->versions[i].state != VERSION_READY || needs->kind == NEEDS_STEPS)
                        continue;
                for (size_t k = 0; k < needs->n; k++)
                        if (strcmp(needs->items[k].name, name) == 0)
                                return true;
        }
        return false;
}

struct error *repo_compose_check_unload(struct repo *r, const char *name) {
        struct model_order order;
        struct error      *err = NULL;

        if (!r->is_strict_unload)
                return NULL;
        MUTEX_GUARD(&r->table.lock);
        for (const struct repo_entry *e = repo_table_first_locked(&r->table, name); e != NULL;
             e = e->next) {
                model_graph_dependents(r->graph, e->label, &order);
                for (size_t i = 0; i < order.n && err == NULL; i++)
                        if (is_next_of_locked(r, order.names[i], name))
                                err = error_new(ERR_INVALID_ARG, "model '%s' is the next of '%s'",
                                                name, order.names[i]);
                model_order_done(&order);
        }
        return err;
}

void repo_compose_list_needs(struct repo *r, const struct model_key *key, struct label_list *ret) {
        AUTO_CHARS         label = model_key_label(key);
        const char        *start = label;
        struct model_order order = { 0 };

        *ret = (struct label_list){ 0 };
        MUTEX_GUARD(&r->table.lock);
        /* No cycle is registered. */
        (void)model_graph_order(r->graph, &start, 1, &order);
        ret->items = mem_alloc((order.n + 1) * sizeof(char *));
        for (size_t i = order.n; i > 1; i--) /* the last name is the model itself */
                ret->items[ret->n++] = mem_strdup(order.names[i - 2]);
        model_order_done(&order);
}

static void add_needed_names_locked(struct repo *r, const char *label, struct label_list *to) {
        struct model_order order = { 0 };

        (void)model_graph_order(r->graph, &label, 1, &order); /* no cycle is registered */
        to->items = mem_realloc(to->items, (to->n + order.n + 1) * sizeof(char *));
        for (size_t i = 0; i + 1 < order.n; i++) { /* the last name is the model itself */
                const struct repo_entry *e = find_label_locked(r, order.names[i]);

                to->items[to->n++] = mem_strdup(e != NULL ? e->name : order.names[i]);
        }
        model_order_done(&order);
}

void repo_compose_list_needed_names(struct repo *r, const char *name, struct label_list *ret) {
        *ret = (struct label_list){ 0 };
        MUTEX_GUARD(&r->table.lock);
        for (const struct repo_entry *e = repo_table_first_locked(&r->table, name); e != NULL;
             e = e->next)
                add_needed_names_locked(r, e->label, ret);
}

/* True for a model that serves and needs others. */
static bool is_composed_locked(const struct repo_entry *e) {
        return serving_needs_locked(e)->n > 0;
}

/* The order of all such models, bottom-up. */
static void order_composed_locked(struct repo *r, struct model_order *ret) {
        const char **labels = mem_alloc((r->table.n_entries + 1) * sizeof(const char *));
        size_t       n = 0;

        for (size_t i = 0; i < r->table.n_entries; i++)
                if (is_composed_locked(r->table.sorted[i]))
                        labels[n++] = r->table.sorted[i]->label;
        *ret = (struct model_order){ 0 };
        (void)model_graph_order(r->graph, labels, n, ret); /* what serves has no cycle */
        free(labels);
}

struct repo_entry **repo_compose_list_top_down(struct repo *r, size_t *ret_n) {
        struct model_order  order;
        struct repo_entry **ret;
        size_t              n = 0;

        MUTEX_GUARD(&r->table.lock);
        ret = mem_alloc((r->table.n_entries + 1) * sizeof(struct repo_entry *));
        order_composed_locked(r, &order);
        for (size_t i = order.n; i > 0; i--) {
                struct repo_entry *e = find_label_locked(r, order.names[i - 1]);

                if (e != NULL && is_composed_locked(e))
                        ret[n++] = e;
        }
        for (size_t i = 0; i < r->table.n_entries; i++)
                if (!is_composed_locked(r->table.sorted[i]))
                        ret[n++] = r->table.sorted[i];
        model_order_done(&order);
        *ret_n = n;
        return ret;
}

static bool is_unused_locked(struct repo *r, const struct repo_entry *e) {
        struct model_order users;
        bool               is_used = false;

        if (e->is_requested || !serves_locked(e))
                return false;
        model_graph_dependents(r->graph, e->label, &users);
        for (size_t i = 0; i < users.n && !is_used; i++) {
                const struct repo_entry *user = find_label_locked(r, users.names[i]);

                is_used = user != NULL && (serves_locked(user) || user->is_busy);
        }
        model_order_done(&users);
        return !is_used;
}

bool repo_compose_is_unused(struct repo *r, const struct repo_entry *e) {
        MUTEX_GUARD(&r->table.lock);
        return is_unused_locked(r, e);
}

bool repo_compose_find_unused(struct repo *r, const char *label, struct model_key *ret) {
        const struct repo_entry *e;

        MUTEX_GUARD(&r->table.lock);
        e = find_label_locked(r, label);
        if (e == NULL || !is_unused_locked(r, e))
                return false;
        *ret = (struct model_key){ mem_strdup(e->namespace), mem_strdup(e->name) };
        return true;
}
