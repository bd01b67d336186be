/* SPDX-License-Identifier: BSD-3-Clause */
/* Strict reader of the framing of a chunked body (RFC 9112, 7.1), fed in any number of pieces. It
 * allocates nothing.
 *
 * If a proxy and the server disagree about where a chunked request ends, an attacker can smuggle a second
 * request through (request smuggling). So this reader is stricter than a library: every line ends in
 * CRLF, a size is only hexadecimal digits, and a trailer is a name, a colon and a value on one line.
 *
 *     SIZE  4;a=b\r\n   -> EXTENSION (each run of them), SIZE
 *           wiki\r\n    -> BYTES (each run of them)
 *           0\r\n       -> SIZE
 *           A: b\r\n    -> TRAILER
 *           \r\n        -> END
 *
 * Ownership.  A plain struct; all zero is the start of a body.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/str.h"

#include <stdint.h>

enum http_chunk_state {
        HTTP_CHUNK_FIRST_DIGIT,
        HTTP_CHUNK_DIGITS,
        HTTP_CHUNK_EXTENSION_TEXT,
        HTTP_CHUNK_SIZE_LF,
        HTTP_CHUNK_DATA,
        HTTP_CHUNK_DATA_CR,
        HTTP_CHUNK_DATA_LF,
        HTTP_CHUNK_TRAILER_LINE, /* its first character */
        HTTP_CHUNK_TRAILER_NAME,
        HTTP_CHUNK_TRAILER_VALUE,
        HTTP_CHUNK_TRAILER_LF,
        HTTP_CHUNK_LAST_LF,
};

enum http_chunk_event {
        HTTP_CHUNK_MORE,      /* all input is consumed */
        HTTP_CHUNK_SIZE,      /* `left` is the size of the next chunk; 0 = it was the last one */
        HTTP_CHUNK_EXTENSION, /* *ret_bytes: a part of an extension */
        HTTP_CHUNK_BYTES,     /* *ret_bytes: a part of the body */
        HTTP_CHUNK_TRAILER,   /* a trailer is complete */
        HTTP_CHUNK_END,
        HTTP_CHUNK_MALFORMED, /* see `reason` */
};

struct http_chunk_reader {
        enum http_chunk_state state;
        uint64_t              left;   /* bytes of the current chunk */
        const char           *reason; /* static */
};

/* Consumes the bytes of the next event from the front of *in; *ret_bytes is a range of them. */
enum http_chunk_event http_chunk_reader_next(struct http_chunk_reader *r, struct str *in,
                                             struct str *ret_bytes);
