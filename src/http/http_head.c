/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_head.h"

#include "base/compiler.h"

#include <string.h>
#ifdef __SSE2__ /* on every x86-64; other CPUs use the portable code */
#include <emmintrin.h>
#endif

/* ---- names ---- */

static ALWAYS_INLINE uint64_t load_word(const char *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return word;
}

/* `lower` is a name in lower case. A letter may differ in its case bit (0x20), '-' must be equal. The bit
 * above the case bit is set in letters only. */
static ALWAYS_INLINE bool equal_words(uint64_t word, uint64_t lower) {
        return (word | (lower >> 1 & UINT64_C(0x2020202020202020))) == lower;
}

/* Compares names of equal length, at least 8. With a literal, everything but the loads is constant. */
static ALWAYS_INLINE bool equal_name(const char *name, const char *lower, size_t len) {
        bool   is_equal = equal_words(load_word(name + len - 8), load_word(lower + len - 8));
        size_t at = 0;

        for (; at + 8 < len; at += 8)
                is_equal = is_equal && equal_words(load_word(name + at), load_word(lower + at));
        return is_equal;
}

static ALWAYS_INLINE bool equal_short_name(const char *name, const char *lower, size_t len) {
        for (size_t i = 0; i < len; i++)
                if ((name[i] | (lower[i] >> 1 & 0x20)) != lower[i])
                        return false;
        return true;
}

#define IS_NAME(text, literal)                                                                     \
        (sizeof(literal) - 1 < 8 ? equal_short_name(text, literal, sizeof(literal) - 1)            \
                                 : equal_name(text, literal, sizeof(literal) - 1))

enum http_name http_head_find_name(struct str name) {
        const char *s = name.ptr;

        switch (name.len) {
        case 4: return IS_NAME(s, "host") ? HTTP_NAME_HOST : HTTP_NAME_OTHER;
        case 6: return IS_NAME(s, "expect") ? HTTP_NAME_EXPECT : HTTP_NAME_OTHER;
        case 7: return IS_NAME(s, "upgrade") ? HTTP_NAME_UPGRADE : HTTP_NAME_OTHER;
        case 10: return IS_NAME(s, "connection") ? HTTP_NAME_CONNECTION : HTTP_NAME_OTHER;
        case 12: return IS_NAME(s, "content-type") ? HTTP_NAME_CONTENT_TYPE : HTTP_NAME_OTHER;
        case 14: return IS_NAME(s, "content-length") ? HTTP_NAME_CONTENT_LENGTH : HTTP_NAME_OTHER;
        case 15: return IS_NAME(s, "accept-encoding") ? HTTP_NAME_ACCEPT_ENCODING : HTTP_NAME_OTHER;
        case 16:
                if (IS_NAME(s, "content-encoding"))
                        return HTTP_NAME_CONTENT_ENCODING;
                return IS_NAME(s, "proxy-connection") ? HTTP_NAME_PROXY_CONNECTION
                                                      : HTTP_NAME_OTHER;
        case 17:
                return IS_NAME(s, "transfer-encoding") ? HTTP_NAME_TRANSFER_ENCODING
                                                       : HTTP_NAME_OTHER;
        case 31:
                return IS_NAME(s, "inference-header-content-length") ? HTTP_NAME_INFER_JSON_LENGTH
                                                                     : HTTP_NAME_OTHER;
        default: return HTTP_NAME_OTHER;
        }
}

/* ---- runs of characters ---- */

static ALWAYS_INLINE bool is_visible(char c) {
        return c > ' ' && c < 0x7f;
}

/* Returns the end of the leading visible characters; `first` ' ' includes blanks, '!' does not. */
static ALWAYS_INLINE const char *run_end(const char *at, const char *end, char first) {
#ifdef __SSE2__
        for (; end - at >= 16; at += 16) {
                __m128i text = _mm_loadu_si128((const __m128i *)(const void *)at);
                __m128i low =
                        _mm_cmplt_epi8(text, _mm_set1_epi8(first)); /* signed, so >= 0x80 as well */
                __m128i  del = _mm_cmpeq_epi8(text, _mm_set1_epi8(0x7f));
                unsigned stops = (unsigned)_mm_movemask_epi8(_mm_or_si128(low, del));

                if (stops != 0)
                        return at + __builtin_ctz(stops);
        }
#endif
        while (at < end && *at >= first && *at < 0x7f)
                at++;
        return at;
}

/* Returns the first colon, NULL if there is none. */
static ALWAYS_INLINE const char *find_colon(const char *at, const char *end) {
#ifdef __SSE2__
        for (; end - at >= 16; at += 16) {
                __m128i  text = _mm_loadu_si128((const __m128i *)(const void *)at);
                unsigned colons =
                        (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(':')));

                if (colons != 0)
                        return at + __builtin_ctz(colons);
        }
#endif
        return memchr(at, ':', (size_t)(end - at));
}

/* True for letters, digits, '-' and '_' only. Other characters are valid in a name but rare. */
static bool is_plain_name(struct str name) {
        /* One bit for each character. */
        static const uint64_t plain[4] = { 0x03ff200000000000, 0x07fffffe87fffffe, 0, 0 };

        for (size_t i = 0; i < name.len; i++) {
                unsigned char c = (unsigned char)name.ptr[i];

                if (!(plain[c / 64] >> (c % 64) & 1))
                        return false;
        }
        return name.len > 0;
}

