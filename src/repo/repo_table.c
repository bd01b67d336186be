/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_table.h"

#include "base/mem.h"
#include "infer/model.h"
#include "repo/agent_list.h"
#include "repo/model_mark.h"

#include <assert.h>
#include <string.h>

void repo_table_init(struct repo_table *t) {
        mutex_init(&t->lock, LOCK_MODEL);
        cond_init(&t->changed);
        map_init(&t->by_name);
}

static void entry_free(struct repo_entry *e) {
        for (size_t i = 0; i < e->n_versions; i++) {
                model_unref(e->versions[i].model);
                free(e->versions[i].reason);
        }
        free(e->versions);
        free(e->essence);
        agent_list_unref(e->agents);
        model_mark_free(e->mark);
        model_mark_free(e->seen);
        model_mark_free(e->tried);
        free(e->directory);
        free(e->name);
        free(e);
}

void repo_table_done(struct repo_table *t) {
        const struct map_entry *m;
        size_t                  at = 0;

        while ((m = map_next(&t->by_name, &at)) != NULL)
                entry_free(m->value);
        map_done(&t->by_name);
        cond_done(&t->changed);
        mutex_done(&t->lock);
}

struct repo_entry *repo_table_find_locked(struct repo_table *t, const char *name) {
        assert(mutex_is_held(&t->lock));
        return map_find(&t->by_name, str_of(name));
}

struct repo_entry *repo_table_add_locked(struct repo_table *t, const char *name,
                                         const char *directory) {
        struct repo_entry *e = repo_table_find_locked(t, name);

        if (e != NULL)
                return e;
        e = mem_zalloc(sizeof(*e));
        e->name = mem_strdup(name);
        e->directory = mem_strdup(directory);
        map_set(&t->by_name, str_of(name), e);
        return e;
}

struct repo_version *repo_entry_find_version_locked(struct repo_entry *e, int64_t number) {
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].number == number)
                        return &e->versions[i];
        return NULL;
}

struct repo_version *repo_entry_add_version_locked(struct repo_entry *e, int64_t number) {
        struct repo_version *v = repo_entry_find_version_locked(e, number);
        size_t               at = 0;

        if (v != NULL)
                return v;
        e->versions = mem_realloc(e->versions, (e->n_versions + 1) * sizeof(*v));
        while (at < e->n_versions && e->versions[at].number < number)
                at++;
        v = &e->versions[at];
        memmove(v + 1, v, (e->n_versions - at) * sizeof(*v));
        *v = (struct repo_version){ .number = number };
        e->n_versions++;
        return v;
}

void repo_entry_remove_version_locked(struct repo_entry *e, int64_t number) {
        struct repo_version *v = repo_entry_find_version_locked(e, number);

        assert(v != NULL && v->model == NULL);
        free(v->reason);
        memmove(v, v + 1, (size_t)(&e->versions[e->n_versions] - (v + 1)) * sizeof(*v));
        e->n_versions--;
}

void repo_table_forget_locked(struct repo_table *t, struct repo_entry *e) {
        assert(mutex_is_held(&t->lock));
        if (e->n_versions > 0 || e->is_busy || e->is_wanted || e->is_duplicate ||
            e->n_waiting > 0 || e->seen != NULL || e->tried != NULL)
                return;
        map_remove(&t->by_name, str_of(e->name));
        entry_free(e);
}

struct repo_version *repo_entry_latest_locked(struct repo_entry *e) {
        for (size_t i = e->n_versions; i > 0; i--)
                if (e->versions[i - 1].state == VERSION_READY)
                        return &e->versions[i - 1];
        return NULL;
}

struct model *repo_version_set_locked(struct repo_version *v, enum version_state state,
                                      const char *reason, struct model *model) {
        struct model *old = v->model;

        free(v->reason);
        v->reason = mem_strdup(reason);
        v->state = state;
        v->model = model;
        v->leaving = state == VERSION_UNLOADING ? old : NULL;
        return old;
}

static int by_name(const void *a, const void *b) {
        return strcmp((*(struct repo_entry *const *)a)->name, (*(struct repo_entry *const *)b)->name);
}

struct repo_entry **repo_table_sorted_locked(struct repo_table *t, size_t *ret_n) {
        struct repo_entry     **sorted = mem_zalloc((map_size(&t->by_name) + 1) * sizeof(*sorted));
        const struct map_entry *m;
        size_t                  at = 0;
        size_t                  n = 0;

        while ((m = map_next(&t->by_name, &at)) != NULL)
                sorted[n++] = m->value;
        qsort(sorted, n, sizeof(struct repo_entry *), by_name);
        *ret_n = n;
        return sorted;
}
