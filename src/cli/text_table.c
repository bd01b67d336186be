/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/text_table.h"

#include "base/mem.h"
#include "load/plain_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GAP 2 /* blanks between columns */

void duration_print(double ns, struct strbuf *out) {
        static const char *const units[] = { "ns", "us", "ms", "s" };
        size_t                   unit = 0;

        if (ns <= 0) {
                strbuf_puts(out, "0");
                return;
        }
        /* Above this, rounding would print 1000. */
        for (; ns >= 999.5 && unit + 1 < ARRAY_LEN(units); unit++)
                ns /= 1000;
        strbuf_printf(out, "%.*f %s",
                      unit == 0 || ns >= 99.95 ? 0
                      : ns >= 9.995            ? 1
                                               : 2,
                      ns, units[unit]);
}

void text_table_init(struct text_table *t, const struct text_column *columns, size_t n_columns) {
        *t = (struct text_table){ .columns = columns,
                                  .n_columns = MIN(n_columns, TEXT_TABLE_MAX_COLUMNS) };
        for (size_t i = 0; i < t->n_columns; i++)
                text_table_put(t, str_of(columns[i].head));
}

void text_table_done(struct text_table *t) {
        for (size_t i = 0; i < t->n_cells; i++)
                free(t->cells[i]);
        free(t->cells);
        *t = (struct text_table){ 0 };
}

void text_table_put(struct text_table *t, struct str text) {
        char *cell = mem_strndup(text.ptr != NULL ? text.ptr : "", text.len);

        plain_text_make(cell, strlen(cell), ' ');
        for (char *c = cell; (c = strchr(c, '\n')) != NULL;)
                *c = ' ';
        t->cells = mem_grow(t->cells, t->n_cells, sizeof(*t->cells));
        t->cells[t->n_cells++] = cell;
}

void text_table_printf(struct text_table *t, const char *format, ...) {
        va_list args;
        char   *text;
        int     len;

        va_start(args, format);
        len = vasprintf(&text, format, args);
        va_end(args);
        if (len < 0)
                return text_table_put(t, STR_LIT("?"));
        text_table_put(t, str_range(text, (size_t)len));
        free(text);
}

void text_table_put_count(struct text_table *t, uint64_t n) {
        text_table_printf(t, "%llu", (unsigned long long)n);
}

void text_table_put_duration(struct text_table *t, double ns) {
        AUTO_STRBUF text = { 0 };

        duration_print(ns, &text);
        text_table_put(t, strbuf_str(&text));
}

/* Number of characters in UTF-8: bytes that begin one. */
static size_t width_of(const char *text) {
        size_t n = 0;

        for (; *text != '\0'; text++)
                n += ((unsigned char)*text & 0xc0) != 0x80;
        return n;
}

/* 0 when all rows are empty in that column. */
static size_t column_width(const struct text_table *t, size_t column) {
        size_t width = 0;

        for (size_t i = t->n_columns + column; i < t->n_cells; i += t->n_columns)
                width = MAX(width, width_of(t->cells[i]));
        return width > 0 ? MAX(width, width_of(t->cells[column])) : 0;
}

static void put_blanks(struct strbuf *out, size_t n) {
        while (n-- > 0)
                strbuf_putc(out, ' ');
}

static void print_row(const struct text_table *t, size_t first, const size_t *widths,
                      struct strbuf *out) {
        size_t n_owed = 0;
        bool   is_first = true;

        for (size_t c = 0; c < t->n_columns && first + c < t->n_cells; c++) {
                const char *cell = t->cells[first + c];
                bool        is_right = t->columns[c].align == TEXT_RIGHT;
                size_t      n_free = widths[c] - MIN(widths[c], width_of(cell));

                if (widths[c] == 0)
                        continue;
                n_owed += (is_first ? 0 : GAP) + (is_right ? n_free : 0);
                is_first = false;
                if (*cell != '\0') {
                        put_blanks(out, n_owed);
                        strbuf_puts(out, cell);
                        n_owed = 0;
                }
                n_owed += is_right ? 0 : n_free;
        }
        strbuf_putc(out, '\n');
}

void text_table_print(const struct text_table *t, struct strbuf *out) {
        size_t widths[TEXT_TABLE_MAX_COLUMNS];

        for (size_t c = 0; c < t->n_columns; c++)
                widths[c] = column_width(t, c);
        for (size_t first = 0; t->n_columns > 0 && first < t->n_cells; first += t->n_columns)
                print_row(t, first, widths, out);
}
