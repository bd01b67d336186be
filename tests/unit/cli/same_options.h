/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares all values that options set, by the table.
 */
#pragma once

#include "cli/cli_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool is_same_text(const char *a, const char *b) {
        return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static inline bool is_same_list(const struct option_texts *a, const struct option_texts *b) {
        if (a->n_items != b->n_items)
                return false;
        for (size_t i = 0; i < a->n_items; i++)
                if (!is_same_text(a->items[i], b->items[i]))
                        return false;
        return true;
}

static inline bool is_same_value(const struct option_row *row, const struct cli_options *a,
                                 const struct cli_options *b) {
        const void *of_a = (const char *)a + row->offset;
        const void *of_b = (const char *)b + row->offset;

        switch (row->kind) {
        case OPTION_FLAG:
        case OPTION_BOOL: return *(const bool *)of_a == *(const bool *)of_b;
        case OPTION_NUMBER: return *(const int64_t *)of_a == *(const int64_t *)of_b;
        case OPTION_COUNT: return *(const uint64_t *)of_a == *(const uint64_t *)of_b;
        case OPTION_REAL: return memcmp(of_a, of_b, sizeof(double)) == 0;
        case OPTION_TEXT:
                return is_same_text(*(const char *const *)of_a, *(const char *const *)of_b);
        case OPTION_TEXTS: return is_same_list(of_a, of_b);
        }
        return false;
}

/* The first option whose value differs, NULL: none. */
static inline const char *options_differ(const struct cli_options *a, const struct cli_options *b) {
        const struct option_table *t = &cli_option_table;

        for (size_t i = 0; i < t->n_rows; i++)
                if (t->rows[i].missing == NULL && !is_same_value(&t->rows[i], a, b))
                        return t->rows[i].name;
        return NULL;
}
