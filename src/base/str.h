/* SPDX-License-Identifier: BSD-3-Clause */
/* A borrowed run of bytes, not NUL-terminated, and small functions of text.
 *
 * Ownership.  A str owns nothing; it lives as long as the bytes it points to.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
        const char *ptr; /* borrowed */
        size_t      len;
};

/* For printf: "%.*s", STR_ARG(s). Lengths beyond INT_MAX are cut. */
#define STR_ARG(s) ((int)((s).len > 0x7fffffff ? 0x7fffffff : (s).len)), ((s).ptr ? (s).ptr : "")
#define STR_LIT(literal) ((struct str){ "" literal, sizeof(literal) - 1 })

static inline struct str str_of(const char *text) {
        return (struct str){ text, text != NULL ? strlen(text) : 0 };
}

static inline struct str str_range(const char *ptr, size_t len) {
        return (struct str){ ptr, len };
}

/* Without its first n bytes; n is at most its length. */
static inline struct str str_skip(struct str s, size_t n) {
        return (struct str){ s.ptr + n, s.len - n };
}

static inline bool str_equal(struct str a, struct str b) {
        return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool str_is(struct str a, const char *text) {
        return str_equal(a, str_of(text));
}

/* str_is() for a literal: its length is a constant, and so the comparison needs no call. */
#define STR_IS(s, literal)                                                                         \
        ((s).len == sizeof("" literal) - 1 && memcmp((s).ptr, literal, sizeof(literal) - 1) == 0)

bool       str_equal_nocase(struct str a, struct str b); /* ASCII */
bool       str_starts(struct str s, struct str prefix);
bool       str_ends(struct str s, struct str suffix);
struct str str_trim(struct str s); /* without leading and trailing blanks and tabs */

/* Splits at the first `separator`: *ret_head is the text before it (all of s when there is none).
 * Returns the text after it, with ptr NULL when there was no separator. */
struct str str_split(struct str s, char separator, struct str *ret_head);

/* Takes the next part from *rest; false after the last one. There is one more part than separators, and
 * none when ptr is NULL. */
bool str_next(struct str *rest, char separator, struct str *ret);
/* Loops over these parts; declares `struct str part`. */
#define STR_FOR_EACH(text, separator, part)                                                        \
        for (struct str part##_rest_ = (text), part; str_next(&part##_rest_, separator, &part);)

void str_lower(char *text); /* ASCII */

/* Parses decimal, the whole of s, no sign for u64; false on malformed or empty text and on
 * overflow. */
bool str_to_u64(struct str s, uint64_t *ret);
bool str_to_i64(struct str s, int64_t *ret);

/* Value of a hexadecimal digit; -1 when `c` is none. */
int str_hex_digit(char c);

/* Length in bytes of the well-formed UTF-8 character at the start of s; 0 when there is none. */
size_t str_utf8_first(struct str s);

/* True for ASCII without a NUL, as nearly all names are. */
bool str_is_plain(struct str s);
/* Well-formed UTF-8 without surrogates and overlong forms. */
bool str_is_utf8(struct str s);

/* Returns the candidate nearest to `word` by edit distance, if it is near enough to suggest; else
 * NULL. */
const char *str_suggest(struct str word, const char *const *candidates, size_t n_candidates);
