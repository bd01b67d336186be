/* SPDX-License-Identifier: BSD-3-Clause */
/* A folder of its own for one test, with files in it.
 *
 * Ownership.  temp_tree_remove() removes the folder with all that is in it.
 */
#pragma once

#include <stddef.h>

struct temp_tree {
        char *path; /* owned; absolute */
};

struct temp_tree temp_tree_make(void);
void             temp_tree_remove(struct temp_tree *t);

/* These make the folders that lead to the last name. */
void temp_tree_folder(const struct temp_tree *t, const char *relative);
void temp_tree_write(const struct temp_tree *t, const char *relative, const char *text);
void temp_tree_write_bytes(const struct temp_tree *t, const char *relative, const void *bytes,
                           size_t n);
void temp_tree_copy(const struct temp_tree *t, const char *from, const char *relative);

void  temp_tree_unlink(const struct temp_tree *t, const char *relative); /* one file */
char *temp_tree_path(const struct temp_tree *t, const char *relative);   /* owned by the caller */
