/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_model_name.h"

#include "base/compiler.h"
#include "codec/url.h"

#include <string.h>

static bool is_hex(char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* An escape of a byte that is not ASCII: its first digit is 8 to f. */
static bool has_high_escape(struct str s) {
        for (size_t i = 0; i + 2 < s.len; i++)
                if (s.ptr[i] == '%' && is_hex(s.ptr[i + 1]) && s.ptr[i + 1] >= '8' &&
                    is_hex(s.ptr[i + 2]))
                        return true;
        return false;
}

static struct error *decode(struct str segment, struct arena *arena, struct str *ret) {
        AUTO_STRBUF name = { 0 };
        char       *kept;

        strbuf_init(&name, 0);
        if (!url_decode(segment, &name))
                return error_new(ERR_INVALID_ARG,
                                 "the model name '%.*s' has a percent escape that is not two "
                                 "hexadecimal digits",
                                 STR_ARG(segment));
        if (!str_is_utf8(strbuf_str(&name)))
                return error_new(ERR_INVALID_ARG,
                                 "the model name '%.*s' is not percent-encoded UTF-8",
                                 STR_ARG(segment));
        if (memchr(name.ptr, '/', name.len) || memchr(name.ptr, '\0', name.len))
                return error_new(ERR_INVALID_ARG,
                                 "the model name '%.*s' contains a slash or a NUL character",
                                 STR_ARG(segment));
        kept = arena_try_str(arena, strbuf_str(&name));
        if (!kept)
                return error_new(ERR_UNAVAILABLE, "out of memory for the model name");
        *ret = str_range(kept, name.len);
        return NULL;
}

struct error *http_model_name_read(struct str segment, struct arena *arena, struct str *ret) {
        if (UNLIKELY(has_high_escape(segment)))
                return decode(segment, arena, ret);
        *ret = segment;
        return NULL;
}
