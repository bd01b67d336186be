/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes resets of streams that were never begun out of the bytes that a client sends.
 *
 * The C-core library of gRPC (C++, Python, C#, ...) sends such a RST_STREAM for a call that ends, by its deadline for
 * example, after it got the number of its stream and before its head was sent. RFC 9113 calls that an error of the
 * connection, and so does nghttp2, which would end all other calls of the connection as well. The reference server
 * ignores it.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define H2_FRAME_HEAD_BYTES 9

struct h2_scan {
        uint32_t left;    /* bytes up to the head of the next frame */
        uint32_t n_stray; /* bytes of a frame taken out that are still to come */
        int32_t  last_id; /* the highest stream that was begun */
        uint32_t n_head;  /* bytes of a frame's head that came last, without the rest */
        char     head[H2_FRAME_HEAD_BYTES];
};

/* What comes first. */
struct h2_piece {
        struct str feed;     /* for the session; may be empty */
        size_t     n_used;   /* of the given bytes */
        bool       is_stray; /* here is a reset that was taken out */
};

/* At the start of a connection, before the client's preface. */
void h2_scan_init(struct h2_scan *s);
/* `feed` is a part of the bytes, or of the scan until its next use. */
struct h2_piece h2_scan_take(struct h2_scan *s, struct str bytes);
/* After h2_scan_take(): the session took only the first n bytes of `fed`. `before` is the state before that call. */
void h2_scan_take_back(struct h2_scan *s, const struct h2_scan *before, struct str fed, size_t n);
