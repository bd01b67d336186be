/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_table.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/model_generations.h"
#include "repo/agent_list.h"
#include "repo/dir_fingerprint.h"

#include <assert.h>
#include <string.h>

void repo_table_init(struct repo_table *t) {
        mutex_init(&t->lock, LOCK_MODEL);
        cond_init(&t->changed);
        map_init(&t->by_name);
        t->sorted = NULL;
        t->n_entries = t->n_unready = 0;
        list_init(&t->queried);
        list_init(&t->gone);
        t->n_gone = 0;
}

/* Strict readiness, see repo_all_ready(). */
static bool is_unready(const struct repo_entry *e) {
        if (e->n_versions == 0)
                return e->is_wanted /* it could not even be read; other entries were never
                                     * requested */
                       || e->is_versionless;
        for (size_t i = 0; i < e->n_versions; i++) {
                const struct repo_version *v = &e->versions[i];

                if (v->state != VERSION_READY && !v->was_unloaded)
                        return true;
                /* A version that is blocked by an unloaded model is no fault. */
                if (v->is_fault)
                        return true;
        }
        return false;
}

static size_t count_may_be_unready(const struct repo_entry *e) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_versions; i++)
                n += e->versions[i].model != NULL && e->versions[i].model->may_be_unready;
        return n;
}

static void add_counts(struct repo_entry *e) {
        e->table->n_unready += e->is_unready;
        if (e->n_may_be_unready > 0)
                list_append(&e->table->queried, &e->queried);
}

static void subtract_counts(struct repo_entry *e) {
        e->table->n_unready -= e->is_unready;
        if (list_is_linked(&e->queried))
                list_remove(&e->queried);
}

/* Must be called after each change of an entry or of one of its versions. */
static void update_counts(struct repo_entry *e) {
        subtract_counts(e);
        e->is_unready = is_unready(e);
        e->n_may_be_unready = count_may_be_unready(e);
        add_counts(e);
}

static void remove_gone(struct repo_entry *e) {
        if (!list_is_linked(&e->gone))
                return;
        list_remove(&e->gone);
        e->table->n_gone--;
}

static void entry_free(struct repo_entry *e) {
        subtract_counts(e);
        remove_gone(e);
        for (size_t i = 0; i < e->n_versions; i++) {
                model_unref(e->versions[i].model);
                free(e->versions[i].reason);
                free(e->versions[i].blocked);
        }
        free(e->versions);
        free(e->given_config);
        free(e->sent_config);
        free(e->running_config);
        agent_list_unref(e->agents);
        model_generations_unref(e->generations);
        dir_fingerprint_free(e->fingerprint);
        dir_fingerprint_free(e->seen);
        dir_fingerprint_free(e->tried);
        label_list_done(&e->awaited);
        free(e->directory);
        free(e->repository);
        free(e->label);
        free(e->namespace);
        free(e->name);
        free(e);
}

void repo_table_done(struct repo_table *t) {
        for (size_t i = 0; i < t->n_entries; i++)
                entry_free(t->sorted[i]);
        free(t->sorted);
        map_done(&t->by_name);
        cond_done(&t->changed);
        mutex_done(&t->lock);
}

struct repo_entry *repo_table_first_locked(struct repo_table *t, const char *name) {
        assert(mutex_is_held(&t->lock));
        return map_find(&t->by_name, str_of(name));
}

struct repo_entry *repo_table_find_locked(struct repo_table *t, const struct model_key *key) {
        struct repo_entry *e = repo_table_first_locked(t, key->name);

        while (e != NULL && strcmp(e->namespace, key->namespace) != 0)
                e = e->next;
        return e;
}

/* The fast path: without namespaces a label is a name. */
struct repo_entry *repo_table_find_label_locked(struct repo_table *t, const char *label) {
        struct repo_entry *e = repo_table_first_locked(t, label);

        if (e != NULL && e->next == NULL && strcmp(e->label, label) == 0)
                return e;
        for (size_t i = 0; i < t->n_entries; i++)
                if (strcmp(t->sorted[i]->label, label) == 0)
                        return t->sorted[i];
        return NULL;
}

