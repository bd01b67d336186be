/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/settings.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

/* Takes the texts. The operator chooses the number of settings, not peers, so growing by one each time
 * is cheap enough. */
static void settings_push(struct settings *s, struct setting item) {
        s->items = mem_realloc(s->items, (s->n_items + 1) * sizeof(*s->items));
        s->items[s->n_items++] = item;
}

void settings_add(struct settings *s, const char *group, const char *name, const char *value) {
        settings_push(s,
                      (struct setting){ mem_strdup(group), mem_strdup(name), mem_strdup(value) });
}

void settings_add_all(struct settings *s, const struct setting *items, size_t n_items) {
        for (size_t i = 0; i < n_items; i++)
                settings_add(s, items[i].group, items[i].name, items[i].value);
}

bool settings_read(struct settings *s, const char *text) {
        struct str left, group;
        struct str value = str_split(str_of(text), '=', &left);
        struct str name = str_split(left, ',', &group);

        if (name.ptr == NULL) {
                name = group;
                group = STR_LIT("");
        }
        if (value.ptr == NULL || name.len == 0)
                return false;
        settings_push(s, (struct setting){ mem_strndup(group.ptr, group.len),
                                           mem_strndup(name.ptr, name.len),
                                           mem_strndup(value.ptr, value.len) });
        return true;
}

const char *settings_find(const struct settings *s, const char *group, const char *name) {
        for (size_t i = s->n_items; i-- > 0;)
                if (strcmp(s->items[i].group, group) == 0 && strcmp(s->items[i].name, name) == 0)
                        return s->items[i].value;
        return NULL;
}

void settings_done(struct settings *s) {
        for (size_t i = 0; i < s->n_items; i++) {
                free((char *)(uintptr_t)s->items[i].group);
                free((char *)(uintptr_t)s->items[i].name);
                free((char *)(uintptr_t)s->items[i].value);
        }
        free(s->items);
        *s = (struct settings){ 0 };
}
