/* SPDX-License-Identifier: BSD-3-Clause */
/* A table for a terminal: columns are as wide as their cells.
 *
 *     static const struct text_column columns[] = { { "MODEL", TEXT_LEFT },
 *                                                   { "REQUESTS", TEXT_RIGHT } };
 *
 *     text_table_init(&t, columns, ARRAY_LEN(columns));
 *     text_table_put(&t, name);
 *     text_table_put_count(&t, n_requests);
 *     text_table_print(&t, &out);
 *     text_table_done(&t);
 *
 * Ownership.  The table copies its cells and borrows the columns.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

#define TEXT_TABLE_MAX_COLUMNS 16

enum text_align { TEXT_LEFT, TEXT_RIGHT /* numbers */ };

struct text_column {
        const char     *head;
        enum text_align align;
};

struct text_table {
        const struct text_column *columns; /* borrowed */
        size_t                    n_columns;
        char                    **cells; /* owned, as is each cell; row by row, the heads first */
        size_t                    n_cells;
};

void text_table_init(struct text_table *t, const struct text_column *columns, size_t n_columns);
void text_table_done(struct text_table *t);
#define AUTO_TEXT_TABLE CLEANUP(text_table_done) struct text_table

/* Each adds the next cell. Control characters become blanks: text from a peer stays on its line. */
void text_table_put(struct text_table *t, struct str text);
void text_table_printf(struct text_table *t, const char *format, ...) PRINTF_LIKE(2, 3);
void text_table_put_count(struct text_table *t, uint64_t n);
void text_table_put_duration(struct text_table *t, double ns);

/* Columns that are empty in all rows are left out, and no line ends in blanks. */
void text_table_print(const struct text_table *t, struct strbuf *out);

/* A duration with its unit, three digits: "0", "850 ns", "12.3 us", "4.56 ms", "1.20 s". */
void duration_print(double ns, struct strbuf *out);
