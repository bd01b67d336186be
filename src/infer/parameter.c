/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/parameter.h"

#include "base/mem.h"

#include <string.h>

const char *parameter_type_name(enum parameter_type type) {
        switch (type) {
        case PARAMETER_STRING: return "STRING";
        case PARAMETER_INT: return "INT";
        case PARAMETER_BOOL: return "BOOL";
        case PARAMETER_DOUBLE: return "DOUBLE";
        case PARAMETER_BYTES: return "BYTES";
        }
        return "<invalid>";
}

static char *try_copy(const char *text) {
        size_t bytes = strlen(text) + 1;
        char  *copy = try_alloc(bytes);

        return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

/* Copies `p` and its name; takes its string. */
static struct parameter *new_copy(const struct parameter *p) {
        struct parameter *copy = try_alloc(sizeof(*copy));
        char             *name = copy != NULL ? try_copy(p->name) : NULL;

        if (name == NULL) {
                if (p->type == PARAMETER_STRING)
                        free((char *)p->string);
                free(copy);
                return NULL;
        }
        *copy = *p;
        copy->name = name;
        return copy;
}

struct parameter *parameter_new(const char *name, enum parameter_type type, const void *value) {
        struct parameter p = { .name = name, .type = type };

        switch (type) {
        case PARAMETER_STRING:
                p.string = try_copy(value);
                if (p.string == NULL)
                        return NULL;
                break;
        case PARAMETER_INT: p.integer = *(const int64_t *)value; break;
        case PARAMETER_BOOL: p.boolean = *(const bool *)value; break;
        case PARAMETER_DOUBLE: p.real = *(const double *)value; break;
        case PARAMETER_BYTES:
        default: return NULL;
        }
        return new_copy(&p);
}

struct parameter *parameter_new_bytes(const char *name, const void *bytes, uint64_t n_bytes) {
        return new_copy(&(struct parameter){
                .name = name, .type = PARAMETER_BYTES, .bytes = bytes, .n_bytes = n_bytes });
}

void parameter_free(struct parameter *p) {
        if (p == NULL)
                return;
        if (p->type == PARAMETER_STRING)
                free((char *)p->string);
        free((char *)p->name);
        free(p);
}

/* Copies the value of `from` to `to`; name, room and position in the list are unchanged. */
static bool set_value(struct parameter *to, struct arena *a, const struct parameter *from) {
        struct parameter copy = *from;

        copy.name = to->name;
        copy.next = to->next;
        copy.room = to->room;
        if (from->type == PARAMETER_STRING) {
                size_t bytes = strlen(from->string) + 1;
                char  *memory = arena_room_get(a, &copy.room, bytes);

                if (memory == NULL)
                        return false;
                copy.string =
                        memmove(memory, from->string, bytes); /* `from` may be this very string */
        }
        *to = copy;
        return true;
}

struct parameter *parameter_list_find(const struct parameter_list *l, const char *name) {
        for (struct parameter *p = l->first; p != NULL; p = p->next)
                if (strcmp(p->name, name) == 0)
                        return p;
        return NULL;
}

bool parameter_list_set(struct parameter_list *l, struct arena *a, const struct parameter *p) {
        struct parameter *there = parameter_list_find(l, p->name);

        return there != NULL ? set_value(there, a, p) : parameter_list_add(l, a, p);
}

void parameter_list_link(struct parameter_list *l, struct parameter *p) {
        p->next = NULL;
        if (l->last != NULL)
                l->last->next = p;
        else
                l->first = p;
        l->last = p;
        l->n++;
}

bool parameter_list_add(struct parameter_list *l, struct arena *a, const struct parameter *p) {
        size_t            name_bytes = strlen(p->name) + 1;
        struct parameter *copy = arena_try_alloc(a, sizeof(*copy));
        char             *name = copy != NULL ? arena_try_alloc(a, name_bytes) : NULL;

        if (name == NULL)
                return false;
        *copy = (struct parameter){ .name = memcpy(name, p->name, name_bytes) };
        if (!set_value(copy, a, p))
                return false;
        parameter_list_link(l, copy);
        return true;
}

const struct parameter *parameter_list_at(const struct parameter_list *l, uint32_t index) {
        const struct parameter *p = l->first;

        while (p != NULL && index-- > 0)
                p = p->next;
        return p;
}

const void *parameter_value(const struct parameter *p) {
        switch (p->type) {
        case PARAMETER_STRING: return p->string;
        case PARAMETER_INT: return &p->integer;
        case PARAMETER_BOOL: return &p->boolean;
        case PARAMETER_DOUBLE: return &p->real;
        case PARAMETER_BYTES: return p->bytes;
        }
        return NULL;
}
