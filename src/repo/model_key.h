/* SPDX-License-Identifier: BSD-3-Clause */
/* What tells one model from all others: its name, and its namespace where there are any.
 *
 * With --model-namespacing each repository is a namespace, by its path, and the same name may be
 * that of several models. Without, all namespaces are "".
 *
 * Ownership.  Borrows its texts.
 */
#pragma once

struct model_key {
        const char *namespace;
        const char *name;
};

/* As strcmp(): by name, then namespace, the order in which everything is listed. */
int model_key_compare(const struct model_key *a, const struct model_key *b);
/* For texts: "<namespace>::<name>", or the name alone; owned by the caller. */
char *model_key_label(const struct model_key *key);
