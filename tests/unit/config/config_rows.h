/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of model configurations share: reading a text that must be right, comparing an
 * error with the one expected, and rows of both.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/error.h"
#include "codec/pb_field.h"
#include "config/config_normalize.h"
#include "config/model_config.h"
#include "shortage.h"

#include <stdlib.h>
#include <string.h>

static inline struct model_config *config_of(const char *text) {
        struct model_config *c = NULL;
        struct error        *err = model_config_read_text(str_of(text), "config.pbtxt", &c);

        if (err != NULL)
                fail_msg("%s\nin: %s", err->message, text);
        return c;
}

/* NUL-terminated, for the caller to free. */
static inline char *config_json(const struct model_config *c) {
        struct strbuf json;

        strbuf_init(&json, 0);
        assert_null(model_config_print_json(c, 1, &json));
        return strbuf_take(&json);
}

/* The field that an error names must be one: "input[0].dims". */
static inline void assert_field(const char *path) {
        const ProtobufCMessageDescriptor *type = &inference__model_config__descriptor;
        struct str                        part, rest = str_of(path);

        while (rest.ptr != NULL) {
                const ProtobufCFieldDescriptor *field;

                rest = str_split(rest, '.', &part);
                str_split(part, '[', &part);
                field = type != NULL ? pb_field_find(type, part) : NULL;
                if (field == NULL)
                        fail_msg("there is no field '%s'", path);
                type = pb_field_kind(field) == PB_MESSAGE ? pb_field_message(field) : NULL;
        }
}

/* Takes err. `message` NULL: there must be none. `text` is what it was about. */
static inline void assert_outcome(struct error *err, enum error_code code, const char *message,
                                  const char *text) {
        if (err == NULL) {
                if (message != NULL)
                        fail_msg("no error, expected \"%s\"\nin: %s", message, text);
                return;
        }
        if (message == NULL || strcmp(err->message, message) != 0 || err->code != code)
                fail_msg("got %s \"%s\"\nexpected %s \"%s\"\nin: %s", error_code_string(err->code),
                         err->message, error_code_string(code),
                         message != NULL ? message : "(none)", text);
        if (err->field != NULL)
                assert_field(err->field);
        error_free(err);
}

static inline void assert_accepted(struct error *err, const char *text) {
        assert_outcome(err, ERR_UNKNOWN, NULL, text);
}

/* Compares two strings of a row; `text` is what they came from. */
static inline void assert_text(const char *got, const char *expected, const char *text) {
        if (strcmp(got, expected) != 0)
                fail_msg("got      %s\nexpected %s\nin: %s", got, expected, text);
}

/* Both must print the same JSON. */
static inline void assert_same_config(const struct model_config *got,
                                      const struct model_config *expected, const char *text) {
        char *left = config_json(got);
        char *right = config_json(expected);

        assert_text(left, right, text);
        free(left);
        free(right);
}

struct config_row {
        const char *text;
        const char *message; /* NULL: accepted */
};

typedef struct error *(*config_check_fn)(const struct model_config *c);

static inline void run_row(const struct config_row *row, struct model_config *c,
                           config_check_fn check) {
        struct error *err;
        unsigned      n = 0;

        do {
                mem_fail_once(++n);
                err = check(c);
        } while (expect_or_shortage(err, ERR_INVALID_ARG, row->message));
        assert_outcome(check(c), ERR_INVALID_ARG, row->message, row->text);
        model_config_free(c);
}

/* Every row: read, then `check` must give the row's message with INVALID_ARG. */
static inline void run_rows(const struct config_row *rows, size_t n, config_check_fn check) {
        for (size_t i = 0; i < n; i++)
                run_row(&rows[i], config_of(rows[i].text), check);
}

/* The same, normalised before the check, as at a load. */
static inline void run_normalized_rows(const struct config_row *rows, size_t n,
                                       config_check_fn check) {
        for (size_t i = 0; i < n; i++) {
                struct model_config *c = config_of(rows[i].text);

                assert_null(model_config_normalize(c));
                run_row(&rows[i], c, check);
        }
}
