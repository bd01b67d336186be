/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/parameter.h"

#include "base/mem.h"
#include "infer/memory.h"

#include <string.h>

const char *memory_type_name(enum memory_type type) {
        switch (type) {
        case MEMORY_CPU:
                return "CPU";
        case MEMORY_CPU_PINNED:
                return "CPU_PINNED";
        case MEMORY_GPU:
                return "GPU";
        }
        return "<invalid>";
}

const char *parameter_type_name(enum parameter_type type) {
        switch (type) {
        case PARAMETER_STRING:
                return "STRING";
        case PARAMETER_INT:
                return "INT";
        case PARAMETER_BOOL:
                return "BOOL";
        case PARAMETER_DOUBLE:
                return "DOUBLE";
        case PARAMETER_BYTES:
                return "BYTES";
        }
        return "<invalid>";
}

struct parameter *parameter_new(const char *name, enum parameter_type type, const void *value) {
        struct parameter p = { .type = type };

        switch (type) {
        case PARAMETER_STRING:
                p.string = mem_strdup(value);
                break;
        case PARAMETER_INT:
                p.integer = *(const int64_t *)value;
                break;
        case PARAMETER_BOOL:
                p.boolean = *(const bool *)value;
                break;
        case PARAMETER_DOUBLE:
                p.real = *(const double *)value;
                break;
        case PARAMETER_BYTES:
        default:
                return NULL;
        }
        p.name = mem_strdup(name);

        struct parameter *copy = mem_alloc(sizeof(*copy));

        *copy = p;
        return copy;
}

struct parameter *parameter_new_bytes(const char *name, const void *bytes, uint64_t n_bytes) {
        struct parameter *p = mem_zalloc(sizeof(*p));

        p->name = mem_strdup(name);
        p->type = PARAMETER_BYTES;
        p->bytes = bytes;
        p->n_bytes = n_bytes;
        return p;
}

void parameter_free(struct parameter *p) {
        if (p == NULL)
                return;
        if (p->type == PARAMETER_STRING)
                free((char *)p->string);
        free((char *)p->name);
        free(p);
}

static const char *keep_text(struct arena *a, const char *text) {
        size_t bytes = strlen(text) + 1;
        char  *copy = arena_try_alloc(a, bytes);

        return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

bool parameter_list_add(struct parameter_list *l, struct arena *a, const struct parameter *p) {
        struct parameter *copy = arena_try_alloc(a, sizeof(*copy));

        if (copy == NULL)
                return false;
        *copy = *p;
        copy->name = keep_text(a, p->name);
        copy->next = NULL;
        if (p->type == PARAMETER_STRING)
                copy->string = keep_text(a, p->string);
        if (copy->name == NULL || (p->type == PARAMETER_STRING && copy->string == NULL))
                return false;
        if (l->last != NULL)
                l->last->next = copy;
        else
                l->first = copy;
        l->last = copy;
        l->n++;
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
        case PARAMETER_STRING:
                return p->string;
        case PARAMETER_INT:
                return &p->integer;
        case PARAMETER_BOOL:
                return &p->boolean;
        case PARAMETER_DOUBLE:
                return &p->real;
        case PARAMETER_BYTES:
                return p->bytes;
        }
        return NULL;
}