static struct repo_entry *entry_new(const struct model_key *key, const char *directory,
                                    const char *repository) {
        struct repo_entry *e = mem_zalloc(sizeof(*e));

        e->name = mem_strdup(key->name);
        e->namespace = mem_strdup(key->namespace);
        e->label = model_key_label(key);
        e->directory = mem_strdup(directory);
        e->repository = mem_strdup(repository);
        e->generations = model_generations_new();
        return e;
}

static int compare(const struct repo_entry *x, const struct repo_entry *y) {
        const struct model_key a = repo_entry_key(x), b = repo_entry_key(y);

        return model_key_compare(&a, &b);
}

/* Returns the index of the entry, or the index at which it belongs. */
static size_t find_place(const struct repo_table *t, const struct repo_entry *e) {
        size_t low = 0, high = t->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(t->sorted[middle], e) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static void insert_entry(struct repo_table *t, struct repo_entry *e) {
        size_t at = find_place(t, e);

        t->sorted = mem_grow(t->sorted, t->n_entries, sizeof(struct repo_entry *));
        memmove(&t->sorted[at + 1], &t->sorted[at], (t->n_entries - at) * sizeof(e));
        t->sorted[at] = e;
        t->n_entries++;
}

static void erase(struct repo_table *t, const struct repo_entry *e) {
        size_t at = find_place(t, e);

        assert(t->sorted[at] == e);
        t->n_entries--;
        memmove(&t->sorted[at], &t->sorted[at + 1], (t->n_entries - at) * sizeof(e));
}

struct repo_entry *repo_table_add_locked(struct repo_table *t, const struct model_key *key,
                                         const char *directory, const char *repository) {
        struct repo_entry *e = repo_table_find_locked(t, key);

        if (e != NULL)
                return e;
        e = entry_new(key, directory, repository);
        e->next = repo_table_first_locked(t, key->name);
        map_set(&t->by_name, str_of(key->name), e);
        insert_entry(t, e);
        e->table = t;
        update_counts(e);
        return e;
}

void repo_entry_set_duplicate_locked(struct repo_entry *e, bool is_duplicate) {
        if (e->is_duplicate == is_duplicate)
                return;
        e->is_duplicate = is_duplicate;
        update_counts(e);
}

void repo_entry_set_wanted_locked(struct repo_entry *e, bool is_wanted) {
        if (e->is_wanted == is_wanted)
                return;
        e->is_wanted = is_wanted;
        update_counts(e);
}

void repo_entry_set_versionless_locked(struct repo_entry *e, bool is_versionless) {
        if (e->is_versionless == is_versionless)
                return;
        e->is_versionless = is_versionless;
        update_counts(e);
}

struct model_key repo_entry_key(const struct repo_entry *e) {
        return (struct model_key){ .namespace = e->namespace, .name = e->name };
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
        *v = (struct repo_version){ .entry = e, .number = number };
        e->n_versions++;
        update_counts(e);
        return v;
}

void repo_entry_remove_version_locked(struct repo_entry *e, int64_t number) {
        struct repo_version *v = repo_entry_find_version_locked(e, number);

        assert(v != NULL && v->model == NULL);
        free(v->reason);
        free(v->blocked);
        memmove(v, v + 1, (size_t)(&e->versions[e->n_versions] - (v + 1)) * sizeof(*v));
        e->n_versions--;
        update_counts(e);
}

void repo_entry_clear_locked(struct repo_entry *e) {
        dir_fingerprint_free(e->seen);
        dir_fingerprint_free(e->tried);
        e->seen = e->tried = NULL;
        label_list_done(&e->awaited);
        repo_entry_set_wanted_locked(e, false);
        repo_entry_set_versionless_locked(e, false);
        repo_entry_set_duplicate_locked(e, false);
}

static void unlink_locked(struct repo_table *t, struct repo_entry *e) {
        struct repo_entry *before = repo_table_first_locked(t, e->name);

        if (before == e) {
                if (e->next != NULL)
                        map_set(&t->by_name, str_of(e->name), e->next);
                else
                        map_remove(&t->by_name, str_of(e->name));
                return;
        }
        while (before->next != e)
                before = before->next;
        before->next = e->next;
}

void repo_table_forget_locked(struct repo_table *t, struct repo_entry *e) {
        assert(mutex_is_held(&t->lock));
        if (e->n_versions > 0 || e->is_busy || e->is_planned || e->is_wanted || e->is_duplicate ||
            e->is_versionless || e->n_waiting > 0 || e->n_unloads > 0 || e->seen != NULL ||
            e->tried != NULL)
                return;
        unlink_locked(t, e);
        erase(t, e);
        entry_free(e);
}

void repo_table_append_gone_locked(struct repo_table *t, struct repo_entry *e) {
        assert(mutex_is_held(&t->lock));
        remove_gone(e);
        list_append(&t->gone, &e->gone);
        t->n_gone++;
}

struct repo_entry *repo_table_take_gone_locked(struct repo_table *t) {
        struct repo_entry *e = CONTAINER_OF(list_first(&t->gone), struct repo_entry, gone);

        assert(mutex_is_held(&t->lock));
        remove_gone(e);
        return e;
}

bool repo_entry_is_identified_locked(const struct repo_entry *e) {
        if (e->n_versions == 0)
                return e->is_versionless;
        for (size_t i = 0; i < e->n_versions; i++) {
                const struct repo_version *v = &e->versions[i];

                if (v->state != VERSION_UNLOADING && !v->was_unloaded)
                        return true;
        }
        return false;
}

struct repo_version *repo_entry_latest_locked(struct repo_entry *e) {
        for (size_t i = e->n_versions; i > 0; i--)
                if (repo_version_is_found(&e->versions[i - 1]))
                        return &e->versions[i - 1];
        return NULL;
}

/* A copy that is cut before a character; NULL for NULL. */
static char *copy_reason(const char *reason) {
        size_t len = REPO_REASON_MAX_BYTES;

        if (reason == NULL || strlen(reason) <= len)
                return mem_strdup(reason);
        while (len > 0 && ((unsigned char)reason[len] & 0xc0) == 0x80)
                len--;
        return mem_printf("%.*s...", (int)len, reason);
}

struct model *repo_version_set_locked(struct repo_version *v, enum version_state state,
                                      const char *reason, struct model *model) {
        struct model *old = v->model;

        if (old != NULL)
                atomic_store(&old->is_replaced, true);
        free(v->reason);
        v->reason = copy_reason(reason);
        v->was_unloaded = false;
        v->state = state;
        v->model = model;
        v->leaving = state == VERSION_UNLOADING ? old : NULL;
        free(v->blocked);
        v->blocked = NULL;
        v->is_hidden = v->is_fault = false;
        update_counts(v->entry);
        return old;
}

struct model *repo_version_set_unloaded_locked(struct repo_version *v) {
        struct model *old = repo_version_set_locked(v, VERSION_UNAVAILABLE, "unloaded", NULL);

        v->was_unloaded = true;
        update_counts(v->entry);
        return old;
}

void repo_entry_excuse_failures_locked(struct repo_entry *e) {
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].state == VERSION_UNAVAILABLE)
                        repo_version_set_unloaded_locked(&e->versions[i]); /* it has no model */
}

static bool is_same_block(const struct repo_version *v, const struct repo_block *block) {
        if (block == NULL || v->blocked == NULL)
                return block == NULL && v->blocked == NULL;
        return strcmp(v->blocked, block->why) == 0 && v->is_hidden == block->is_hidden &&
               v->is_fault == block->is_fault;
}

void repo_version_block_locked(struct repo_version *v, const struct repo_block *block) {
        if (is_same_block(v, block))
                return;
        free(v->blocked);
        v->blocked = block != NULL ? copy_reason(block->why) : NULL;
        v->is_hidden = block != NULL && block->is_hidden;
        v->is_fault = block != NULL && block->is_fault;
        update_counts(v->entry);
}

bool repo_version_is_found(const struct repo_version *v) {
        return v->state == VERSION_READY && !v->is_hidden;
}

struct repo_entry **repo_table_sorted_locked(struct repo_table *t, size_t *ret_n) {
        struct repo_entry **sorted = mem_alloc((t->n_entries + 1) * sizeof(*sorted));

        if (t->n_entries > 0)
                memcpy(sorted, t->sorted, t->n_entries * sizeof(*sorted));
        *ret_n = t->n_entries;
        return sorted;
}
