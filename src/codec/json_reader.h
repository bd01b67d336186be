/* SPDX-License-Identifier: BSD-3-Clause */
/* A pull reader for JSON: the caller walks the text and stores values directly in their place.
 *
 * There is no tree. json_peek() returns the type of the next value, which the caller reads or
 * skips:
 *
 *     struct json_reader r = json_reader_of(text);
 *     for (json_enter_object(&r); json_next_key(&r, &key);)
 *             if (str_is(key, "id")) id = json_read_string(&r, arena);
 *             else json_skip(&r);
 *     json_read_end(&r);
 *     if (json_failed(&r)) ...
 *
 * The first failure is kept: afterwards every call does nothing, json_next_* return false, values
 * are zero, and json_error_text()/json_error_offset() return its text and place. A wrong type is
 * not a syntax failure: callers peek before they read. RFC 8259, plus the literals NaN, Infinity
 * and -Infinity that the reference server reads and writes. Nesting deeper than JSON_MAX_DEPTH
 * fails.
 *
 * Ownership.  The text is borrowed for the life of the reader. Strings without escapes are ranges
 * of the text; others are written to the caller's arena.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_DEPTH 100

enum json_type {
        JSON_INVALID, /* failure, or the end of the text */
        JSON_NULL,
        JSON_BOOL,
        JSON_NUMBER,
        JSON_STRING,
        JSON_ARRAY,
        JSON_OBJECT,
};

struct json_number {
        bool     is_integer; /* no dot, no exponent, magnitude fits in 64 bits */
        bool     is_negative;
        uint64_t magnitude; /* of an integer */
        double   real;      /* always set */
};

struct json_reader {
        const char *begin;      /* borrowed */
        const char *at;         /* borrowed */
        const char *end;        /* borrowed */
        const char *error_text; /* static; NULL without a failure */
        size_t      error_offset;
        unsigned    depth;
        bool        at_first;    /* just after the opening bracket of an array or object */
        bool        is_too_deep; /* the failure is the depth of the text */
};

/* Skips a byte order mark at the front, as the reference server does (RFC 8259, 8.1, allows it). */
struct json_reader json_reader_of(struct str text);
void               json_reader_init(struct json_reader *r, struct str text);

enum json_type json_peek(struct json_reader *r);

/* Consumes '{' or '['. Fails when something else comes. */
void json_enter_object(struct json_reader *r);
void json_enter_array(struct json_reader *r);
/* The same, if it comes: returns true after it; otherwise false, with r at the other value, for the
 * caller to check. Inline: json_peek() and json_enter_*() in one, for places where an object is
 * expected. */
static inline bool json_try_enter(struct json_reader *r, enum json_type type) {
        char bracket = type == JSON_OBJECT ? '{' : '[';

        if (r->at == r->end || *r->at != bracket || r->depth == JSON_MAX_DEPTH) {
                if (json_peek(r) != type)
                        return false;
                type == JSON_OBJECT ? json_enter_object(r) : json_enter_array(r);
                return true;
        }
        r->at++;
        r->depth++;
        r->at_first = true;
        return true;
}
/* Moves to the next member or element; false (and the closing bracket is consumed) at the end or on
 * failure. Keys with escapes are decoded into `arena`; with NULL such keys count as unknown
 * (ret_key empty). */
bool json_next_key(struct json_reader *r, struct arena *arena, struct str *ret_key);
bool json_next_element(struct json_reader *r);

bool               json_read_bool(struct json_reader *r);
void               json_read_null(struct json_reader *r);
struct json_number json_read_number(struct json_reader *r);
/* Reads an unsigned integer in its usual form. False, with nothing consumed, for other numbers,
 * other types and failures. */
bool json_try_u64(struct json_reader *r, uint64_t *ret);
/* Likewise a string that is a range of the text: ASCII without escapes, and so without NUL. */
bool json_try_string(struct json_reader *r, struct str *ret);
/* UTF-8 text with escapes resolved (surrogate pairs too); NUL bytes may occur. */
struct str json_read_string(struct json_reader *r, struct arena *arena);
/* Value of four hex digits, as after \u; -1 when there are fewer before `end`, or others. */
int32_t json_hex4(const char *at, const char *end);
/* Skips one value of any kind. Returns its text. */
struct str json_skip(struct json_reader *r);
/* Fails unless only blanks are left: "The document root must not be followed by other values." */
void json_read_end(struct json_reader *r);

static inline bool json_failed(const struct json_reader *r) {
        return r->error_text != NULL;
}

const char *json_error_text(const struct json_reader *r);
size_t      json_error_offset(const struct json_reader *r);
/* INVALID_ARG: the failure with the reference server's text. */
struct error *json_syntax_error(const struct json_reader *r) COLD NODISCARD;

/* Tensor elements: the element kinds that JSON can carry. */
enum json_element {
        JSON_ELEMENT_BOOL,
        JSON_ELEMENT_U8,
        JSON_ELEMENT_U16,
        JSON_ELEMENT_U32,
        JSON_ELEMENT_U64,
        JSON_ELEMENT_I8,
        JSON_ELEMENT_I16,
        JSON_ELEMENT_I32,
        JSON_ELEMENT_I64,
        JSON_ELEMENT_F32,
        JSON_ELEMENT_F64,
};

enum json_tensor_status {
        JSON_TENSOR_OK,
        JSON_TENSOR_TOO_MANY, /* more elements than requested */
        JSON_TENSOR_TOO_FEW,
        JSON_TENSOR_WRONG_TYPE, /* *ret_type is the type found; see json_tensor_type_error() */
        JSON_TENSOR_TOO_DEEP,   /* nesting beyond JSON_MAX_DEPTH */
        JSON_TENSOR_SYNTAX,     /* json_failed(r) */
};

/* Reads an array of exactly n elements, nested in any way or flat, row-major, into `out` (host
 * order, n times the element's size). Integers are truncated to their width, as in the reference
 * server. Numbers for F32 are rounded once, from the decimal text. */
enum json_tensor_status json_read_tensor(struct json_reader *r, enum json_element element,
                                         void *out, size_t n);
/* "attempt to access JSON non-number as double" and so on: the reference server's text for a wrong
 * scalar type of this element kind. Static. */
const char *json_tensor_type_error(enum json_element element);
