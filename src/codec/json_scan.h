/* SPDX-License-Identifier: BSD-3-Clause */
/* Scanning functions that the files of json_reader.h share: blanks, failure, literals, strings.
 *
 * Every function moves r->at over the text that it consumes, or fails the reader and returns false.
 * Texts and offsets of failures are those of the reference server.
 */
#pragma once

#include "base/compiler.h"
#include "codec/json_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__ /* every x86-64; other processors use the portable code */
#include <emmintrin.h>
#endif

#define JSON_INVALID_VALUE "Invalid value."
#define JSON_NO_COMMA_IN_OBJECT "Missing a comma or } after an object member."
#define JSON_NO_COMMA_IN_ARRAY "Missing a comma or ] after an array element."

/* Keeps the first failure and moves the reader to the end of the text. Always false. */
bool json_fail_at(struct json_reader *r, const char *at, const char *error_text);
/* The same for a text that nests deeper than JSON_MAX_DEPTH. */
bool json_fail_depth(struct json_reader *r);

static ALWAYS_INLINE const char *json_blanks_end(const char *at, const char *end) {
        /* The first comparison is nearly always enough. */
        while (at < end && (unsigned char)*at <= ' ' &&
               (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
                at++;
        return at;
}

/* Returns the next character that is not a blank; NUL at the end (a NUL in the text is no token
 * either). */
static ALWAYS_INLINE char json_next_char(struct json_reader *r) {
        r->at = json_blanks_end(r->at, r->end);
        return r->at < r->end ? *r->at : '\0';
}

/* Characters that must be readable for json_string_stops(). */
#define JSON_STOPS_ROOM 16

/* Bit mask of the characters, of 16, that are not plain text of a string (quote, backslash, control
 * character, byte beyond ASCII); the first in the lowest bit. */
static ALWAYS_INLINE uint32_t json_string_stops(const char *at) {
#ifdef __SSE2__
        __m128i text = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i quotes = _mm_cmpeq_epi8(text, _mm_set1_epi8('"'));
        __m128i slashes = _mm_cmpeq_epi8(text, _mm_set1_epi8('\\'));
        /* Signed comparison: bytes beyond ASCII are negative, and so less as well. */
        __m128i others = _mm_cmplt_epi8(text, _mm_set1_epi8(0x20));

        return (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, slashes), others));
#else
        uint32_t stops = 0;

        for (unsigned i = 0; i < JSON_STOPS_ROOM; i++)
                if (at[i] == '"' || at[i] == '\\' || (signed char)at[i] < 0x20)
                        stops |= UINT32_C(1) << i;
        return stops;
#endif
}

/* The frequent case of json_take_string(): no escape, ASCII, and not at the very end of the text.
 * False, with nothing consumed, for any other case. */
static ALWAYS_INLINE bool json_take_plain_string(const char **at, const char *end,
                                                 struct str *ret) {
        const char *begin = *at + 1, *stop = begin;

        while (end - stop >= JSON_STOPS_ROOM) {
                uint32_t stops = json_string_stops(stop);

                if (stops == 0) {
                        stop += JSON_STOPS_ROOM;
                        continue;
                }
                stop += __builtin_ctz(stops);
                if (*stop != '"')
                        return false;
                *ret = str_range(begin, (size_t)(stop - begin));
                *at = stop + 1;
                return true;
        }
        return false;
}

/* Fails with "Invalid value.", or "The document is empty." when the text has only blanks. */
bool json_fail_value(struct json_reader *r);

/* `word` is true, false or null; r->at is at its first letter. */
bool json_take_literal(struct json_reader *r, const char *word);

/* Reads a string, r->at at its quote: checked completely. *ret_raw is the text between the quotes. */
bool json_take_string(struct json_reader *r, struct str *ret_raw, bool *ret_has_escapes);

/* Resolves the escapes of text that json_take_string() has checked; `out` has raw.len bytes. */
struct str json_resolve_escapes(struct str raw, char *out);

/* Reads a number, checked; "too big" is reported as in the reference server. */
struct json_number_scan;
bool json_take_number(struct json_reader *r, struct json_number_scan *ret);

/* Reads a member's key and the colon after it. */
bool json_take_key(struct json_reader *r, struct str *ret_raw, bool *ret_has_escapes);

/* Skips the rest of n_arrays open arrays, with r->at at the start of a value, and their closing
 * brackets. */
bool json_skip_arrays(struct json_reader *r, unsigned n_arrays);
