/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a compressed body: whole and in pieces end alike, the bounds hold; and any bytes
 * compressed come back.
 */
#include "base/strbuf.h"
#include "codec/gzip.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MAX_BYTES (2u << 20) /* quick */

static void stop(const char *what, enum gzip_status status) {
        fprintf(stderr, "%s: %s\n", what, gzip_status_text(status));
        abort();
}

/* In pieces of in_step bytes to pieces of at most 1000. */
static enum gzip_status inflate_pieces(struct str in, size_t in_step, struct strbuf *out) {
        struct gzip_reader *r = gzip_reader_new(MAX_BYTES);
        enum gzip_status    status = GZIP_OK;
        char                bytes[1000];

        if (r == NULL)
                abort();
        for (size_t at = 0; at < in.len && status == GZIP_OK; at += in_step) {
                struct str piece = str_range(in.ptr + at, MIN(in_step, in.len - at));
                size_t     n_written = sizeof(bytes);

                while (status == GZIP_OK && (piece.len > 0 || n_written == sizeof(bytes))) {
                        status = gzip_reader_read(r, &piece, bytes, sizeof(bytes), &n_written);
                        strbuf_put(out, bytes, n_written);
                }
        }
        status = gzip_reader_end(r);
        gzip_reader_free(r);
        return status;
}

static void check_inflate(struct str in) {
        AUTO_STRBUF      pieces;
        struct buf      *whole = NULL;
        enum gzip_status status, piece_status;

        strbuf_init(&pieces, 0);
        status = gzip_inflate_buf(in, MAX_BYTES, NULL, &whole);
        piece_status = inflate_pieces(in, 1 + in.len % 97, &pieces);
        if ((whole != NULL && whole->len > MAX_BYTES) || pieces.len > MAX_BYTES)
                stop("more than the maximum", status);
        if (piece_status != status)
                stop("pieces end differently", piece_status);
        if (status == GZIP_OK && piece_status == GZIP_OK &&
            !str_equal(str_range(whole->bytes, whole->len), strbuf_str(&pieces)))
                stop("pieces differ", status);
        buf_unref(whole);
}

static void check_round_trip(struct str in) {
        enum gzip_format format = in.len % 2 == 0 ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB;
        size_t           half = in.len / 2;
        struct iovec     parts[2] = { { (void *)(uintptr_t)in.ptr, half },
                                      { (void *)(uintptr_t)(in.ptr + half), in.len - half } };
        struct buf      *coded, *plain;
        enum gzip_status status = gzip_deflate_buf(format, parts, 2, NULL, &coded);

        if (status != GZIP_OK)
                stop("cannot compress", status);
        status = gzip_inflate_buf(str_range(coded->bytes, coded->len), in.len, NULL, &plain);
        if (status != GZIP_OK)
                stop("cannot read what was compressed", status);
        if (!str_equal(str_range(plain->bytes, plain->len), in))
                stop("what was compressed came back changed", status);
        buf_unref(plain);
        buf_unref(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct str in = str_range((const char *)bytes, size);

        check_inflate(in);
        check_round_trip(in);
        return 0;
}
