/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_catalog.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "repo/repo_inside.h"

void repo_catalog_unref(struct repo_catalog *c) {
        if (c == NULL || !ref_put(&c->ref))
                return;
        repo_scan_done(&c->scan);
        free(c->lines);
        free(c->texts);
        free(c->stamps);
        free(c);
}

/* The paths, their number in the new catalog, and a reference to what is kept (NULL: nothing). */
static char **copy_paths(struct repo *r, struct repo_catalog *c, struct repo_catalog **ret_kept) {
        char **paths;

        MUTEX_GUARD(&r->table.lock);
        paths = mem_zalloc((r->n_paths + 1) * sizeof(*paths));
        for (size_t i = 0; i < r->n_paths; i++)
                paths[i] = mem_strdup(r->paths[i].path);
        c->n_stamps = r->n_paths;
        c->n_path_changes = r->n_path_changes;
        *ret_kept = r->catalog;
        if (r->catalog != NULL)
                ref_get(&r->catalog->ref);
        return paths;
}

/* Will they show the next change? */
static bool read_stamps(struct repo_catalog *c, char **paths, uint64_t wall_ns) {
        bool are_settled = true;

        c->stamps = mem_zalloc((c->n_stamps + 1) * sizeof(*c->stamps));
        for (size_t i = 0; i < c->n_stamps; i++) {
                AUTO_ERROR err = dir_stamp_read(paths[i], &c->stamps[i]);

                are_settled = are_settled && err == NULL &&
                              dir_stamp_is_settled(&c->stamps[i], wall_ns);
        }
        return are_settled;
}

static bool is_the_same(const struct repo_catalog *a, const struct repo_catalog *b) {
        if (a->n_path_changes != b->n_path_changes || a->n_stamps != b->n_stamps)
                return false;
        for (size_t i = 0; i < a->n_stamps; i++)
                if (!dir_stamp_is_equal(&a->stamps[i], &b->stamps[i]))
                        return false;
        return true;
}

static void print_lines(struct repo_catalog *c) {
        AUTO_STRBUF texts = { 0 };

        strbuf_init(&texts, 0);
        c->lines = mem_zalloc((c->scan.n_models + 1) * sizeof(*c->lines));
        for (size_t i = 0; i < c->scan.n_models; i++) {
                const struct found_model     *m = &c->scan.models[i];
                const struct repo_index_entry e = index_entry_of_key(&m->key, m->is_duplicate);

                c->lines[i] = index_line_append(&texts, &e);
        }
        c->texts = index_lines_take(&texts);
}

/* Whichever was read last stays. */
static void keep(struct repo *r, struct repo_catalog *c) {
        struct repo_catalog *old;

        ref_get(&c->ref);
        mutex_lock(&r->table.lock);
        old = r->catalog;
        r->catalog = c;
        mutex_unlock(&r->table.lock);
        repo_catalog_unref(old);
}

/* Stamps are read before the directories are: what changes in between leaves another one. */
struct repo_catalog *repo_catalog_get(struct repo *r, uint64_t wall_ns) {
        struct repo_catalog *c = mem_zalloc(sizeof(*c)), *kept;
        char               **paths = copy_paths(r, c, &kept);
        bool                 are_settled = read_stamps(c, paths, wall_ns);

        ref_init(&c->ref);
        for (size_t i = 0; i < c->n_stamps; i++)
                free(paths[i]);
        free(paths);
        if (kept != NULL && are_settled && is_the_same(kept, c)) {
                repo_catalog_unref(c);
                return kept;
        }
        repo_catalog_unref(kept);
        repo_scan_read(r, &c->scan);
        print_lines(c);
        if (are_settled && c->texts != NULL && c->scan.n_failures == 0 && !c->scan.has_links)
                keep(r, c);
        return c;
}
