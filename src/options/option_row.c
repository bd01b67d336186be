/* SPDX-License-Identifier: BSD-3-Clause */
#include "options/option_row.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The member of the row; the struct may be const for the caller. */
static void *member_of(const struct option_row *row, const void *values) {
        return (char *)(uintptr_t)values + row->offset;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The operator chooses the number of items, not peers, so growing by one each time is cheap enough. */
void option_texts_add(struct option_texts *texts, const char *text) {
        texts->items = mem_realloc(texts->items, (texts->n_items + 1) * sizeof(*texts->items));
        texts->items[texts->n_items++] = mem_strdup(text);
}

void option_texts_done(struct option_texts *texts) {
        for (size_t i = 0; i < texts->n_items; i++)
                free(texts->items[i]);
        free(texts->items);
        *texts = (struct option_texts){ 0 };
}

/* ---- a value --------------------------------------------------------------------------------- */

static struct error *bad_value(const struct option_row *row, const char *expected,
                               const char *text) {
        return error_new(ERR_INVALID_ARG, "Bad option: \"--%s\".\n%s, got: %s", row->name, expected,
                         text);
}

static bool read_bool(const char *text, bool *ret) {
        struct str t = str_of(text);

        *ret = str_equal_nocase(t, STR_LIT("true")) || str_equal_nocase(t, STR_LIT("on")) ||
               str_is(t, "1");
        return *ret || str_equal_nocase(t, STR_LIT("false")) ||
               str_equal_nocase(t, STR_LIT("off")) || str_is(t, "0");
}

static bool read_real(const char *text, double *ret) {
        char *end;

        *ret = strtod(text, &end);
        return *text != '\0' && *end == '\0' && isfinite(*ret);
}

static struct error *out_of_range(const struct option_row *row, const char *text) {
        AUTO_CHARS range = mem_printf("value is out of range [ %.0f, %.0f ]", row->min, row->max);

        return bad_value(row, range, text);
}

void option_text_set(char **owned, const char *text) {
        char *copy = mem_strdup(text);

        free(*owned);
        *owned = copy;
}

/* True when the value requests none of the option's missing feature. */
static bool is_harmless(const struct option_row *row, const char *text) {
        bool given, harmless;

        if (row->harmless == NULL)
                return false;
        if (row->kind == OPTION_BOOL)
                return read_bool(text, &given) && read_bool(row->harmless, &harmless) &&
                       given == harmless;
        return strcmp(row->harmless, text) == 0;
}

enum range_check { RANGE_IGNORED, RANGE_CHECKED };

static struct error *store_number(const struct option_row *row, const char *text,
                                  enum range_check check, int64_t *target) {
        int64_t number;

        if (!str_to_i64(str_of(text), &number))
                return bad_value(row, "expects an integer", text);
        if (check == RANGE_CHECKED && (number < (int64_t)row->min || number > (int64_t)row->max))
                return out_of_range(row, text);
        *target = number;
        return NULL;
}

static struct error *store_real(const struct option_row *row, const char *text,
                                enum range_check check, double *target) {
        double number;

        if (!read_real(text, &number))
                return bad_value(row, "expects a number", text);
        if (check == RANGE_CHECKED && (number < row->min || number > row->max))
                return out_of_range(row, text);
        *target = number;
        return NULL;
}

/* Defaults may be out of the range: they then stand for "not given". */
static struct error *store_value(const struct option_row *row, void *values, const char *text,
                                 enum range_check check) {
        void *target = member_of(row, values);
        bool  is_on;

        switch (row->kind) {
        case OPTION_FLAG:
        case OPTION_BOOL:
                if (!read_bool(text, &is_on))
                        return bad_value(row, "expects true or false", text);
                *(bool *)target = is_on;
                break;
        case OPTION_NUMBER: return store_number(row, text, check, target);
        case OPTION_COUNT:
                if (!str_to_u64(str_of(text), target))
                        return error_new(ERR_INVALID_ARG, "--%s expects a number, got '%s'",
                                         row->name, text);
                break;
        case OPTION_REAL: return store_real(row, text, check, target);
        case OPTION_TEXT: option_text_set(target, text); break;
        case OPTION_TEXTS: option_texts_add(target, text); break;
        }
        return NULL;
}

struct error *option_set(const struct option_row *row, void *values, const char *text) {
        if (row->missing != NULL)
                return is_harmless(row, text)
                               ? NULL
                               : error_new(ERR_UNSUPPORTED, "--%s: %s is not supported yet",
                                           row->name, row->missing);
        if (row->refuses_empty && *text == '\0')
                return error_new(ERR_INVALID_ARG, "Error: empty argument for --%s", row->name);
        return store_value(row, values, text, RANGE_CHECKED);
}

size_t option_n_values(const struct option_row *row, const void *values) {
        const void *member = member_of(row, values);
        int64_t     number;
        const char *text;

        if (row->missing != NULL)
                return 0;
        switch (row->kind) {
        case OPTION_FLAG:
        case OPTION_BOOL:
        case OPTION_COUNT:
        case OPTION_REAL: break;
        case OPTION_NUMBER:
                number = *(const int64_t *)member;
                return number >= (int64_t)row->min && number <= (int64_t)row->max;
        case OPTION_TEXT:
                text = *(char *const *)member;
                return text != NULL && (*text != '\0' || !row->refuses_empty);
        case OPTION_TEXTS: return ((const struct option_texts *)member)->n_items;
        }
        return 1;
}

void option_put_value(const struct option_row *row, const void *values, size_t index,
                      struct strbuf *out) {
        const void *member = member_of(row, values);

        switch (row->kind) {
        case OPTION_FLAG:
        case OPTION_BOOL: strbuf_puts(out, *(const bool *)member ? "true" : "false"); break;
        case OPTION_NUMBER: strbuf_printf(out, "%lld", (long long)*(const int64_t *)member); break;
        case OPTION_COUNT:
                strbuf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)member);
                break;
        case OPTION_REAL: strbuf_printf(out, "%.15g", *(const double *)member); break;
        case OPTION_TEXT: strbuf_puts(out, *(char *const *)member); break;
        case OPTION_TEXTS:
                strbuf_puts(out, ((const struct option_texts *)member)->items[index]);
                break;
        }
}

