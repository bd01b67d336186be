/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/label_list.h"

#include "base/mem.h"

#include <string.h>

void label_list_add(struct label_list *l, const char *label) {
        l->items = mem_realloc(l->items, (l->n + 1) * sizeof(char *));
        l->items[l->n++] = mem_strdup(label);
}

bool label_list_has(const struct label_list *l, const char *label) {
        for (size_t i = 0; i < l->n; i++)
                if (strcmp(l->items[i], label) == 0)
                        return true;
        return false;
}

void label_list_take(struct label_list *l, struct label_list *from) {
        l->items = mem_realloc(l->items, (l->n + from->n + 1) * sizeof(char *));
        for (size_t i = 0; i < from->n; i++)
                l->items[l->n++] = from->items[i];
        free(from->items);
        *from = (struct label_list){ 0 };
}

void label_list_done(struct label_list *l) {
        for (size_t i = 0; i < l->n; i++)
                free(l->items[i]);
        free(l->items);
        *l = (struct label_list){ 0 };
}
