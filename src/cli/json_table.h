/* SPDX-License-Identifier: BSD-3-Clause */
/* A table for a terminal from the objects of a JSON array. A column names the member that it shows and
 * the form of its cells:
 *
 *     static const struct json_column columns[] = {
 *             { "MODEL", TEXT_LEFT, cell_text, .path = "name" },
 *             { "QUEUE", TEXT_RIGHT, cell_mean, .path = "queue.ns", .second = "queue.count" },
 *     };
 *
 *     json_table_init(&t, columns, ARRAY_LEN(columns), &arena);
 *     json_table_add(&t, answer, &(struct json_rows){ .outer = "models" });
 *     json_table_end(&t, &out);
 *
 * Ownership.  The table borrows the columns, and the answer until json_table_end().
 */
#pragma once

#include "base/arena.h"
#include "cli/text_table.h"

/* What the cells of a row are made from. */
struct json_row {
        struct str    object;
        struct str    parent; /* the element of the outer array that the row is in */
        struct str    label;  /* that of struct json_rows */
        struct arena *arena;  /* borrowed */
};

/* Puts one cell; `path` and `second` are those of the column. */
typedef void json_cell_fn(const struct json_row *row, const char *path, const char *second,
                          struct text_table *t);

struct json_column {
        const char     *head;
        enum text_align align;
        json_cell_fn   *cell;
        const char     *path, *second;
};

/* The arrays that rows come from. */
struct json_rows {
        const char *outer; /* path of an array in the answer; "": the answer itself */
        const char *inner; /* path of an array in each of its elements; NULL: they are the rows */
        const char *label; /* for cell_label(); NULL: none */
};

struct json_table {
        const struct json_column *columns; /* borrowed */
        struct text_column        heads[TEXT_TABLE_MAX_COLUMNS];
        struct text_table         text;
        struct arena             *arena; /* borrowed */
};

void json_table_init(struct json_table *t, const struct json_column *columns, size_t n_columns,
                     struct arena *arena);
/* Adds a row for each element. Returns their number. */
size_t json_table_add(struct json_table *t, struct str answer, const struct json_rows *rows);
void json_table_end(struct json_table *t, struct strbuf *out); /* prints it; `out` NULL: does not */

/* Forms of cells. A missing member is an empty text or 0. */
json_cell_fn cell_text, cell_text_of_parent, cell_label;
json_cell_fn cell_json; /* as it is written */
json_cell_fn cell_count;
json_cell_fn cell_count_or_blank; /* empty for 0 */
json_cell_fn cell_range;          /* "1-8", or "4" for 4 to 4 */
json_cell_fn cell_ns, cell_us;    /* durations */
/* The duration `path`, in ns, divided by the count `second`; "-" when that is 0. */
json_cell_fn cell_mean;
/* The same of two counts, with two digits after the point. */
json_cell_fn cell_ratio;
