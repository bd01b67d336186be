/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo.h"

#include "base/mem.h"
#include "repo/repo_inside.h"
#include "repo/repo_scan.h"

#include <string.h>

static void add(struct repo_index *index, size_t *cap, const struct repo_index_entry *entry) {
        if (index->n_entries == *cap) {
                *cap = *cap > 0 ? *cap * 2 : 16;
                index->entries = mem_realloc(index->entries, *cap * sizeof(*entry));
        }
        index->entries[index->n_entries++] = *entry;
}

static void add_model(struct repo_index *index, size_t *cap, const struct repo_entry *e,
                      bool only_ready) {
        if (e->is_duplicate && !only_ready)
                add(index, cap,
                    &(struct repo_index_entry){
                            .name = mem_strdup(e->name),
                            .namespace = mem_strdup(e->namespace),
                            .version = -1,
                            .state = VERSION_UNAVAILABLE,
                            .reason = mem_strdup("model appears in two or more repositories") });
        else if (e->n_versions == 0 && !only_ready)
                add(index, cap,
                    &(struct repo_index_entry){ .name = mem_strdup(e->name),
                                                .namespace = mem_strdup(e->namespace),
                                                .version = -1 });
        for (size_t i = 0; i < e->n_versions; i++) {
                const struct repo_version *v = &e->versions[i];

                if (only_ready && v->state != VERSION_READY)
                        continue;
                add(index, cap,
                    &(struct repo_index_entry){ .name = mem_strdup(e->name),
                                                .namespace = mem_strdup(e->namespace),
                                                .version = v->number,
                                                .state = v->state,
                                                .reason = mem_strdup(v->reason) });
        }
}

/* Models that nobody ever asked for are in no table: the directories tell. */
static void add_found_locked(struct repo_index *index, size_t *cap, struct repo *r,
                             const struct repo_scan *scan) {
        for (size_t i = 0; i < scan->n_models; i++) {
                const struct found_model *found = &scan->models[i];
                struct repo_entry        *e = repo_table_find_locked(&r->table, &found->key);
                const struct model_key *key = &found->key;
                struct repo_entry unknown = { .name = (char *)(uintptr_t)key->name,
                                              .namespace = (char *)(uintptr_t)key->namespace };

                if (e == NULL) {
                        unknown.is_duplicate = found->is_duplicate;
                        add_model(index, cap, &unknown, false);
                }
        }
}

/* Which models are twice there can change as well. */
static void note_duplicates_locked(struct repo *r, const struct repo_scan *scan) {
        struct repo_entry **entries;
        size_t              n;

        entries = repo_table_sorted_locked(&r->table, &n);
        for (size_t i = 0; i < n; i++) {
                const struct model_key key = repo_entry_key(entries[i]);

                repo_entry_note_twins_locked(entries[i], scan, repo_scan_find(scan, &key));
        }
        free(entries);
}

static int by_place(const void *a, const void *b) {
        const struct repo_index_entry *x = a, *y = b;
        int                            order = strcmp(x->name, y->name);

        order = order != 0 ? order : strcmp(x->namespace, y->namespace);
        return order != 0 ? order : (x->version > y->version) - (x->version < y->version);
}

static void read_locked(struct repo *r, bool only_ready, struct repo_index *ret, size_t *cap) {
        struct repo_entry **entries;
        size_t              n;

        entries = repo_table_sorted_locked(&r->table, &n);
        for (size_t i = 0; i < n; i++)
                add_model(ret, cap, entries[i], only_ready);
        free(entries);
}

static void read_followed(struct repo *r, struct repo_index *ret, size_t *cap) {
        struct repo_scan scan;

        repo_scan_read(r, &scan);
        mutex_lock(&r->table.lock);
        note_duplicates_locked(r, &scan);
        read_locked(r, false, ret, cap);
        add_found_locked(ret, cap, r, &scan);
        mutex_unlock(&r->table.lock);
        repo_scan_done(&scan);
        if (ret->n_entries > 0)
                qsort(ret->entries, ret->n_entries, sizeof(ret->entries[0]), by_place);
}

void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret) {
        size_t cap = 0;

        *ret = (struct repo_index){ 0 };
        if (!only_ready && r->is_followed) {
                read_followed(r, ret, &cap);
                return;
        }
        mutex_lock(&r->table.lock);
        read_locked(r, only_ready, ret, &cap);
        mutex_unlock(&r->table.lock);
}

void repo_index_done(struct repo_index *index) {
        for (size_t i = 0; i < index->n_entries; i++) {
                free(index->entries[i].name);
                free(index->entries[i].namespace);
                free(index->entries[i].reason);
        }
        free(index->entries);
}
