/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings: one pass that checks everything, and one that resolves escapes when there are any.
 */
#include "codec/json_scan.h"

#include <string.h>

#define ESCAPE_HEX "Incorrect hex digit after \\u escape in string."
#define ESCAPE_SURROGATE "The surrogate pair in string is invalid."
#define ESCAPE_LETTER "Invalid escape character in string."
#define NO_QUOTE "Missing a closing quotation mark in string."
#define BAD_ENCODING "Invalid encoding in string."

/* Where the first of: quote, backslash, control character, byte beyond ASCII. */
static const char *plain_end(const char *at, const char *end) {
        const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

        while (end - at >= 8) {
                uint64_t word;

                memcpy(&word, at, sizeof(word));
                uint64_t quotes = word ^ (ones * '"');
                uint64_t slashes = word ^ (ones * '\\');
                /* Borrows spoil only bytes behind the first hit. */
                uint64_t hits = ((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) |
                                ((word - ones * 0x20) & ~word) | word;

                hits &= tops;
                if (hits != 0)
                        return at + __builtin_ctzll(hits) / 8;
                at += 8;
        }
        while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
               (unsigned char)*at < 0x80)
                at++;
        return at;
}

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hex digits; -1 when they are not. */
static int32_t hex4(const char *at, const char *end) {
        int32_t unit = 0;

        if (end - at < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                int digit = hex_value(at[i]);

                if (digit < 0)
                        return -1;
                unit = unit * 16 + digit;
        }
        return unit;
}

/* `at` is behind "\u". Gives the code point and where it ends, or an error text. */
static const char *take_unicode(const char **at, const char *end, uint32_t *ret_point) {
        int32_t high = hex4(*at, end);

        if (high < 0)
                return ESCAPE_HEX;
        *at += 4;
        *ret_point = (uint32_t)high;
        if (high < 0xd800 || high > 0xdfff)
                return NULL;
        if (high > 0xdbff || end - *at < 2 || (*at)[0] != '\\' || (*at)[1] != 'u')
                return ESCAPE_SURROGATE;

        int32_t low = hex4(*at + 2, end);

        if (low < 0)
                return ESCAPE_HEX;
        if (low < 0xdc00 || low > 0xdfff)
                return ESCAPE_SURROGATE;
        *at += 6;
        *ret_point = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
        return NULL;
}

/* The letters of the short escapes, and what each stands for. */
static const char escape_letters[] = "\"\\/bfnrt";
static const char escape_values[] = "\"\\/\b\f\n\r\t";

/* *at is at the backslash. */
static const char *take_escape(const char **at, const char *end, uint32_t *ret_point) {
        const char *letter;

        if (end - *at < 2)
                return ESCAPE_LETTER;
        *at += 2;
        if ((*at)[-1] == 'u')
                return take_unicode(at, end, ret_point);
        letter = (*at)[-1] != '\0' ? strchr(escape_letters, (*at)[-1]) : NULL;
        if (letter == NULL)
                return ESCAPE_LETTER;
        *ret_point = (uint32_t)escape_values[letter - escape_letters];
        return NULL;
}

/* Behind the opening quote; passes over escapes and UTF-8 up to the closing quote. */
static bool take_content(struct json_reader *r, const char *at, const char **ret_end,
                         bool *ret_has_escapes) {
        for (;;) {
                at = plain_end(at, r->end);
                if (at == r->end)
                        return json_fail_at(r, at, NO_QUOTE);
                if (*at == '"') {
                        *ret_end = at;
                        return true;
                }
                if (*at == '\\') {
                        const char *backslash = at;
                        uint32_t    point;
                        const char *error_text = take_escape(&at, r->end, &point);

                        if (error_text != NULL)
                                return json_fail_at(r, backslash, error_text);
                        *ret_has_escapes = true;
                        continue;
                }
                if ((unsigned char)*at <
                    0x20) /* the reference takes a NUL for the end of the text */
                        return json_fail_at(r, at, *at == '\0' ? NO_QUOTE : BAD_ENCODING);

                size_t len = str_utf8_first(str_range(at, (size_t)(r->end - at)));

                if (len == 0)
                        return json_fail_at(r, at, BAD_ENCODING);
                at += len;
        }
}

bool json_take_string(struct json_reader *r, struct str *ret_raw, bool *ret_has_escapes) {
        const char *begin = r->at + 1, *end = begin;

        *ret_has_escapes = false;
        if (!take_content(r, begin, &end, ret_has_escapes))
                return false;
        *ret_raw = str_range(begin, (size_t)(end - begin));
        r->at = end + 1;
        return true;
}

static char *put_utf8(char *out, uint32_t point) {
        if (point < 0x80) {
                *out++ = (char)point;
                return out;
        }
        if (point < 0x800) {
                *out++ = (char)(0xc0 | point >> 6);
        } else {
                if (point < 0x10000) {
                        *out++ = (char)(0xe0 | point >> 12);
                } else {
                        *out++ = (char)(0xf0 | point >> 18);
                        *out++ = (char)(0x80 | (point >> 12 & 0x3f));
                }
                *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        }
        *out++ = (char)(0x80 | (point & 0x3f));
        return out;
}

/* `raw` was checked. Resolved text is never longer: the shortest escape has two characters, and
 * six of them make at most three bytes. */
struct str json_resolve_escapes(struct str raw, char *out) {
        const char *at = raw.ptr, *end = raw.ptr + raw.len;
        char       *to = out;

        while (at < end) {
                const char *backslash = memchr(at, '\\', (size_t)(end - at));
                size_t      n_plain = (size_t)((backslash != NULL ? backslash : end) - at);
                uint32_t    point = 0;

                memcpy(to, at, n_plain);
                to += n_plain;
                at += n_plain;
                if (at < end && take_escape(&at, end, &point) == NULL)
                        to = put_utf8(to, point);
        }
        return str_range(out, (size_t)(to - out));
}
