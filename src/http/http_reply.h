/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of an answer: its status, its head, its compressed body, the JSON of an error. No I/O; the
 * connection (http_conn.c) decides what is sent and when.
 *
 * Ownership.  Results are in the arena, or in a buf whose reference the caller gets.
 * Threads.  Any.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "http/http_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_encoding {
        HTTP_ENCODING_IDENTITY,
        HTTP_ENCODING_GZIP,
        HTTP_ENCODING_DEFLATE,
};

/* State of the choice of an encoding; { 0 } before the first field. */
struct http_encoding_choice {
        enum http_encoding best;
        unsigned           weight; /* thousandths */
};

/* Adds an Accept-Encoding field to the choice ("KServe over HTTP, compression"); several fields count as
 * one list. The known encoding with the highest weight is chosen, the first of equal ones. Encodings with
 * weight 0 are not chosen. */
void http_encoding_consider(struct http_encoding_choice *choice, struct str accept);
/* Returns the highest weight, in thousandths, of a media type in an Accept field; 0 when the field does not
 * name it. An entry with another `version` than this one does not count; wildcards do not either. */
unsigned    http_accept_weight(struct str accept, const char *type, const char *version);
const char *http_encoding_name(enum http_encoding encoding);

struct http_framing {
        struct str content_type;
        uint64_t   content_length;
        bool       is_chunked;
        bool       is_http10; /* chunks have no framing; keep-alive is announced */
        bool       closes;    /* the connection is closed after this answer */
};

/* The status that stands for an error's code (KServe v2, as the reference maps it): INTERNAL 500,
 * NOT_FOUND 404, UNAVAILABLE 503, UNSUPPORTED 501, the rest 400. */
unsigned http_status_of_code(enum error_code code);

/* Returns an upper bound of the bytes that http_reply_print_head() writes. */
size_t http_reply_measure_head(const struct http_reply *reply, struct str content_type);
/* Prints status line, fields and blank line to `at`; returns their end. */
char *http_reply_print_head(const struct http_reply *reply, const struct http_framing *f, char *at);

/* Compresses the parts into one buffer. Returns false and changes nothing when memory is short. */
bool http_reply_compress(const struct http_part *parts, size_t n_parts, enum http_encoding encoding,
                         struct arena *arena, struct buf_pool *pool, struct http_part *ret)
        NODISCARD;

/* Returns {"error":"<message>"}. */
struct str http_reply_error_text(struct arena *arena, const char *message);
/* Returns the object of the OpenAI API (openai_error.h). */
struct str http_reply_openai_error(struct arena *arena, unsigned status, const char *message);

/* Limits of http_reply_gather(). */
#define HTTP_GATHERED_PARTS 15
#define HTTP_GATHERED_HEADERS 4

/* An answer whose parts and headers are in buffers, not in the call's memory. */
struct http_gathered {
        struct http_reply  reply;
        struct buf        *holder; /* ref; each part inside it has another one */
        struct http_part   parts[HTTP_GATHERED_PARTS];
        struct http_header headers[HTTP_GATHERED_HEADERS];
};

/* Copies the parts and headers that are in the call's memory. Returns false and changes nothing when memory
 * is short or the answer has too many parts or headers. */
bool http_reply_gather(const struct http_reply *reply, struct buf_pool *pool,
                       struct http_gathered *ret) NODISCARD;
