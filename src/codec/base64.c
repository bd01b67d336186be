/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/base64.h"

#include "base/mem.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Value of a digit, 0 to 63, or -1. */
static int value_of(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Reserves room for `bytes` more, without changing the length. */
static char *reserve_output(struct strbuf *out, size_t bytes) {
        return strbuf_reserve(out, bytes) ? out->ptr + out->len : NULL;
}

static void set_end(struct strbuf *out, const char *end) {
        out->len = (size_t)(end - out->ptr);
        out->ptr[out->len] = '\0';
}

void base64_encode(struct str in, struct strbuf *out) {
        const unsigned char *p = (const unsigned char *)in.ptr;
        size_t               left = in.len, bytes;
        char                *to;

        /* A length that overflows makes the buffer overflow, as any other length beyond its
         * maximum. */
        if (!size_mul(in.len / 3 + 1, 4, &bytes))
                bytes = SIZE_MAX;
        to = reserve_output(out, in.len == 0 ? 0 : in.len % 3 == 0 ? bytes - 4 : bytes);
        if (to == NULL || left == 0)
                return;
        for (; left > 0; left -= left < 3 ? left : 3) {
                uint32_t group = (uint32_t)p[0] << 16;

                group |= left > 1 ? (uint32_t)p[1] << 8 : 0;
                group |= left > 2 ? p[2] : 0;
                *to++ = alphabet[group >> 18];
                *to++ = alphabet[group >> 12 & 63];
                *to++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
                *to++ = left > 2 ? alphabet[group & 63] : '=';
                p += left < 3 ? left : 3;
        }
        set_end(out, to);
}

/* Decodes one group of four. Returns the number of bytes, 0 for an invalid group. '=' only in the
 * last group. */
static size_t decode_group(const char *at, bool is_last, char *to) {
        int    a = value_of(at[0]), b = value_of(at[1]), c = value_of(at[2]), d = value_of(at[3]);
        size_t n = 3;

        if (is_last && at[3] == '=') {
                d = 0;
                n = at[2] == '=' ? 1 : 2;
                c = n == 1 ? 0 : c;
        }
        if (a < 0 || b < 0 || c < 0 || d < 0)
                return 0;
        if ((n == 1 && (b & 15) != 0) || (n == 2 && (c & 3) != 0))
                return 0; /* unused bits are set */
        to[0] = (char)(a << 2 | b >> 4);
        if (n > 1)
                to[1] = (char)(b << 4 | c >> 2);
        if (n > 2)
                to[2] = (char)(c << 6 | d);
        return n;
}

bool base64_decode(struct str in, struct strbuf *out) {
        char *to;

        if (in.len % 4 != 0)
                return false;
        if (in.len == 0)
                return true;
        for (size_t i = 0; i < in.len;
             i += 4) { /* first validates all groups, so as to append all or nothing */
                char bytes[3];

                if (decode_group(in.ptr + i, i + 4 == in.len, bytes) == 0)
                        return false;
        }
        to = reserve_output(out, in.len / 4 * 3 - (in.ptr[in.len - 1] == '=') -
                                         (in.ptr[in.len - 2] == '='));
        if (to == NULL)
                return true; /* well-formed; the buffer reports that it is full */
        for (size_t i = 0; i < in.len; i += 4)
                to += decode_group(in.ptr + i, i + 4 == in.len, to);
        set_end(out, to);
        return true;
}

bool base64_decode_exactly(struct str in, unsigned char *ret, size_t n) {
        AUTO_STRBUF bytes = { .max = n + 2 };

        if (!base64_decode(in, &bytes) || bytes.len != n || bytes.overflowed)
                return false;
        memcpy(ret, bytes.ptr, n);
        return true;
}

void base64_decode_lenient(struct str in, struct strbuf *out) {
        uint32_t bits = 0;
        unsigned n_bits = 0;
        size_t   n_letters = 0;
        char    *to;

        for (size_t i = 0; i < in.len; i++)
                n_letters += value_of(in.ptr[i]) >= 0;
        to = reserve_output(out, n_letters / 4 * 3 + n_letters % 4 * 3 / 4);
        if (to == NULL || n_letters == 0)
                return;
        for (size_t i = 0; i < in.len; i++) {
                int value = value_of(in.ptr[i]);

                if (value < 0)
                        continue;
                bits = bits << 6 | (uint32_t)value;
                n_bits += 6;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        *to++ = (char)(bits >> n_bits);
                }
        }
        set_end(out, to);
}
