/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/str.h"

#include "base/compiler.h"
#include "base/word.h"

/* Longest word for which a suggestion is made: longer ones are rarely typing errors. */
#define SUGGEST_MAX_LEN 64

static char lower(char c) {
        return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_equal_nocase(struct str a, struct str b) {
        if (a.len != b.len)
                return false;
        for (size_t i = 0; i < a.len; i++) {
                if (lower(a.ptr[i]) != lower(b.ptr[i]))
                        return false;
        }
        return true;
}

bool str_starts(struct str s, struct str prefix) {
        return s.len >= prefix.len && str_equal(str_range(s.ptr, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix) {
        if (s.len < suffix.len)
                return false;
        return suffix.len == 0 ||
               str_equal(str_range(s.ptr + (s.len - suffix.len), suffix.len), suffix);
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

struct str str_trim(struct str s) {
        while (s.len > 0 && is_blank(s.ptr[0])) {
                s.ptr++;
                s.len--;
        }
        while (s.len > 0 && is_blank(s.ptr[s.len - 1]))
                s.len--;
        return s;
}

struct str str_split(struct str s, char separator, struct str *ret_head) {
        const char *at = s.len > 0 ? memchr(s.ptr, separator, s.len) : NULL;
        size_t      head_len;

        if (at == NULL) {
                *ret_head = s;
                return (struct str){ NULL, 0 };
        }
        head_len = (size_t)(at - s.ptr);
        *ret_head = str_range(s.ptr, head_len);
        return str_range(at + 1, s.len - head_len - 1);
}

bool str_next(struct str *rest, char separator, struct str *ret) {
        if (rest->ptr == NULL)
                return false;
        *rest = str_split(*rest, separator, ret);
        return true;
}

void str_lower(char *text) {
        for (; *text != '\0'; text++)
                *text = lower(*text);
}

bool str_to_u64(struct str s, uint64_t *ret) {
        uint64_t value = 0;

        if (s.len == 0)
                return false;
        for (size_t i = 0; i < s.len; i++) {
                unsigned digit = (unsigned char)s.ptr[i] - (unsigned)'0';

                if (digit > 9)
                        return false;
                if (value > (UINT64_MAX - digit) / 10)
                        return false;
                value = value * 10 + digit;
        }
        *ret = value;
        return true;
}

bool str_to_i64(struct str s, int64_t *ret) {
        bool     is_negative = s.len > 0 && s.ptr[0] == '-';
        uint64_t magnitude;

        if (is_negative)
                s = str_skip(s, 1);
        if (!str_to_u64(s, &magnitude))
                return false;
        if (magnitude > (uint64_t)INT64_MAX + (is_negative ? 1 : 0))
                return false;
        /* Negated as unsigned: the magnitude of INT64_MIN has no positive int64_t. */
        *ret = (int64_t)(is_negative ? -magnitude : magnitude);
        return true;
}

int str_hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_continuation(unsigned char byte) {
        return (byte & 0xc0) == 0x80;
}

size_t str_utf8_first(struct str s) {
        const unsigned char *p = (const unsigned char *)s.ptr;
        size_t               len;

        if (s.len == 0)
                return 0;
        if (p[0] < 0x80)
                return 1;
        if (p[0] < 0xc2 || p[0] > 0xf4) /* continuation, overlong, or beyond U+10FFFF */
                return 0;
        len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        if (s.len < len)
                return 0;
        for (size_t i = 1; i < len; i++) {
                if (!is_continuation(p[i]))
                        return 0;
        }
        /* The second byte's range is narrower after these (Unicode, table 3-7). */
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
            (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
                return 0;
        return len;
}

/* A zero byte borrows from its own high bit. */
static bool is_plain_word(uint64_t word) {
        return (((word - WORD_EACH(1)) | word) & WORD_HIGH_BITS) == 0;
}

bool str_is_plain(struct str s) {
        if (s.len == 0)
                return true;
        if (s.len < WORD_BYTES)
                return is_plain_word(word_load_few(s.ptr, s.len));
        for (size_t at = 0; s.len - at > WORD_BYTES; at += WORD_BYTES)
                if (!is_plain_word(word_load(s.ptr + at)))
                        return false;
        return is_plain_word(word_load(s.ptr + s.len - WORD_BYTES));
}

/* Length of the leading run of ASCII, read in whole words. */
static size_t ascii_run(struct str s) {
        size_t at = 0;

        while (s.len - at >= WORD_BYTES && (word_load(s.ptr + at) & WORD_HIGH_BITS) == 0)
                at += WORD_BYTES;
        return at;
}

bool str_is_utf8(struct str s) {
        if (str_is_plain(s))
                return true;
        while (s.len > 0) {
                size_t step = ascii_run(s);

                if (step == 0)
                        step = str_utf8_first(s);
                if (step == 0)
                        return false;
                s = str_skip(s, step);
        }
        return true;
}

/* Levenshtein distance; both lengths are at most SUGGEST_MAX_LEN. */
static size_t edit_distance(struct str a, struct str b) {
        size_t row[SUGGEST_MAX_LEN + 1];

        for (size_t j = 0; j <= b.len; j++)
                row[j] = j;
        for (size_t i = 1; i <= a.len; i++) {
                size_t diagonal = row[0]; /* the cell above and to the left */

                row[0] = i;
                for (size_t j = 1; j <= b.len; j++) {
                        size_t above = row[j];
                        size_t replaced = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);

                        row[j] = MIN(MIN(above, row[j - 1]) + 1, replaced);
                        diagonal = above;
                }
        }
        return row[b.len];
}

const char *str_suggest(struct str word, const char *const *candidates, size_t n_candidates) {
        /* A third of the letters may be wrong, at least two in words of four letters and more. */
        size_t      limit = word.len < 4 ? 1 : MAX((size_t)2, word.len / 3);
        const char *nearest = NULL;

        if (word.len == 0 || word.len > SUGGEST_MAX_LEN)
                return NULL;
        for (size_t i = 0; i < n_candidates; i++) {
                struct str candidate = str_of(candidates[i]);
                size_t     distance;

                if (candidate.len == 0 || candidate.len > SUGGEST_MAX_LEN)
                        continue;
                distance = edit_distance(word, candidate);
                if (distance > limit || (nearest != NULL && distance == limit))
                        continue;
                nearest = candidates[i];
                limit = distance;
        }
        return nearest;
}
