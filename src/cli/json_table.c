/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/json_table.h"

#include "codec/json_find.h"

void json_table_init(struct json_table *t, const struct json_column *columns, size_t n_columns,
                     struct arena *arena) {
        t->columns = columns;
        t->arena = arena;
        for (size_t i = 0; i < MIN(n_columns, TEXT_TABLE_MAX_COLUMNS); i++)
                t->heads[i] = (struct text_column){ columns[i].head, columns[i].align };
        text_table_init(&t->text, t->heads, n_columns);
}

static void add_row(struct json_table *t, const struct json_row *row) {
        for (size_t i = 0; i < t->text.n_columns; i++)
                t->columns[i].cell(row, t->columns[i].path, t->columns[i].second, &t->text);
}

size_t json_table_add(struct json_table *t, struct str answer, const struct json_rows *rows) {
        struct json_row  row = { .label = str_of(rows->label), .arena = t->arena };
        struct json_list outer =
                json_list_of(*rows->outer != '\0' ? json_find(answer, rows->outer) : answer);
        struct json_list inner;
        size_t           n = 0;

        while (json_list_next(&outer, &row.object)) {
                if (rows->inner == NULL) {
                        add_row(t, &row);
                        n++;
                        continue;
                }
                row.parent = row.object;
                inner = json_list_of(json_find(row.parent, rows->inner));
                for (; json_list_next(&inner, &row.object); n++)
                        add_row(t, &row);
        }
        return n;
}

void json_table_end(struct json_table *t, struct strbuf *out) {
        if (out != NULL)
                text_table_print(&t->text, out);
        text_table_done(&t->text);
}

/* ---- cells ----------------------------------------------------------------------------------- */

#define CELL(name)                                                                                 \
        void cell_##name(const struct json_row *row UNUSED, const char *path UNUSED,               \
                         const char *second UNUSED, struct text_table *t)

CELL(text) {
        text_table_put(t, json_find_text(row->object, path, row->arena));
}

CELL(text_of_parent) {
        text_table_put(t, json_find_text(row->parent, path, row->arena));
}

CELL(label) {
        text_table_put(t, row->label);
}

CELL(json) {
        text_table_put(t, json_find(row->object, path));
}

CELL(count) {
        text_table_put_count(t, json_find_count(row->object, path));
}

CELL(count_or_blank) {
        if (json_find_count(row->object, path) > 0)
                text_table_put_count(t, json_find_count(row->object, path));
        else
                text_table_put(t, STR_LIT(""));
}

CELL(range) {
        uint64_t from = json_find_count(row->object, path);
        uint64_t to = json_find_count(row->object, second);

        if (from == to)
                text_table_put_count(t, from);
        else
                text_table_printf(t, "%llu-%llu", (unsigned long long)from, (unsigned long long)to);
}

CELL(ns) {
        text_table_put_duration(t, (double)json_find_count(row->object, path));
}

CELL(us) {
        text_table_put_duration(t, (double)json_find_count(row->object, path) * 1e3);
}

CELL(mean) {
        uint64_t n = json_find_count(row->object, second);

        if (n > 0)
                text_table_put_duration(t, (double)json_find_count(row->object, path) / (double)n);
        else
                text_table_put(t, STR_LIT("-"));
}

CELL(ratio) {
        uint64_t n = json_find_count(row->object, second);

        if (n > 0)
                text_table_printf(t, "%.2f",
                                  (double)json_find_count(row->object, path) / (double)n);
        else
                text_table_put(t, STR_LIT("-"));
}
