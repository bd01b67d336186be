/* SPDX-License-Identifier: BSD-3-Clause */
/* A table for a terminal: columns as wide as what is in them, numbers to the right.
 *
 *     text_table_init(&t, 3);
 *     text_table_put(&t, "MODEL"); ... the first row is the head
 *     text_table_print(&t, &out);
 *
 * Ownership.  The table copies its cells; text_table_done() frees.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stddef.h>

#define TEXT_TABLE_MAX_COLUMNS 16

struct text_table {
        size_t n_columns;
        bool   is_right[TEXT_TABLE_MAX_COLUMNS]; /* columns of numbers; set after init */
        char **cells;                            /* owned, and each; row by row */
        size_t n_cells;
        size_t cap_cells;
};

void text_table_init(struct text_table *t, size_t n_columns);
void text_table_done(struct text_table *t);

/* The next cell. Control characters become blanks, so that a text of a peer stays on its line. */
void text_table_put(struct text_table *t, struct str text);
void text_table_printf(struct text_table *t, const char *format, ...) PRINTF_LIKE(2, 3);

/* Columns that are empty in all rows but the head are left out, and no line ends in blanks. */
void text_table_print(const struct text_table *t, struct strbuf *out);
