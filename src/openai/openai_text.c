/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_text.h"

#include <string.h>

/* Number of bytes of the character that begins with `c`; 1 for bytes that begin none. */
static size_t announced_bytes(unsigned char c) {
        if (c >= 0xc2 && c <= 0xdf)
                return 2;
        if (c >= 0xe0 && c <= 0xef)
                return 3;
        return c >= 0xf0 && c <= 0xf4 ? 4 : 1;
}

/* True when no byte can follow: surrogates, overlong forms, and values beyond U+10FFFF. */
static bool is_hopeless(const unsigned char *s, size_t n) {
        if (n < 2)
                return false;
        return (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
}

size_t openai_text_unfinished(struct str text) {
        const unsigned char *s = (const unsigned char *)text.ptr;

        for (size_t n = 1; n <= 3 && n <= text.len; n++) {
                const unsigned char *first = s + text.len - n;

                if ((*first & 0xc0) == 0x80)
                        continue;
                return announced_bytes(*first) > n && !is_hopeless(first, n) ? n : 0;
        }
        return 0;
}

size_t openai_text_characters(struct str text) {
        size_t n = 0;

        for (size_t i = 0; i < text.len; i++)
                n += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
        return n;
}

struct str openai_hold_pass(struct openai_hold *h, struct str piece, bool is_end,
                            struct strbuf *joined) {
        size_t n;

        if (h->n > 0) {
                strbuf_clear(joined);
                strbuf_put(joined, h->bytes, h->n);
                strbuf_put(joined, piece.ptr, piece.len);
                piece = strbuf_str(joined);
        }
        n = is_end ? 0 : openai_text_unfinished(piece);
        piece.len -= n;
        if (n > 0)
                memcpy(h->bytes, piece.ptr + piece.len, n);
        h->n = (uint8_t)n;
        return piece;
}

bool openai_elements_next(struct openai_elements *e, struct str *ret) {
        uint32_t len;

        if (e->left.len < sizeof(len))
                return false;
        memcpy(&len, e->left.ptr, sizeof(len));
        if (len > e->left.len - sizeof(len))
                return false;
        *ret = str_range(e->left.ptr + sizeof(len), len);
        e->left = str_range(ret->ptr + len, e->left.len - sizeof(len) - len);
        return true;
}
