/* SPDX-License-Identifier: BSD-3-Clause */
/* A text buffer that grows, up to a maximum.
 *
 * Appending never fails half-way: beyond the maximum, or when memory is short, the buffer becomes
 * `overflowed`, keeps its text and ignores later text; the caller checks once at the end.
 *
 * `struct strbuf b = { 0 }` is an empty buffer of at most 1 GiB, `{ .max = n }` one of at most n bytes.
 *
 * Ownership.  strbuf_done() frees; strbuf_take() passes the NUL-terminated text to the caller.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
        char  *ptr; /* owned; NUL-terminated whenever cap > 0 */
        size_t len; /* without the NUL */
        size_t cap;
        size_t max; /* bytes, without the NUL; 0: 1 GiB */
        bool   overflowed;
        bool   no_memory; /* overflowed below the maximum, since memory was short */
};

void   strbuf_init(struct strbuf *b, size_t max); /* as { .max = max } */
size_t strbuf_max(const struct strbuf *b);
void   strbuf_done(struct strbuf *b);  /* the buffer is empty afterwards, with the same maximum */
void   strbuf_clear(struct strbuf *b); /* keeps the memory */
char  *strbuf_take(struct strbuf *b);  /* never NULL; the buffer is empty afterwards */
void   strbuf_put(struct strbuf *b, const void *bytes, size_t len);
void   strbuf_putc(struct strbuf *b, char c);
void   strbuf_puts(struct strbuf *b, const char *text);
void   strbuf_printf(struct strbuf *b, const char *format, ...) PRINTF_LIKE(2, 3);
bool   strbuf_reserve(struct strbuf *b, size_t extra); /* room for `extra` more bytes */
/* Makes room that is never missing, as mem_realloc() does: only for short texts. */
void strbuf_need(struct strbuf *b, size_t extra);
/* Makes `b` overflowed when `part`, from which its text comes, is. */
void strbuf_spoil(struct strbuf *b, const struct strbuf *part);
/* The error of a buffer that has overflowed: UNAVAILABLE "no memory for <what>", or INTERNAL "<what>
 * is longer than <max> bytes". NULL when it has not. */
struct error *strbuf_check(const struct strbuf *b, const char *what) NODISCARD;
struct str    strbuf_str(const struct strbuf *b);
const char   *strbuf_cstr(const struct strbuf *b); /* "" when empty */

/* strbuf_put() for a length that is known to the compiler: the copy is a few moves without a call. */
static ALWAYS_INLINE void strbuf_put_few(struct strbuf *b, const void *bytes, size_t len) {
        if (b->overflowed || b->cap - b->len <= len) {
                strbuf_put(b, bytes, len);
                return;
        }
        memcpy(b->ptr + b->len, bytes, len);
        b->len += len;
        b->ptr[b->len] = '\0';
}

#define STRBUF_PUT_LIT(b, literal) strbuf_put_few((b), "" literal, sizeof(literal) - 1)

#define AUTO_STRBUF CLEANUP(strbuf_done) struct strbuf
