/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the responses of a server over HTTP/1.1, strictly and without sockets (RFC 9112).
 *
 *     while (in.len > 0)
 *             switch (http_response_read(&r, &in)) ...
 *
 * A body has a Content-Length or is chunked; one that ends with the connection is refused, since a load
 * generator could not tell it from a broken one. A head and body that are complete in the given bytes are
 * not copied.
 *
 * Ownership.  The response owns what it has gathered. `body` is a range of it or of the given bytes, and
 * valid until the next call.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_RESPONSE_MAX_HEAD ((size_t)64 << 10)
#define HTTP_RESPONSE_MAX_BODY ((size_t)1 << 30)

enum http_response_state {
        HTTP_RESPONSE_HEAD,
        HTTP_RESPONSE_BODY,       /* of `left` more bytes */
        HTTP_RESPONSE_CHUNK_SIZE, /* a line of its own */
        HTTP_RESPONSE_CHUNK,
        HTTP_RESPONSE_CHUNK_END,
        HTTP_RESPONSE_TRAILER,
};

enum http_response_result { HTTP_RESPONSE_MORE, HTTP_RESPONSE_DONE, HTTP_RESPONSE_BAD };

struct http_response {
        int         status;
        size_t      header_length; /* of Inference-Header-Content-Length; 0: there is none */
        bool        is_last;       /* the server closes the connection */
        struct str  body;          /* after HTTP_RESPONSE_DONE */
        const char *wrong;         /* after HTTP_RESPONSE_BAD; static */

        enum http_response_state state;
        bool                     has_length, is_chunked;
        uint64_t                 left;  /* bytes of the body or of the chunk */
        struct strbuf            line;  /* owned: an incomplete head or line */
        struct strbuf            whole; /* owned: a body that came in pieces */
};

void http_response_init(struct http_response *r);
void http_response_done(struct http_response *r);
/* Consumes bytes from the front of *in. After HTTP_RESPONSE_DONE the next call begins the next response. */
enum http_response_result http_response_read(struct http_response *r, struct str *in);
