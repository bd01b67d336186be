/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_listing.h"

#include "base/mem.h"

#include <string.h>

struct store_listing *store_listing_new(struct store_list *list) {
        struct store_listing *l = mem_zalloc(sizeof(*l));

        ref_init(&l->ref);
        l->list = *list;
        *list = (struct store_list){ 0 };
        store_list_sort(&l->list);
        return l;
}

struct store_listing *store_listing_ref(struct store_listing *l) {
        if (l != NULL)
                ref_get(&l->ref);
        return l;
}

void store_listing_unref(struct store_listing *l) {
        if (l == NULL || !ref_put(&l->ref))
                return;
        store_list_done(&l->list);
        free(l);
}

/* Compares the beginning of a name with "<directory>/". */
static int compare_top(const char *name, const char *directory, size_t len) {
        int order = strncmp(name, directory, len);

        return order != 0 ? order : (unsigned char)name[len] - '/';
}

/* Returns the index of the first entry of the directory; with `after`, of the first entry after them. */
static size_t find_bound(const struct store_list *list, const char *directory, bool after) {
        size_t begin = 0, end = list->n_entries, len = strlen(directory);

        while (begin < end) {
                size_t middle = begin + (end - begin) / 2;
                int    order = compare_top(list->entries[middle].name, directory, len);

                if (order < 0 || (after && order == 0))
                        begin = middle + 1;
                else
                        end = middle;
        }
        return begin;
}

const struct store_entry *store_listing_find(const struct store_listing *l, const char *directory,
                                             size_t *ret_n) {
        size_t begin = find_bound(&l->list, directory, false);

        *ret_n = find_bound(&l->list, directory, true) - begin;
        return *ret_n > 0 ? l->list.entries + begin : NULL;
}

struct str store_entry_top(const struct store_entry *e) {
        const char *slash = strchr(e->name, '/');

        if (slash != NULL)
                return str_range(e->name, (size_t)(slash - e->name));
        return e->is_directory ? str_of(e->name) : (struct str){ 0 };
}