/* ---- the head ---- */

struct cursor {
        const char *at;
        const char *end;
};

static ALWAYS_INLINE bool take_text(struct cursor *c, const char *text, size_t len) {
        if ((size_t)(c->end - c->at) < len || memcmp(c->at, text, len) != 0)
                return false;
        c->at += len;
        return true;
}

#define TAKE(cursor, literal) take_text((cursor), (literal), sizeof(literal) - 1)

static bool take_request_line(struct http_message *m, const char *base, struct cursor *c) {
        const char *target;

        if (TAKE(c, "POST ")) {
                m->method = HTTP_METHOD_POST;
                m->method_text = "POST";
        } else if (TAKE(c, "GET ")) {
                m->method = HTTP_METHOD_GET;
                m->method_text = "GET";
        } else {
                return false;
        }
        target = c->at;
        if (target == c->end || *target != '/')
                return false;
        c->at = run_end(target, c->end, '!');
        m->target_at = (uint32_t)(target - base);
        m->target_len = (uint32_t)(c->at - target);
        return TAKE(c, " HTTP/1.1\r\n");
}

/* Reads at most 18 digits, so it cannot overflow. */
static bool read_length(struct str digits, uint64_t *ret) {
        uint64_t n = 0;

        if (digits.len > 18)
                return false;
        for (size_t i = 0; i < digits.len; i++) {
                if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
                        return false;
                n = n * 10 + (uint64_t)(digits.ptr[i] - '0');
        }
        *ret = n;
        return true;
}

bool http_head_is_host(struct str value) {
        /* One bit for each character: those of names, addresses, ports and escapes. */
        static const uint64_t valid[4] = { 0x2fff6ff200000000, 0x47fffffeaffffffe, 0, 0 };

        for (size_t i = 0; i < value.len; i++) {
                unsigned char c = (unsigned char)value.ptr[i];

                if (!(valid[c / 64] >> (c % 64) & 1))
                        return false;
        }
        return value.len > 0;
}

/* Handles a field; false when it is not plain. Fields about the body and the connection are plain only in
 * their usual form, and when they occur once. */
static bool note_field(struct http_message *m, enum http_name name, struct str value) {
        bool is_first = m->known[name] == 0;

        switch (name) {
        case HTTP_NAME_HOST: return is_first && http_head_is_host(value);
        case HTTP_NAME_INFER_JSON_LENGTH: return is_first;
        case HTTP_NAME_CONTENT_LENGTH: return is_first && read_length(value, &m->content_length);
        case HTTP_NAME_CONNECTION:
                if (str_equal_nocase(value, STR_LIT("close")))
                        m->keep_alive = false;
                else if (!str_equal_nocase(value, STR_LIT("keep-alive")))
                        return false;
                return is_first;
        case HTTP_NAME_EXPECT:
        case HTTP_NAME_PROXY_CONNECTION:
        case HTTP_NAME_TRANSFER_ENCODING:
        case HTTP_NAME_UPGRADE: return false;
        default: return true;
        }
}

static bool take_field(struct http_message *m, const char *base, struct cursor *c) {
        const char    *name_at = c->at;
        const char    *colon = find_colon(name_at, c->end);
        struct str     name = str_range(name_at, colon != NULL ? (size_t)(colon - name_at) : 0);
        enum http_name known = http_head_find_name(name);
        struct str     value;

        if (colon == NULL || (known == HTTP_NAME_OTHER && !is_plain_name(name)))
                return false;
        c->at = colon + 1;
        TAKE(c, " ");
        value.ptr = c->at;
        c->at = run_end(c->at, c->end, ' ');
        value.len = (size_t)(c->at - value.ptr);
        if (value.len == 0 || *value.ptr == ' ' || value.ptr[value.len - 1] == ' ' ||
            !TAKE(c, "\r\n") || m->n_fields == m->limits->header_fields ||
            !note_field(m, known, value))
                return false;
        m->fields[m->n_fields++] = (struct http_field){
                .name_at = (uint32_t)(name_at - base),
                .name_len = (uint32_t)name.len,
                .value_at = (uint32_t)(value.ptr - base),
                .value_len = (uint32_t)value.len,
        };
        if (m->known[known] == 0)
                m->known[known] = (uint32_t)m->n_fields;
        return true;
}

static bool take_head(struct http_message *m, const char *base, struct cursor *c) {
        m->keep_alive = true;
        if (!take_request_line(m, base, c))
                return false;
        while (c->at < c->end && is_visible(*c->at))
                if (!take_field(m, base, c))
                        return false;
        if (!TAKE(c, "\r\n"))
                return false;
        m->head_bytes = (size_t)(c->at - base);
        return m->known[HTTP_NAME_HOST] > 0 && m->head_bytes <= m->limits->header_bytes;
}

bool http_head_read_plain(struct http_message *m, struct str bytes) {
        struct cursor c = { bytes.ptr, bytes.ptr + bytes.len };

        if (take_head(m, bytes.ptr, &c))
                return true;
        http_head_forget(m);
        return false;
}

void http_head_forget(struct http_message *m) {
        memset((char *)m + HTTP_MESSAGE_HEAD_AT, 0, HTTP_MESSAGE_HEAD_BYTES);
}