bool option_is_changed(const struct option_row *row, const void *values) {
        AUTO_STRBUF value = { 0 };

        if (option_n_values(row, values) == 0)
                return false;
        if (row->initial == NULL)
                return true;
        option_put_value(row, values, 0, &value);
        return strcmp(strbuf_cstr(&value), row->initial) != 0;
}

/* ---- a table --------------------------------------------------------------------------------- */

void option_table_init(const struct option_table *t, void *values, size_t values_bytes) {
        memset(values, 0, values_bytes);
        for (size_t i = 0; i < t->n_rows; i++)
                if (t->rows[i].missing == NULL && t->rows[i].initial != NULL)
                        error_free(store_value(&t->rows[i], values, t->rows[i].initial,
                                               RANGE_IGNORED));
}

void option_table_done(const struct option_table *t, void *values) {
        for (size_t i = 0; i < t->n_rows; i++) {
                const struct option_row *row = &t->rows[i];
                void                    *member = member_of(row, values);

                if (row->missing != NULL)
                        continue;
                if (row->kind == OPTION_TEXTS) {
                        option_texts_done(member);
                } else if (row->kind == OPTION_TEXT) {
                        free(*(char **)member);
                        *(char **)member = NULL;
                }
        }
}

const struct option_row *option_table_find(const struct option_table *t, struct str name) {
        for (size_t i = 0; i < t->n_rows; i++)
                if (str_is(name, t->rows[i].name) ||
                    (t->rows[i].old_name != NULL && str_is(name, t->rows[i].old_name)))
                        return &t->rows[i];
        return NULL;
}

const char *option_table_suggest(const struct option_table *t, struct str name) {
        const char **names = mem_zalloc((2 * t->n_rows + 1) * sizeof(*names));
        const char  *nearest;
        size_t       n = 0;

        for (size_t i = 0; i < t->n_rows; i++) {
                names[n++] = t->rows[i].name;
                if (t->rows[i].old_name != NULL)
                        names[n++] = t->rows[i].old_name;
        }
        nearest = str_suggest(name, names, n);
        free(names);
        return nearest;
}

/* ---- help ------------------------------------------------------------------------------------ */

const char *option_argument(const struct option_row *row) {
        static const char *const usual[] = { [OPTION_FLAG] = "",
                                             [OPTION_BOOL] = "<boolean>",
                                             [OPTION_NUMBER] = "<integer>",
                                             [OPTION_COUNT] = "<integer>",
                                             [OPTION_REAL] = "<number>",
                                             [OPTION_TEXT] = "<string>",
                                             [OPTION_TEXTS] = "<string>" };

        return row->argument != NULL ? row->argument : usual[row->kind];
}

const char *option_default(const struct option_row *row) {
        const char *text = row->default_text != NULL ? row->default_text : row->initial;

        return text == NULL || row->kind == OPTION_FLAG ? "" : text;
}
