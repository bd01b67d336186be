/* SPDX-License-Identifier: BSD-3-Clause */
/* A named, typed value: request and response parameters, load parameters, metric labels.
 *
 * Ownership.  parameter_new() allocates one on the heap, freed by parameter_free()
 * (TRITONSERVER_Parameter); those of requests and responses live in their arenas. Names and strings are
 * copied; the bytes of a BYTES parameter are borrowed.
 */
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_ParameterType. */
enum parameter_type {
        PARAMETER_STRING = 0,
        PARAMETER_INT = 1,
        PARAMETER_BOOL = 2,
        PARAMETER_DOUBLE = 3,
        PARAMETER_BYTES = 4,
};

struct parameter {
        const char         *name;
        enum parameter_type type;
        union {
                const char *string;
                int64_t     integer;
                bool        boolean;
                double      real;
                const void *bytes; /* borrowed */
        };
        uint64_t          n_bytes; /* size of `bytes` */
        struct arena_room room;    /* memory of the string in a list */
        struct parameter *next;    /* in the list of its request or response */
};

/* Parameters in order of creation. */
struct parameter_list {
        struct parameter *first;
        struct parameter *last;
        uint32_t          n;
};

/* Returns NULL for an invalid type, for PARAMETER_BYTES, and when memory is short (clients choose the
 * size of names and texts, so this must not end the process). `value` points to char, int64_t, bool or
 * double. */
struct parameter *parameter_new(const char *name, enum parameter_type type, const void *value);
struct parameter *parameter_new_bytes(const char *name, const void *bytes, uint64_t n_bytes);
void              parameter_free(struct parameter *p);

/* Appends a copy that lives in the arena; false when the arena is full. */
bool parameter_list_add(struct parameter_list *l, struct arena *a, const struct parameter *p)
        NODISCARD;
/* Appends `p` itself, which must live as long as the list. */
void parameter_list_link(struct parameter_list *l, struct parameter *p);
/* As parameter_list_add(), but overwrites the parameter of that name, if there is one, so that a list
 * that is set again and again does not grow. */
bool parameter_list_set(struct parameter_list *l, struct arena *a, const struct parameter *p)
        NODISCARD;
/* NULL when there is no parameter of that name. */
struct parameter *parameter_list_find(const struct parameter_list *l, const char *name);
/* NULL beyond the end. */
const struct parameter *parameter_list_at(const struct parameter_list *l, uint32_t index);
/* Pointer to the value in the form that the C API returns. */
const void *parameter_value(const struct parameter *p);
/* "STRING", "INT", "BOOL", "DOUBLE", "BYTES", "<invalid>". */
const char *parameter_type_name(enum parameter_type type);
