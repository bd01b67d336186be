/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_copy.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store.h"
#include "store/store_cache.h"
#include "store/store_folder.h"
#include "store/store_kind.h"
#include "store/store_listing.h"

#include <string.h>

struct store_copy *store_copy_new(struct store *s, struct store_listing *l, const char *name) {
        struct store_copy *c = mem_zalloc(sizeof(*c));

        ref_init(&c->ref);
        c->store = store_ref(s);
        c->listing = store_listing_ref(l);
        c->name = mem_strdup(name);
        c->address = store_kind_describe(s, name);
        store_fetch_init(&c->fetch, s);
        return c;
}

struct store_copy *store_copy_ref(struct store_copy *c) {
        if (c != NULL)
                ref_get(&c->ref);
        return c;
}

/* What no copy uses any more can be evicted from then on. */
static void remove_directory(struct store_copy *c) {
        AUTO_ERROR err = NULL;

        if (c->directory == NULL)
                return;
        err = dir_remove(c->directory);
        if (err != NULL)
                log_warn("%s", err->message);
        free(STEAL(c->directory));
        store_cache_drop_unused(c->store->cache);
        store_cache_evict(c->store->cache);
}

void store_copy_unref(struct store_copy *c) {
        if (c == NULL || !ref_put(&c->ref))
                return;
        remove_directory(c);
        store_listing_unref(c->listing);
        free(c->name);
        free(c->address);
        store_unref(c->store);
        free(c);
}

const struct store_entry *store_copy_entries(const struct store_copy *c, size_t *ret_n) {
        *ret_n = 0;
        return c->listing != NULL ? store_listing_find(c->listing, c->name, ret_n) : NULL;
}

const char *store_copy_directory(const struct store_copy *c) {
        return c->directory != NULL ? c->directory : "";
}

void store_copy_drop_listing(struct store_copy *c) {
        store_listing_unref(STEAL(c->listing));
}

/* ---- fetches --------------------------------------------------------------------------------- */

static bool is_config(const struct store_copy *c, const struct store_entry *e) {
        const char *name = e->name + strlen(c->name) + 1;

        if (e->is_directory)
                return false;
        return strcmp(name, "config.pbtxt") == 0 ||
               (str_starts(str_of(name), STR_LIT("configs/")) && strchr(name + 8, '/') == NULL);
}

static struct error *fetch(struct store_copy *c, bool only_config, bool *ret_has_changed) {
        size_t                     n_all, n = 0;
        const struct store_entry  *all = store_copy_entries(c, &n_all);
        const struct store_entry **wanted = mem_alloc((n_all + 1) * sizeof(*wanted));
        struct error              *err;

        for (size_t i = 0; i < n_all; i++)
                if (!only_config || is_config(c, &all[i]))
                        wanted[n++] = &all[i];
        err = store_fetch_run(&c->fetch,
                              &(struct store_fetch_options){ .entries = wanted,
                                                             .n_entries = n,
                                                             .n_skipped = strlen(c->name) + 1,
                                                             .directory = c->directory,
                                                             .what = c->address },
                              ret_has_changed);
        free(wanted);
        return err;
}

static struct error *make_directory(struct store_copy *c) {
        return c->directory != NULL ? NULL
                                    : store_folder_make_place(c->store->folder, &c->directory);
}

struct error *store_copy_fetch_config(struct store_copy *c) {
        bool has_changed;

        TRY(make_directory(c));
        return fetch(c, true, &has_changed);
}

/* Begins with another listing, and so in another directory. */
static struct error *list_again(struct store_copy *c) {
        struct store_listing *l;
        size_t                n;

        TRY(store_list_directory(c->store, c->name, &l));
        store_listing_unref(c->listing);
        c->listing = l;
        remove_directory(c);
        (void)store_copy_entries(c, &n);
        if (n == 0)
                return error_new(ERR_NOT_FOUND, "%s: the model was removed from its repository",
                                 c->address);
        return make_directory(c);
}

struct error *store_copy_fetch_all(struct store_copy *c, bool may_change, bool *ret_is_changed) {
        struct error *err;
        bool          has_changed = false;

        *ret_is_changed = false;
        TRY(make_directory(c));
        err = fetch(c, false, &has_changed);
        if (err == NULL || !has_changed || !may_change) {
                store_cache_evict(c->store->cache);
                return err;
        }
        log_info("%s; listing '%s' again", err->message, c->address);
        error_free(err);
        *ret_is_changed = true;
        TRY(list_again(c));
        err = fetch(c, false, &has_changed);
        store_cache_evict(c->store->cache);
        return err;
}

void store_copy_cancel(struct store_copy *c) {
        store_fetch_cancel(&c->fetch);
}

bool store_copy_progress(const struct store_copy *c, uint64_t *ret_done, uint64_t *ret_total) {
        *ret_total = atomic_load(&c->fetch.total_bytes);
        *ret_done = MIN(atomic_load(&c->fetch.done_bytes), *ret_total);
        return *ret_total > 0;
}
