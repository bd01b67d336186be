/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/url.h"

#include <string.h>

static bool is_escape(struct str s) {
        return s.len >= 3 && str_hex_digit(s.ptr[1]) >= 0 && str_hex_digit(s.ptr[2]) >= 0;
}

/* Computes the length of the decoded text; false when an escape is malformed. */
static bool decoded_length(struct str s, size_t *ret_len) {
        size_t len = 0;

        for (size_t i = 0; i < s.len; i++, len++) {
                if (s.ptr[i] != '%')
                        continue;
                if (!is_escape(str_skip(s, i)))
                        return false;
                i += 2;
        }
        *ret_len = len;
        return true;
}

bool url_decode(struct str in, struct strbuf *out) {
        size_t len;

        if (!decoded_length(in, &len))
                return false;
        if (len == 0 || !strbuf_reserve(out, len))
                return true;
        for (size_t i = 0; i < in.len; i++) {
                char c = in.ptr[i];

                if (c == '%') {
                        c = (char)(str_hex_digit(in.ptr[i + 1]) << 4 |
                                   str_hex_digit(in.ptr[i + 2]));
                        i += 2;
                }
                out->ptr[out->len++] = c;
        }
        out->ptr[out->len] = '\0';
        return true;
}

static bool is_unreserved(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_' || c == '~';
}

void url_encode(struct str in, bool keeps_slash, struct strbuf *out) {
        static const char digits[] = "0123456789ABCDEF";

        for (size_t i = 0; i < in.len; i++) {
                unsigned char c = (unsigned char)in.ptr[i];
                char          escape[3] = { '%', digits[c >> 4], digits[c & 15] };

                if (is_unreserved(in.ptr[i]) || (keeps_slash && c == '/'))
                        strbuf_putc(out, in.ptr[i]);
                else
                        strbuf_put(out, escape, sizeof(escape));
        }
}

void url_put_name(struct str name, struct strbuf *out) {
        const char *escaped = str_is_plain(name) ? "#?/" : "#?/%";

        for (size_t i = 0; i < name.len; i++) {
                unsigned char b = (unsigned char)name.ptr[i];

                if (b > ' ' && b < 0x7f && strchr(escaped, b) == NULL)
                        strbuf_putc(out, (char)b);
                else
                        strbuf_printf(out, "%%%02X", b);
        }
}

void url_put_parameter(struct strbuf *out, const char *name, const char *value) {
        if (out->len > 0)
                strbuf_putc(out, '&');
        strbuf_printf(out, "%s=", name);
        url_encode(str_of(value), false, out);
}
