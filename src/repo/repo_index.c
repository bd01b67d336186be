/* SPDX-License-Identifier: BSD-3-Clause */
/* The index: the versions in the table, and models that only exist as directories. Both lists are
 * sorted by name, then namespace. They are merged under the table's lock; only texts are copied
 * there. The directories are read before that, so that a model that is loaded meanwhile does not
 * count as unknown. The JSON is printed after it. */
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/json_writer.h"
#include "repo/repo.h"
#include "repo/repo_private.h"
#include "store/store_copy.h"

#include <stdio.h>

static struct repo_index_entry *add_entry(struct repo_index *index, const struct model_key *key) {
        index->entries = mem_grow(index->entries, index->n_entries, sizeof(index->entries[0]));
        index->entries[index->n_entries] = (struct repo_index_entry){ .name = key->name,
                                                                      .namespace = key->namespace,
                                                                      .version = -1 };
        return &index->entries[index->n_entries++];
}

/* "fetching 's3://bucket/m': 1048576 of 8388608 bytes", in the arena; NULL: nothing is fetched. */
static const char *print_progress_locked(struct repo_index *index, const struct repo_entry *e) {
        uint64_t done, total;

        if (e->fetching == NULL || !store_copy_progress(e->fetching, &done, &total))
                return NULL;
        return arena_printf(&index->texts, "fetching '%s': %llu of %llu bytes",
                            e->fetching->address, (unsigned long long)done,
                            (unsigned long long)total);
}

/* Adds the row of a model without versions, or the first row of a duplicate. */
static struct repo_index_entry *add_model(struct repo_index *index, const struct model_key *key,
                                          bool is_duplicate) {
        struct repo_index_entry *entry = add_entry(index, key);

        if (is_duplicate) {
                entry->state = VERSION_UNAVAILABLE;
                entry->reason = "model appears in two or more repositories";
        }
        return entry;
}

/* The row of a model without versions. While its files are fetched, it is known that it loads, but not
 * yet which versions. */
static void add_bare_locked(struct repo_index *index, const struct model_key *key,
                            const struct repo_entry *e) {
        struct repo_index_entry *entry = add_model(index, key, e->is_duplicate);

        if (e->is_duplicate || e->fetching == NULL)
                return;
        entry->state = VERSION_LOADING;
        entry->reason = print_progress_locked(index, e);
}

/* A blocked version is UNAVAILABLE in the index, with the reason. */
static void add_version_locked(struct repo_index *index, const struct model_key *key,
                               const struct repo_version *v, bool only_ready) {
        const char              *reason = v->blocked != NULL ? v->blocked : v->reason;
        enum version_state       state = v->blocked != NULL ? VERSION_UNAVAILABLE : v->state;
        struct repo_index_entry *entry;

        if (only_ready && state != VERSION_READY)
                return;
        entry = add_entry(index, key);
        entry->version = v->number;
        entry->state = state;
        entry->reason = reason != NULL ? arena_strdup(&index->texts, reason) : NULL;
}

static void add_entry_locked(struct repo_index *index, const struct repo_entry *e,
                             bool only_ready) {
        const struct model_key key = {
                .namespace = *e->namespace != '\0' ? arena_strdup(&index->texts, e->namespace) : "",
                .name = arena_strdup(&index->texts, e->name),
        };

        if (!only_ready && (e->is_duplicate || (e->n_versions == 0 && !e->is_versionless)))
                add_bare_locked(index, &key, e);
        for (size_t i = 0; i < e->n_versions; i++)
                add_version_locked(index, &key, &e->versions[i], only_ready);
}

/* Adds the models before `key` (NULL: all that are left) that exist only as directories. Returns
 * the directory of the key itself, or NULL. */
static const struct found_model *add_found_before(struct repo_index *index, size_t *at,
                                                  const struct model_key *key) {
        const struct repo_scan *scan = &index->scan;
        int                     order = -1;

        while (*at < scan->n_models) {
                const struct found_model *found = &scan->models[*at];

                if (key != NULL)
                        order = model_key_compare(&found->key, key);
                if (order > 0)
                        return NULL;
                ++*at;
                if (order == 0)
                        return found;
                add_model(index, &found->key, found->is_duplicate);
        }
        return NULL;
}

/* Also updates the duplicates, which may have changed since the last load or poll. */
static void merge_locked(struct repo *r, struct repo_index *index) {
        size_t at = 0;

        for (size_t i = 0; i < r->table.n_entries; i++) {
                struct repo_entry     *e = r->table.sorted[i];
                const struct model_key key = repo_entry_key(e);

                repo_entry_note_duplicate_locked(e, &index->scan,
                                                 add_found_before(index, &at, &key));
                add_entry_locked(index, e, false);
        }
        add_found_before(index, &at, NULL);
}

void repo_index_read(struct repo *r, bool only_ready, struct repo_index *ret) {
        bool looks_at_files = r->is_followed && !only_ready;

        *ret = (struct repo_index){ 0 };
        arena_init(&ret->texts, NULL, 0, 0);
        if (looks_at_files)
                repo_scan_read_recent(r, true, &ret->scan);
        MUTEX_GUARD(&r->table.lock);
        if (looks_at_files) {
                merge_locked(r, ret);
                return;
        }
        for (size_t i = 0; i < r->table.n_entries; i++)
                add_entry_locked(ret, r->table.sorted[i], only_ready);
}

static void print_line(struct json_writer *w, const struct repo_index_entry *e) {
        char version[24]; /* a 64-bit number has at most 20 characters */

        json_begin_object(w);
        json_member_string(w, "name", e->name);
        if (e->version >= 0) {
                snprintf(version, sizeof(version), "%lld", (long long)e->version);
                json_member_string(w, "version", version);
        }
        if (e->state != VERSION_UNKNOWN) {
                json_member_string(w, "state", version_state_name(e->state));
        }
        if (e->reason != NULL) {
                json_member_string(w, "reason", e->reason);
        }
        json_end_object(w);
}

void repo_index_print(const struct repo_index *index, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_array(&w);
        for (size_t i = 0; i < index->n_entries; i++)
                print_line(&w, &index->entries[i]);
        json_end_array(&w);
}

void repo_index_done(struct repo_index *index) {
        free(index->entries);
        arena_done(&index->texts);
        repo_scan_done(&index->scan);
}
