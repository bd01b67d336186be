/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/json_reader.h"

#include <string.h>

#include "codec/json_number.h"
#include "codec/json_scan.h"

void json_reader_init(struct json_reader *r, struct str text) {
        const char *begin = text.ptr != NULL ? text.ptr : "";

        *r = (struct json_reader){ .begin = begin, .at = begin, .end = begin + text.len };
}

bool json_failed(const struct json_reader *r) {
        return r->error_text != NULL;
}

const char *json_error_text(const struct json_reader *r) {
        return r->error_text != NULL ? r->error_text : "";
}

size_t json_error_offset(const struct json_reader *r) {
        return r->error_offset;
}

bool json_fail_at(struct json_reader *r, const char *at, const char *error_text) {
        if (r->error_text == NULL) {
                r->error_text = error_text;
                r->error_offset = (size_t)(at - r->begin);
                r->at = r->end;
        }
        return false;
}

bool json_fail_value(struct json_reader *r) {
        if (r->at == r->end && json_blanks_end(r->begin, r->end) == r->end)
                return json_fail_at(r, r->at, "The document is empty.");
        return json_fail_at(r, r->at, JSON_INVALID_VALUE);
}

/* What a first character announces. */
static enum json_type type_of(char c) {
        switch (c) {
        case '{': return JSON_OBJECT;
        case '[': return JSON_ARRAY;
        case '"': return JSON_STRING;
        case 't':
        case 'f': return JSON_BOOL;
        case 'n': return JSON_NULL;
        case '-':
        case 'N':
        case 'I': return JSON_NUMBER;
        default: return c >= '0' && c <= '9' ? JSON_NUMBER : JSON_INVALID;
        }
}

enum json_type json_peek(struct json_reader *r) {
        if (json_failed(r))
                return JSON_INVALID;

        enum json_type type = type_of(json_next_char(r));

        if (type == JSON_INVALID && r->at < r->end)
                json_fail_value(r);
        return type;
}

/* True when a value of the wanted type starts here; else the reader fails. */
static bool expect(struct json_reader *r, enum json_type wanted, const char *error_text) {
        enum json_type type = json_peek(r);

        if (json_failed(r))
                return false;
        if (type == JSON_INVALID)
                return json_fail_value(r);
        return type == wanted || json_fail_at(r, r->at, error_text);
}

static void enter(struct json_reader *r) {
        if (r->depth == JSON_MAX_DEPTH) {
                json_fail_at(r, r->at, JSON_TOO_DEEP);
                return;
        }
        r->at++;
        r->depth++;
        r->at_first = true;
}

void json_enter_object(struct json_reader *r) {
        if (expect(r, JSON_OBJECT, "attempt to access JSON non-object as object"))
                enter(r);
}

void json_enter_array(struct json_reader *r) {
        if (expect(r, JSON_ARRAY, "attempt to access JSON non-array as array"))
                enter(r);
}

/* True when another member or element follows; takes the comma or the closing bracket. */
static bool advance(struct json_reader *r, char bracket, const char *error_text) {
        bool is_first = r->at_first;
        char c;

        if (json_failed(r))
                return false;
        c = json_next_char(r);
        r->at_first = false;
        if (c == bracket) {
                r->at++;
                r->depth -= r->depth > 0 ? 1 : 0;
                return false;
        }
        if (is_first)
                return true;
        if (c != ',')
                return json_fail_at(r, r->at, error_text);
        r->at++;
        return true;
}

bool json_take_key(struct json_reader *r, struct str *ret_raw, bool *ret_has_escapes) {
        if (json_next_char(r) != '"')
                return json_fail_at(r, r->at, "Missing a name for object member.");
        if (!json_take_string(r, ret_raw, ret_has_escapes))
                return false;
        if (json_next_char(r) != ':')
                return json_fail_at(r, r->at, "Missing a colon after a name of object member.");
        r->at++;
        return true;
}

