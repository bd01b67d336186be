/* SPDX-License-Identifier: BSD-3-Clause */
/* One request on one HTTP connection, from the end of its body to the end of its answer.
 *
 * A handler gets a complete request. It answers at once with http_call_reply*(), or later: then
 * it sets `on_abort` (and `pending`, for its own use), returns, and answers exactly once from the
 * call's loop. Work that is finished by another thread comes back with http_call_post().
 *
 * Names, values, path and body are ranges in counted buffers. They hold until the answer is given;
 * whoever needs body bytes longer takes a reference on `body_buf`.
 *
 * Ownership.  The connection owns the call and recycles it: nothing is allocated per request. When
 * the client goes away before the answer, on_abort is called once, on the loop (cancel the work);
 * the call stays valid until it is answered. The end of what a client sends counts as its going
 * away, since the two look alike; should it only have closed its sending side, it gets the answer.
 * Threads.  The loop's thread; http_call_post() and http_call_mailbox() any thread.
 */
#pragma once

#include "auth/access.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/list.h"
#include "base/str.h"
#include "net/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct http_call;
struct http_conn;
struct http_route;
struct service;
struct trace_record;

enum http_method {
        HTTP_METHOD_GET,
        HTTP_METHOD_POST,
        HTTP_METHOD_HEAD,
        HTTP_METHOD_OTHER,
};

struct http_header {
        struct str name;
        struct str value; /* without blanks around it */
};

/* Fields that are looked for in every request: found while the head is read. */
enum http_name {
        HTTP_NAME_OTHER,
        HTTP_NAME_ACCEPT_ENCODING,
        HTTP_NAME_CONNECTION,
        HTTP_NAME_CONTENT_ENCODING,
        HTTP_NAME_CONTENT_LENGTH,
        HTTP_NAME_CONTENT_TYPE,
        HTTP_NAME_EXPECT,
        HTTP_NAME_HOST,
        HTTP_NAME_INFER_JSON_LENGTH, /* Inference-Header-Content-Length */
        HTTP_NAME_PROXY_CONNECTION,
        HTTP_NAME_TRANSFER_ENCODING,
        HTTP_NAME_UPGRADE,
        N_HTTP_NAMES,
};

typedef void (*http_call_fn)(struct http_call *call);

/* What nearly every request touches is in front: see http_conn.h. */
struct http_call {
        enum http_method method;
        bool             is_aborted; /* the client has gone */
        struct str       path;       /* not percent-decoded, without the query */
        struct str       model;      /* from the route's pattern, decoded; empty when it has none */
        struct str       version;    /* digits only; empty = not given */

        struct str  body;     /* range in body_buf; changed by http_call_decode_body() */
        struct buf *body_buf; /* ref: the call's; NULL when there is no body */

        const struct http_route    *route;   /* borrowed: static table; NULL when none matched */
        const struct service       *service; /* borrowed: the server's */
        struct TRITONSERVER_Server *core;    /* borrowed; NULL in tests without a core */
        struct arena                arena;   /* reset after the answer is written */

        /* Private to http_conn.c. */
        struct http_conn *conn;
        const char       *head; /* borrowed: first byte of the request; NULL before its end */

        const struct http_header *headers; /* see http_call_headers(); NULL until they are asked */
        size_t                    n_headers;

        uint64_t recv_start_ns; /* first byte of the request seen (monotonic) */
        uint64_t recv_end_ns;   /* last byte of the body seen */
        uint64_t send_start_ns; /* answer given; 0 before that */

        /* The handler's, while it has not answered. */
        void        *pending;  /* borrowed */
        http_call_fn on_abort; /* NULL: nobody wants to know */
        /* An answer in chunks, not yet ended: more of them are with the socket. NULL: as above. */
        http_call_fn on_written;
        /* For traces: called on the loop once the answer is written or given up (send end); the
         * call may be looked at, not answered. NULL at the start of each call. */
        http_call_fn         on_sent;
        struct trace_record *trace; /* ref, on_sent's; see http_trace.h; NULL = not traced */

        struct str    region; /* shared memory region; empty = not given */
        struct access access; /* checked before a handler sees the call */

        struct list_node node; /* the handler's, as above */
        struct mail      mail; /* private to http_conn.c, as above */
        http_call_fn     posted;
};

/* A piece of an answer's body. With `buf`, the reply takes the caller's reference and drops it
 * after the write; without, the bytes are static or live in call->arena or in call->body_buf,
 * unless the reply is brief. */
struct http_part {
        const void *ptr;
        size_t      len;
        struct buf *buf; /* taken; may be NULL */
};

struct http_reply {
        unsigned                  status;       /* 200 */
        const char               *content_type; /* NULL = "text/plain", as the reference does */
        const struct http_header *headers;      /* further ones, with names of our own; used
                                                 * during the call only */
        size_t                    n_headers;
        const struct http_part   *parts; /* the array is used during the call only */
        size_t                    n_parts;
        bool                      is_brief; /* parts without `buf` hold during the call only: they
                                             * are copied when they are not sent by then */
        bool                      is_compressible; /* Accept-Encoding is honoured */
        const char               *packed_as;       /* static: the parts are compressed already, by
                                               * http_call_pack(); NULL = they are not */
        bool                      is_chunked;      /* a body as one chunk; not when compressed */
        bool                      close;           /* end the connection after this answer */
};

