/* SPDX-License-Identifier: BSD-3-Clause */
/* The index: what the table lists, and directories that the table does not know. Both are sorted
 * and merged here, where no lock is held. */
#include "repo/repo.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "repo/index_line.h"
#include "repo/listed_model.h"
#include "repo/repo_catalog.h"
#include "repo/repo_inside.h"

#include <string.h>

static void add(struct repo_index *index, const struct repo_index_entry *entry) {
        if (index->n_entries == index->cap_entries) {
                index->cap_entries = index->cap_entries > 0 ? index->cap_entries * 2 : 16;
                index->entries =
                        mem_realloc(index->entries, index->cap_entries * sizeof(*entry));
        }
        index->entries[index->n_entries++] = *entry;
}

static void add_found(struct repo_index *index, size_t i) {
        const struct found_model *found = &index->catalog->scan.models[i];
        struct repo_index_entry   line = index_entry_of_key(&found->key, found->is_duplicate);

        line.line = index_line_find(index->catalog->texts, index->catalog->lines[i]);
        add(index, &line);
}

static void add_versions(struct repo_index *index, const struct listed_model *m, bool only_ready) {
        for (size_t i = 0; i < m->n_versions; i++)
                if (!only_ready || m->versions[i].state == VERSION_READY) {
                        const struct repo_index_entry line =
                                listed_model_entry(m, &m->versions[i]);

                        add(index, &line);
                }
}

static void add_model(struct repo_index *index, const struct listed_model *m, bool is_duplicate) {
        const struct model_key  key = listed_model_key(m);
        struct repo_index_entry line = index_entry_of_key(&key, is_duplicate);

        if (is_duplicate == m->is_duplicate)
                line.line = index_line_find(m->texts, m->line);
        if (is_duplicate || (m->n_versions == 0 && !m->is_versionless))
                add(index, &line);
        add_versions(index, m, false);
}

/* Which models are twice there can change as well. `found` NULL: there is no directory. */
static bool note_twins(struct repo *r, const struct listed_model *m, const struct repo_scan *scan,
                       const struct found_model *found) {
        const struct model_key key = listed_model_key(m);
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

/* Models that nobody ever asked for are in no table: the directories tell. Both lists are sorted. */
static void merge(struct repo *r, struct repo_index *index) {
        const struct repo_scan *scan = &index->catalog->scan;
        size_t                  k = 0;

        for (size_t i = 0; i < index->n_models; i++) {
                const struct listed_model *m = index->models[i];
                const struct found_model  *found = NULL;
                const struct model_key     key = listed_model_key(m);
                int                        order = 1;

                while (k < scan->n_models &&
                       (order = model_key_compare(&scan->models[k].key, &key)) < 0)
                        add_found(index, k++);
                if (k < scan->n_models && order == 0)
                        found = &scan->models[k++];
                add_model(index, m, note_twins(r, m, scan, found));
        }
        while (k < scan->n_models)
                add_found(index, k++);
}

/* Directories are read before the table is looked at, so that what is loaded meanwhile is not taken
 * for unknown. */
void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret) {
        *ret = (struct repo_index){ 0 };
        if (!only_ready && r->is_followed)
                ret->catalog = repo_catalog_get(r, clock_wall_ns());
        ret->models = repo_table_list(&r->table, &ret->n_models);
        if (ret->catalog != NULL) {
                merge(r, ret);
                return;
        }
        for (size_t i = 0; i < ret->n_models; i++)
                if (only_ready)
                        add_versions(ret, ret->models[i], true);
                else
                        add_model(ret, ret->models[i], ret->models[i]->is_duplicate);
}

void repo_index_print(const struct repo_index *index, struct strbuf *out) {
        size_t bytes = 2;

        for (size_t i = 0; i < index->n_entries; i++)
                bytes += index->entries[i].line.len + 1;
        strbuf_reserve(out, bytes);
        strbuf_putc(out, '[');
        for (size_t i = 0; i < index->n_entries; i++) {
                const struct repo_index_entry *e = &index->entries[i];

                if (i > 0)
                        strbuf_putc(out, ',');
                if (e->line.len > 0)
                        strbuf_put(out, e->line.ptr, e->line.len);
                else
                        index_line_print(out, e);
        }
        strbuf_putc(out, ']');
}

void repo_index_done(struct repo_index *index) {
        for (size_t i = 0; i < index->n_models; i++)
                listed_model_unref(index->models[i]);
        free(index->models);
        repo_catalog_unref(index->catalog);
        free(index->entries);
}
