/* SPDX-License-Identifier: BSD-3-Clause */
/* Parser of an HTTP/1.x request: its head, and a chunked body. It uses no socket and no clock.
 *
 * llhttp parses the head in its strict mode. The parser also refuses requests that llhttp accepts but
 * about whose end another reader might disagree (request smuggling): folded header lines, a line that
 * does not end in CRLF, transfer codings other than "chunked", "chunked" on HTTP/1.0, and a second Host.
 * It keeps names and values as offsets, so the caller may move the bytes to a larger buffer between two
 * calls.
 *
 *     http_message_parse_head(m, bytes so far of this request) until DONE or REFUSED;
 *     when m->is_chunked: http_message_parse_chunks(m, bytes that follow) until DONE or REFUSED;
 *     otherwise the next m->content_length bytes are the body. The caller checks their number.
 *     http_message_reset(m) for the next request.
 *
 * Ownership.  http_message_new() / http_message_free(). A chunked body grows in m->body, which the
 * caller may STEAL().
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/compiler.h"
#include "base/str.h"
#include "http/http_call.h"
#include "http/http_chunk_reader.h"
#include "http/http_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct buf_pool;
struct http_parser;

enum http_parse {
        HTTP_PARSE_MORE, /* all bytes were consumed; more are needed */
        HTTP_PARSE_DONE,
        HTTP_PARSE_REFUSED, /* see `refusal`; the bytes that follow cannot be parsed */
};

struct http_refusal {
        unsigned        status;
        enum http_limit limit;
        char           *text; /* owned by the message */
};

/* Offsets from the first byte of the request. */
struct http_field {
        uint32_t name_at, name_len;
        uint32_t value_at, value_len;
};

/* The fields that a plain head (http_head.h) touches come last, in whole cache lines. */
struct http_message {
        struct buf *body; /* ref: the chunks' bytes; NULL before the first */

        /* Private: state of the parser, which a plain head does not use. */
        struct buf_pool         *pool;   /* borrowed; may be NULL */
        struct http_parser      *parser; /* owned */
        const char              *base;   /* borrowed: during a call only */
        size_t                   n_chunks;
        size_t                   extension_bytes; /* of the current chunk */
        size_t                   framing_bytes;   /* since the last byte of the body */
        size_t                   n_trailers;
        size_t                   max_body_bytes; /* of a chunked body */
        bool                     name_is_complete;
        bool                     in_chunks;
        struct http_chunk_reader chunks;

        /* Set by the head. */
        _Alignas(CACHE_LINE_BYTES) size_t head_bytes; /* request line, fields, blank line */
        uint64_t         content_length;
        const char      *method_text; /* static */
        uint32_t         target_at, target_len;
        size_t           n_fields;
        enum http_method method;
        bool             is_chunked;
        bool             is_http10;
        bool             keep_alive;
        bool             expects_continue;
        uint32_t         known[N_HTTP_NAMES]; /* 1 + index of the first such field; 0 = none */

        struct http_refusal refusal;

        /* Private. */
        size_t                    fed_bytes; /* given to the parser so far */
        const struct http_limits *limits;    /* borrowed */
        struct http_field         fields[];  /* limits->header_fields of them */
};

/* Range of the bytes that reading a head sets, except `fields`. */
#define HTTP_MESSAGE_HEAD_AT offsetof(struct http_message, head_bytes)
#define HTTP_MESSAGE_HEAD_BYTES (offsetof(struct http_message, refusal) - HTTP_MESSAGE_HEAD_AT)

struct http_message *http_message_new(const struct http_limits *limits, struct buf_pool *pool);
void                 http_message_free(struct http_message *m); /* NULL is fine */
void                 http_message_reset(struct http_message *m);

/* `bytes`: all bytes of this request received so far. */
enum http_parse http_message_parse_head(struct http_message *m, struct str bytes);
/* Target, and header field i without blanks around its value, as ranges of `base`, the first byte of the
 * request. */
struct str         http_message_target(const struct http_message *m, const char *base);
struct http_header http_message_header(const struct http_message *m, const char *base, size_t i);

/* Limit of a chunked body instead of http_limits_body_bytes(). To be called after the head. */
void http_message_limit_body(struct http_message *m, size_t max_bytes);
/* `bytes` follow those that earlier calls consumed. *ret_used is the number of bytes consumed; on DONE the
 * request ends there. */
enum http_parse http_message_parse_chunks(struct http_message *m, struct str bytes,
                                          size_t *ret_used);