/* The value of the first field of that name; ptr NULL when absent. */
struct str http_call_find(const struct http_call *call, enum http_name name);
/* All call->n_headers fields, in the order sent and names in the case sent. */
const struct http_header *http_call_headers(struct http_call *call);
/* The same as http_call_find() for any name (ASCII case ignored); ptr NULL when absent. */
struct str http_call_header(struct http_call *call, const char *name);
/* Same, for the n-th of several (0 = the first). */
struct str http_call_header_nth(struct http_call *call, const char *name, size_t n);

/* The captured model name, NUL-terminated, in the arena. */
const char *http_call_model(struct http_call *call);

/* Ends the call: afterwards it belongs to the connection. Takes the `buf` of every part. */
void http_call_reply(struct http_call *call, const struct http_reply *reply);
/* The bytes are copied into the arena unless they are static: 200, `content_type`. */
void http_call_reply_text(struct http_call *call, const char *content_type, struct str text);
/* An empty body. */
void http_call_reply_empty(struct http_call *call, unsigned status);
/* {"error":"<message>"} with the status of the error's code; takes the error. `content_type`:
 * NULL or HTTP_JSON (the reference types its early errors as text/plain). */
void http_call_reply_error(struct http_call *call, struct error *err, const char *content_type);
/* {"error":"<message>"} with a status that no error code stands for (403, 404, ...). */
void http_call_reply_refusal(struct http_call *call, unsigned status, const char *message,
                             const char *content_type);
/* 405, with the methods that the path does know (RFC 9110, 15.5.6), a static text. */
void http_call_reply_wrong_method(struct http_call *call, struct str allowed,
                                  const char *content_type);
/* Any other answer with {"error":"<message>"}: the rest is as in `reply`, which has no parts. */
void http_call_reply_with_error(struct http_call *call, struct http_reply reply,
                                const char *message);

#define HTTP_JSON "application/json"

/* For answers that take long to compress: does it now, on any thread that has the call. The parts
 * become one, with a buf of its own; NULL, and nothing has changed, when the client does not ask for
 * it or memory is short. Otherwise the reply's `packed_as`. */
const char *http_call_pack(struct http_call *call, struct http_part *parts, size_t *n_parts);
bool        http_call_wants_packing(const struct http_call *call);

/* An answer in pieces (Transfer-Encoding: chunked; for HTTP/1.0 until the connection closes).
 * `begin` sends status and headers with the first part(s), `send` queues one more chunk and takes
 * the part's buf, `end` ends the call as http_call_reply() does. What the client has not yet read
 * is kept, up to `unsent_bytes` of the limits; beyond, or when it reads nothing for `idle_time_ns`,
 * it counts as gone. A part without `buf` is copied. */
void http_call_begin_chunks(struct http_call *call, const struct http_reply *reply);
void http_call_send_chunk(struct http_call *call, const struct http_part *part);
void http_call_end_chunks(struct http_call *call);
/* How many chunks were queued, and of these how many are with the socket. */
uint64_t http_call_chunks_sent(const struct http_call *call);
uint64_t http_call_chunks_written(const struct http_call *call);

/* Runs fn(call) on the call's loop. At most one post may be under way per call. */
void http_call_post(struct http_call *call, http_call_fn fn);
/* For several under way: mails of the handler's own. */
struct mailbox *http_call_mailbox(const struct http_call *call);
/* The memory of the call's connection that every answer reads and writes. */
struct str http_call_state(const struct http_call *call);
/* Runs work that blocks (a model load) beside the loop, then `done` on it; the call waits as for
 * any later answer. */
struct loop_work;
void http_call_start_work_thread(struct http_call *call, struct loop_work *work);
/* Runs work that computes for long beside the loop, see loop_compute(), then `done` on it. Meanwhile
 * the call and its arena are the work's. */
void http_call_compute(struct http_call *call, struct loop_work *work);
/* The pool of the call's loop, for buffers of the answer. */
struct buf_pool *http_call_buf_pool(const struct http_call *call);

/* Replaces a compressed body (Content-Encoding gzip or deflate; "KServe over HTTP, compression") by
 * its plain bytes in a new body_buf. Does nothing when the encoding is identity or absent. Any other
 * encoding is UNSUPPORTED "Unsupported compression type"; an UNSUPPORTED error must be answered with
 * http_call_reply_encoding_error(). The plain bytes are limited to max_input_bytes. When the body, as
 * received or plain, has more than max_bytes, nothing changes and *ret_is_more is set. */
struct error *http_call_decode_body(struct http_call *call, size_t max_bytes, bool *ret_is_more)
        NODISCARD;
/* 501 with the header "Accept-Encoding: gzip, deflate" for UNSUPPORTED, else as reply_error. */
void http_call_reply_encoding_error(struct http_call *call, struct error *err,
                                    const char *content_type);
