/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/strbuf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

#define STRBUF_FIRST_BYTES 128
#define STRBUF_DEFAULT_MAX_BYTES ((size_t)1 << 30)

void strbuf_init(struct strbuf *b, size_t max) {
        *b = (struct strbuf){ .max = max };
}

size_t strbuf_max(const struct strbuf *b) {
        return b->max > 0 ? b->max : STRBUF_DEFAULT_MAX_BYTES;
}

void strbuf_done(struct strbuf *b) {
        free(b->ptr);
        strbuf_init(b, b->max);
}

void strbuf_clear(struct strbuf *b) {
        b->len = 0;
        b->overflowed = b->no_memory = false;
        if (b->cap > 0)
                b->ptr[0] = '\0';
}

char *strbuf_take(struct strbuf *b) {
        char *text = b->ptr != NULL ? STEAL(b->ptr) : mem_strdup("");

        strbuf_init(b, b->max);
        return text;
}

static NOINLINE bool grow_strbuf(struct strbuf *b, size_t extra) {
        const size_t max = strbuf_max(b);
        size_t       needed, cap;
        char        *memory;

        if (!size_add(b->len, extra, &needed) || needed > max || !size_add(needed, 1, &needed))
                return false;
        cap = b->cap > 0 ? b->cap : STRBUF_FIRST_BYTES / 2;
        cap = MAX(needed, cap <= SIZE_MAX / 2 ? cap * 2 : cap);
        if (cap - 1 > max)
                cap = max + 1; /* needed is at most this: checked above */

        memory = try_realloc(b->ptr, cap);
        if (memory == NULL)
                return false;
        b->ptr = memory;
        b->cap = cap;
        b->ptr[b->len] = '\0';
        return true;
}

bool strbuf_reserve(struct strbuf *b, size_t extra) {
        if (b->overflowed)
                return false;
        /* cap counts the NUL, so cap - len - 1 bytes are free. */
        if (b->cap > 0 && extra <= b->cap - b->len - 1)
                return true;
        if (grow_strbuf(b, extra))
                return true;
        b->overflowed = true;
        b->no_memory = extra <= strbuf_max(b) - b->len;
        return false;
}

void strbuf_need(struct strbuf *b, size_t extra) {
        size_t cap = b->len + extra + 1;

        if (cap <= b->cap)
                return;
        b->ptr = mem_realloc(b->ptr, cap);
        b->cap = cap;
        b->ptr[b->len] = '\0';
}

void strbuf_spoil(struct strbuf *b, const struct strbuf *part) {
        if (!part->overflowed || b->overflowed)
                return;
        b->overflowed = true;
        b->no_memory = part->no_memory;
}

struct error *strbuf_check(const struct strbuf *b, const char *what) {
        if (!b->overflowed)
                return NULL;
        return b->no_memory ? error_new(ERR_UNAVAILABLE, "no memory for %s", what)
                            : error_new(ERR_INTERNAL, "%s is longer than %zu bytes", what,
                                        strbuf_max(b));
}

void strbuf_put(struct strbuf *b, const void *bytes, size_t len) {
        if (len == 0 || !strbuf_reserve(b, len))
                return;
        memcpy(b->ptr + b->len, bytes, len);
        b->len += len;
        b->ptr[b->len] = '\0';
}

void strbuf_putc(struct strbuf *b, char c) {
        strbuf_put(b, &c, 1);
}

void strbuf_puts(struct strbuf *b, const char *text) {
        strbuf_put(b, text, strlen(text));
}

void strbuf_printf(struct strbuf *b, const char *format, ...) {
        size_t  room = b->cap > b->len ? b->cap - b->len : 0;
        va_list args;
        int     printed;

        if (b->overflowed)
                return;
        va_start(args, format);
        printed = vsnprintf(room > 0 ? b->ptr + b->len : NULL, room, format, args);
        va_end(args);
        if (printed <= 0)
                return;

        if ((size_t)printed >= room) {
                if (room > 0)
                        b->ptr[b->len] = '\0'; /* the old text, if there is no room at all */
                if (!strbuf_reserve(b, (size_t)printed))
                        return;
                va_start(args, format);
                vsnprintf(b->ptr + b->len, (size_t)printed + 1, format, args);
                va_end(args);
        }
        b->len += (size_t)printed;
}

struct str strbuf_str(const struct strbuf *b) {
        return str_range(b->ptr, b->len);
}

const char *strbuf_cstr(const struct strbuf *b) {
        return b->cap > 0 ? b->ptr : "";
}
