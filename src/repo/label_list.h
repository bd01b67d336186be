/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of labels or names of models (repo/model_key.h).
 *
 * Ownership.  The list owns its texts.
 * Threads.  One owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct label_list {
        char **items;
        size_t n;
};

void label_list_add(struct label_list *l, const char *label); /* copies it */
bool label_list_has(const struct label_list *l, const char *label);
/* Moves the texts of `from` to the end of the list. */
void label_list_take(struct label_list *l, struct label_list *from);
void label_list_done(struct label_list *l);
