/* SPDX-License-Identifier: BSD-3-Clause */
/* Compressed bodies: gzip (RFC 1952) and zlib (RFC 1950), in and out, always bounded.
 *
 * Inflating tells the two formats apart by itself, whatever a header called them. A gzip body may
 * consist of several members, one after the other; a zlib body is one stream. Anything behind the
 * end is refused. Two bounds hold against bodies that explode: `max_bytes` of output, and the byte
 * budget of the pool that the output comes from. They have statuses of their own, so that the
 * caller can answer in its own words.
 *
 * Pieces as they arrive:
 *
 *     while (in.len > 0 || written == sizeof(out))
 *             status = gzip_reader_read(r, &in, out, sizeof(out), &written); ...
 *     status = gzip_reader_end(r);
 *
 * Ownership.  gzip_reader_new() is ended by gzip_reader_free(). The ..._buf functions give a new
 * buffer to the caller.
 */
#pragma once

#include "base/buf.h"
#include "base/compiler.h"
#include "base/str.h"

#include <stddef.h>
#include <sys/uio.h>

enum gzip_status {
        GZIP_OK,
        GZIP_TOO_LARGE, /* more than max_bytes come out */
        GZIP_CORRUPT,   /* neither gzip nor zlib, or damaged */
        GZIP_TRUNCATED, /* the input stops too early; an empty input too */
        GZIP_TRAILING,  /* something follows the end */
        GZIP_NO_MEMORY,
        GZIP_OVER_BUDGET, /* the pool's byte budget has no room for what comes out */
};

enum gzip_format {
        GZIP_FORMAT_GZIP, /* Content-Encoding: gzip */
        GZIP_FORMAT_ZLIB, /* Content-Encoding: deflate */
};

/* A short English reason, static. */
const char *gzip_status_text(enum gzip_status status);

struct gzip_reader;

struct gzip_reader *gzip_reader_new(size_t max_bytes) NODISCARD; /* NULL when memory is short */
void                gzip_reader_free(struct gzip_reader *r);

/* Takes what it can from the front of *in and writes at most out_bytes (at least 1). When
 * *ret_written is out_bytes there may be more to come without more input. A failure sticks. */
enum gzip_status gzip_reader_read(struct gzip_reader *r, struct str *in, char *out,
                                  size_t out_bytes, size_t *ret_written);
/* After the last piece: GZIP_OK, GZIP_TRUNCATED, or the failure that stuck. */
enum gzip_status gzip_reader_end(const struct gzip_reader *r);

/* A whole body at once. `pool` may be NULL. *ret_buf is written only on GZIP_OK. */
enum gzip_status gzip_inflate_buf(struct str in, size_t max_bytes, struct buf_pool *pool,
                                  struct buf **ret_buf);

/* The parts, one after the other, as one compressed body. */
enum gzip_status gzip_deflate_buf(enum gzip_format format, const struct iovec *parts,
                                  size_t n_parts, struct buf_pool *pool, struct buf **ret_buf);