/* A copy of checked text without escapes; fails when memory, or the arena, is short. */
static struct str resolve(struct json_reader *r, const char *at, struct str raw,
                          struct arena *arena) {
        char *out = arena != NULL ? arena_try_alloc(arena, raw.len) : NULL;

        if (out == NULL) {
                json_fail_at(r, at, "Terminate parsing due to Handler error.");
                return STR_LIT("");
        }
        return json_resolve_escapes(raw, out);
}

bool json_next_key(struct json_reader *r, struct arena *arena, struct str *ret_key) {
        struct str raw;
        bool       has_escapes;

        *ret_key = STR_LIT("");
        if (!advance(r, '}', JSON_NO_COMMA_IN_OBJECT) || !json_take_key(r, &raw, &has_escapes))
                return false;
        if (!has_escapes)
                *ret_key = raw;
        else if (arena != NULL)
                *ret_key = resolve(r, raw.ptr - 1, raw, arena);
        return !json_failed(r);
}

bool json_next_element(struct json_reader *r) {
        return advance(r, ']', JSON_NO_COMMA_IN_ARRAY);
}

bool json_take_literal(struct json_reader *r, const char *word) {
        const char *at = r->at;

        for (; *word != '\0'; word++, at++) {
                if (at == r->end || *at != *word)
                        return json_fail_at(r, at, JSON_INVALID_VALUE);
        }
        r->at = at;
        return true;
}

bool json_read_bool(struct json_reader *r) {
        if (!expect(r, JSON_BOOL, "attempt to access JSON non-boolean as boolean"))
                return false;

        bool value = *r->at == 't';

        return json_take_literal(r, value ? "true" : "false") && value;
}

void json_read_null(struct json_reader *r) {
        if (expect(r, JSON_NULL, "attempt to access JSON non-null as null"))
                json_take_literal(r, "null");
}

bool json_take_number(struct json_reader *r, struct json_number_scan *ret) {
        double value;

        json_number_scan(r->at, r->end, ret);
        if (ret->kind == JSON_NUMBER_BAD)
                return json_fail_at(r, ret->at, ret->error_text);
        /* The mantissa has at most 19 digits: below 10^289 nothing can be too big. */
        if (ret->decimal.exponent > 289 && !json_number_get_f64(ret, &value))
                return json_fail_at(r, r->at, "Number too big to be stored in double.");
        r->at = ret->at;
        return true;
}

struct json_number json_read_number(struct json_reader *r) {
        struct json_number_scan scan;
        struct json_number      number = { 0 };

        if (!expect(r, JSON_NUMBER, "attempt to access JSON non-number as double") ||
            !json_take_number(r, &scan))
                return number;

        json_number_get_f64(&scan, &number.real);
        number.is_negative = scan.decimal.is_negative;
        number.is_integer = json_number_get_magnitude(&scan, &number.magnitude);
        if (number.is_integer && number.is_negative) {
                /* -0 is an integer like any other zero; -2^63 is the last that fits. */
                number.is_negative = number.magnitude != 0;
                number.is_integer = number.magnitude <= 1ull << 63;
        }
        if (!number.is_integer)
                number.magnitude = 0;
        return number;
}

struct str json_read_string(struct json_reader *r, struct arena *arena) {
        const char *quote;
        struct str  raw;
        bool        has_escapes;

        if (!expect(r, JSON_STRING, "attempt to access JSON non-string as string"))
                return STR_LIT("");
        quote = r->at;
        if (!json_take_string(r, &raw, &has_escapes))
                return STR_LIT("");
        return has_escapes ? resolve(r, quote, raw, arena) : raw;
}

void json_read_end(struct json_reader *r) {
        if (json_failed(r))
                return;
        if (json_next_char(r) != '\0' || r->at < r->end)
                json_fail_at(r, r->at, "The document root must not be followed by other values.");
        else if (json_blanks_end(r->begin, r->end) == r->end)
                json_fail_value(r);
}
