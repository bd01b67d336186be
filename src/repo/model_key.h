/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of a model in the repository: its name, and its namespace.
 *
 * With --model-namespacing each repository is a namespace. The namespace's name is the path of the
 * repository, and models of several namespaces may have the same name. Without --model-namespacing
 * all namespaces are "".
 *
 * Ownership.  Borrows its texts.
 * Threads.  Pure functions.
 */
#pragma once

#include "base/mem.h"

#include <string.h>

struct model_key {
        const char *namespace;
        const char *name;
};

/* Compares as strcmp() does, by name, then by namespace: the order of all lists of models. */
static inline int model_key_compare(const struct model_key *a, const struct model_key *b) {
        int order = strcmp(a->name, b->name);

        return order != 0 ? order : strcmp(a->namespace, b->namespace);
}

/* Returns "<namespace>::<name>" for messages, or the name when the namespace is "". The caller owns
 * the text. */
static inline char *model_key_label(const struct model_key *key) {
        return *key->namespace != '\0' ? mem_printf("%s::%s", key->namespace, key->name)
                                       : mem_strdup(key->name);
}
