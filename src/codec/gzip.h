/* SPDX-License-Identifier: BSD-3-Clause */
/* Compresses and decompresses bodies, always bounded: gzip (RFC 1952) and zlib (RFC 1950).
 *
 * Inflating detects the format from the bytes, whatever a header declares. A gzip body may consist
 * of several members, one after the other; a zlib body is one stream. Bytes after the end are
 * refused. Two bounds protect against decompression bombs: `max_bytes` of output, and the byte
 * budget of the pool that the output comes from. They have statuses of their own, so that the
 * caller can choose the error text.
 *
 * Pieces as they arrive:
 *
 *     while (in.len > 0 || written == sizeof(out))
 *             status = gzip_reader_read(r, &in, out, sizeof(out), &written); ...
 *     status = gzip_reader_end(r);
 *
 * Ownership.  gzip_reader_free() frees a reader. The ..._buf functions return a new buffer that the
 * caller owns.
 */
#pragma once

#include "base/buf.h"
#include "base/compiler.h"
#include "base/str.h"

#include <stddef.h>
#include <sys/uio.h>

enum gzip_status {
        GZIP_OK,
        GZIP_TOO_LARGE, /* the output exceeds max_bytes */
        GZIP_CORRUPT,   /* neither gzip nor zlib, or damaged */
        GZIP_TRUNCATED, /* the input ends too early; also for an empty input */
        GZIP_TRAILING,  /* bytes follow the end */
        GZIP_NO_MEMORY,
        GZIP_OVER_BUDGET, /* the pool's byte budget has no room for the output */
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

/* Reads from the front of *in and writes at most out_bytes (at least 1). When ret_written is
 * out_bytes there may be more output without more input. A failure is kept for later calls. */
enum gzip_status gzip_reader_read(struct gzip_reader *r, struct str *in, char *out,
                                  size_t out_bytes, size_t *ret_written);
/* Called after the last piece: GZIP_OK, GZIP_TRUNCATED, or the failure that was kept. */
enum gzip_status gzip_reader_end(const struct gzip_reader *r);

/* Inflates a whole body at once. `pool` may be NULL. *ret_buf is written only on GZIP_OK. */
enum gzip_status gzip_inflate_buf(struct str in, size_t max_bytes, struct buf_pool *pool,
                                  struct buf **ret_buf);

/* Compresses the parts, one after the other, into one body. */
enum gzip_status gzip_deflate_buf(enum gzip_format format, const struct iovec *parts,
                                  size_t n_parts, struct buf_pool *pool, struct buf **ret_buf);
