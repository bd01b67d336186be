/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo.h"

#include "base/mem.h"
#include "repo/repo_inside.h"

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
                            .version = -1,
                            .state = VERSION_UNAVAILABLE,
                            .reason = mem_strdup("model appears in two or more repositories") });
        else if (e->n_versions == 0 && !only_ready)
                add(index, cap,
                    &(struct repo_index_entry){ .name = mem_strdup(e->name), .version = -1 });
        for (size_t i = 0; i < e->n_versions; i++) {
                const struct repo_version *v = &e->versions[i];

                if (only_ready && v->state != VERSION_READY)
                        continue;
                add(index, cap,
                    &(struct repo_index_entry){ .name = mem_strdup(e->name),
                                                .version = v->number,
                                                .state = v->state,
                                                .reason = mem_strdup(v->reason) });
        }
}

void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret) {
        struct repo_entry **entries;
        size_t              n;
        size_t              cap = 0;

        *ret = (struct repo_index){ 0 };
        MUTEX_GUARD(&r->table.lock);
        entries = repo_table_sorted_locked(&r->table, &n);
        for (size_t i = 0; i < n; i++)
                add_model(ret, &cap, entries[i], only_ready);
        free(entries);
}

void repo_index_done(struct repo_index *index) {
        for (size_t i = 0; i < index->n_entries; i++) {
                free(index->entries[i].name);
                free(index->entries[i].reason);
        }
        free(index->entries);
}
