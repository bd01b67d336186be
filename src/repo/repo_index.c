/* SPDX-License-Identifier: BSD-3-Clause */
/* The index: what the table lists, and directories that the table does not know. Both are sorted
 * and merged here, where no lock is held. */
#include "repo/repo.h"

#include "base/mem.h"
#include "repo/listed_model.h"
#include "repo/repo_inside.h"
#include "repo/repo_scan.h"

#include <string.h>

static void add(struct repo_index *index, const struct repo_index_entry *entry) {
        if (index->n_entries == index->cap_entries) {
                index->cap_entries = index->cap_entries > 0 ? index->cap_entries * 2 : 16;
                index->entries =
                        mem_realloc(index->entries, index->cap_entries * sizeof(*entry));
        }
        index->entries[index->n_entries++] = *entry;
}

/* A model without versions. */
static void add_key(struct repo_index *index, const struct model_key *key, bool is_duplicate) {
        struct repo_index_entry line = { .name = key->name,
                                         .namespace = key->namespace,
                                         .version = -1 };

        if (is_duplicate) {
                line.state = VERSION_UNAVAILABLE;
                line.reason = "model appears in two or more repositories";
        }
        add(index, &line);
}

static struct model_key key_of(const struct listed_model *m) {
        return (struct model_key){ .namespace = m->namespace, .name = m->name };
}

static void add_versions(struct repo_index *index, const struct listed_model *m, bool only_ready) {
        for (size_t i = 0; i < m->n_versions; i++)
                if (!only_ready || m->versions[i].state == VERSION_READY)
                        add(index, &(struct repo_index_entry){ .name = m->name,
                                                               .namespace = m->namespace,
                                                               .version = m->versions[i].number,
                                                               .state = m->versions[i].state,
                                                               .reason = m->versions[i].reason });
}

static void add_model(struct repo_index *index, const struct listed_model *m, bool is_duplicate) {
        const struct model_key key = key_of(m);

        if (is_duplicate || m->n_versions == 0)
                add_key(index, &key, is_duplicate);
        add_versions(index, m, false);
}

/* Which models are twice there can change as well. `found` NULL: there is no directory. */
static bool note_twins(struct repo *r, const struct listed_model *m, const struct repo_scan *scan,
                       const struct found_model *found) {
        const struct model_key key = key_of(m);
        struct repo_entry     *e;

        if (m->is_duplicate == (found != NULL && found->is_duplicate))
                return m->is_duplicate;
        MUTEX_GUARD(&r->table.lock);
        e = repo_table_find_locked(&r->table, &key);
        if (e == NULL)
                return found != NULL && found->is_duplicate;
        repo_entry_note_twins_locked(e, scan, found);
        return e->is_duplicate;
}

static int compare(const struct model_key *a, const struct model_key *b) {
        int order = strcmp(a->name, b->name);

        return order != 0 ? order : strcmp(a->namespace, b->namespace);
}

/* Models that nobody ever asked for are in no table: the directories tell. Both lists are sorted. */
static void merge(struct repo *r, struct repo_index *index) {
        const struct repo_scan *scan = index->scan;
        size_t                  k = 0;

        for (size_t i = 0; i < index->n_models; i++) {
                const struct listed_model *m = index->models[i];
                const struct found_model  *found = NULL;
                const struct model_key     key = key_of(m);
                int                        order = 1;

                while (k < scan->n_models &&
                       (order = compare(&scan->models[k].key, &key)) < 0) {
                        add_key(index, &scan->models[k].key, scan->models[k].is_duplicate);
                        k++;
                }
                if (k < scan->n_models && order == 0)
                        found = &scan->models[k++];
                add_model(index, m, note_twins(r, m, scan, found));
        }
        for (; k < scan->n_models; k++)
                add_key(index, &scan->models[k].key, scan->models[k].is_duplicate);
}

static int by_key(const void *a, const void *b) {
        const struct model_key x = key_of(*(struct listed_model *const *)a);
        const struct model_key y = key_of(*(struct listed_model *const *)b);

        return compare(&x, &y);
}

/* Directories are read before the table is looked at, so that what is loaded meanwhile is not taken
 * for unknown. */
void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret) {
        *ret = (struct repo_index){ 0 };
        if (!only_ready && r->is_followed) {
                ret->scan = mem_zalloc(sizeof(*ret->scan));
                repo_scan_read(r, ret->scan);
        }
        ret->models = repo_table_list(&r->table, &ret->n_models);
        if (ret->n_models > 1)
                qsort(ret->models, ret->n_models, sizeof(struct listed_model *), by_key);
        if (ret->scan != NULL) {
                merge(r, ret);
                return;
        }
        for (size_t i = 0; i < ret->n_models; i++)
                if (only_ready)
                        add_versions(ret, ret->models[i], true);
                else
                        add_model(ret, ret->models[i], ret->models[i]->is_duplicate);
}

void repo_index_done(struct repo_index *index) {
        for (size_t i = 0; i < index->n_models; i++)
                listed_model_unref(index->models[i]);
        free(index->models);
        if (index->scan != NULL)
                repo_scan_done(index->scan);
        free(index->scan);
        free(index->entries);
}
