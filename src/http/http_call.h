/* SPDX-License-Identifier: BSD-3-Clause */
/* One request on one HTTP connection, from the end of its body to the end of its answer.
 *
 * A handler gets a complete request. It answers at once with http_call_reply*(), or later. To answer
 * later it sets `on_abort` (and `pending`, for its own use), returns, and answers exactly once, on the
 * call's loop. Another thread that has finished its work posts a mail to http_call_mailbox().
 *
 * Names, values, path and body are ranges in counted buffers, valid until the answer is given. A handler
 * that needs body bytes for longer takes a reference on `body_buf`.
 *
 * Ownership.  The connection owns the call and recycles it: nothing is allocated per request. When the
 * client closes the connection before the answer, on_abort is called once, on the loop, so that the
 * handler can cancel its work; the call stays valid until it is answered. A client that closes only its
 * sending side looks the same: on_abort is called as well, and the client still gets the answer;
 * for a call that begins after that, on_abort follows at once.
 * Threads.  The loop's thread; http_call_mailbox(): any thread.
 */
#pragma once

#include "auth/access.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct http_call;
struct http_conn;
struct http_route;
struct loop;
struct mailbox;
struct service;
struct trace_record;

enum http_method {
        HTTP_METHOD_GET,
        HTTP_METHOD_POST,
        HTTP_METHOD_HEAD,
        HTTP_METHOD_DELETE,
        HTTP_METHOD_OTHER,
};

struct http_header {
        struct str name;
        struct str value; /* without leading and trailing blanks */
};

/* Header fields that every request is searched for. The parser of the head records where they are. */
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

/* The fields that nearly every request touches come first; see struct http_conn. */
struct http_call {
        enum http_method method;
        bool             is_aborted; /* the client closed the connection */
        struct str       path;       /* not percent-decoded, without the query */
        struct str       model;      /* from the route's pattern, decoded; empty when it has none */
        struct str       version;    /* digits only; empty = not given */

        struct str  body;     /* range in body_buf; changed by http_call_decode_body() */
        struct buf *body_buf; /* ref: the call's; NULL when there is no body */

        const struct http_route    *route;   /* borrowed: static table; NULL when none matched */
        const struct service       *service; /* borrowed: the server's */
        struct TRITONSERVER_Server *core;    /* borrowed; NULL in tests without a core */
        struct arena                arena;   /* reset after the answer is written */

        /* Private to http_conn.c and http_call.c. */
        struct http_conn *conn;
        const char       *head; /* borrowed: first byte of the request; NULL before its end */

        const struct http_header *headers; /* set by the first http_call_headers(); NULL before */
        size_t                    n_headers;

        uint64_t recv_start_ns; /* first byte of the request seen (monotonic) */
        uint64_t recv_end_ns;   /* last byte of the body seen */
        uint64_t send_start_ns; /* answer given; 0 before that */

        /* For the handler until it answers. */
        void        *pending;  /* borrowed */
        http_call_fn on_abort; /* may be NULL */
        /* Called when the socket has taken more chunks of an answer that is not ended. May be NULL. */
        http_call_fn on_written;
        /* For traces: called on the loop after the answer was written or abandoned. May read the call
         * but not answer it. NULL at the start of each call. */
        http_call_fn         on_sent;
        struct trace_record *trace; /* ref of on_sent(), see http_trace.h; NULL = not traced */

        struct str    region; /* shared memory region; empty = not given */
        struct access access; /* checked before a handler sees the call */
};

/* A piece of an answer's body. If `buf` is set, the reply takes the caller's reference and drops it after
 * the write. If not, the bytes are static, in call->arena or in call->body_buf, unless the reply is
 * brief. */
struct http_part {
        const void *ptr;
        size_t      len;
        struct buf *buf; /* taken; may be NULL */
};

struct http_reply {
        unsigned                  status;       /* 200 */
        const char               *content_type; /* NULL = "text/plain", as the reference does */
        const struct http_header *headers;      /* additional ones; names are trusted, values are
                                                 * sanitized; borrowed for the call */
        size_t                    n_headers;
        const struct http_part   *parts; /* the array is borrowed for the call */
        size_t                    n_parts;
        bool                      is_brief; /* parts without `buf` are valid for the call only:
                                             * bytes not sent by then are copied */
        bool                      is_compressible; /* compress as Accept-Encoding asks */
        const char               *packed_as;       /* static; the encoding that http_call_pack() has
                                               * applied to the parts; NULL = none */
        bool is_chunked; /* send the body as one chunk unless it is compressed */
        bool close;      /* close the connection after this answer */
};

/* Returns what follows the "?" of the request target, not percent-decoded; empty when there is none. */
struct str http_call_query(const struct http_call *call);
/* Returns the value of the first field of that name; ptr NULL when absent. */
struct str http_call_find(const struct http_call *call, enum http_name name);
/* Returns all call->n_headers fields in the order of the request, names in their original case. */
const struct http_header *http_call_headers(struct http_call *call);
/* As http_call_find(), for any name; ignores the case of ASCII letters. */
struct str http_call_header(struct http_call *call, const char *name);
/* As http_call_header(), for the n-th field of that name (0 = the first). */
struct str http_call_header_nth(struct http_call *call, const char *name, size_t n);

/* Returns a copy of the model name in the arena, NUL-terminated. */
const char *http_call_model(struct http_call *call);

/* Answers and ends the call; the handler must not touch the call afterwards. Takes the `buf` of every
 * part. */
void http_call_reply(struct http_call *call, const struct http_reply *reply);
/* Copies a text that must last until the answer is written: *ret is a part of it. A large text gets a
 * buffer, which the byte budget counts and may refuse. False when memory is short. Any thread that has the
 * call. */
bool http_call_keep_text(struct http_call *call, struct str text, struct http_part *ret) NODISCARD;
/* Answers 200 with a copy of the text. */
void http_call_reply_text(struct http_call *call, const char *content_type, struct str text);
/* Answers 200 with a copy of the JSON; with an error when it has overflowed. */
void http_call_reply_json(struct http_call *call, const struct strbuf *text);
/* Answers with an empty body. */
void http_call_reply_empty(struct http_call *call, unsigned status);
/* Answers {"error":"<message>"} with the status of the error's code; takes the error. `content_type` is
 * HTTP_JSON, or NULL for text/plain, which the reference uses for its early errors. */
void http_call_reply_error(struct http_call *call, struct error *err, const char *content_type);
/* Answers {"error":"<message>"} with a status that no error code maps to (403, 404, ...). */
void http_call_reply_refusal(struct http_call *call, unsigned status, const char *message,
                             const char *content_type);
/* Answers 401 or 403, by the verdict of a check of access. */
void http_call_refuse_access(struct http_call *call, enum access_verdict verdict,
                             const char *message, const char *content_type);
/* Answers 405. `allowed` is static and lists the methods of the path (RFC 9110, 15.5.6). */
void http_call_reply_wrong_method(struct http_call *call, struct str allowed,
                                  const char *content_type);
/* Answers {"error":"<message>"} with status and headers of `reply`, which has no parts. */
void http_call_reply_with_error(struct http_call *call, struct http_reply reply,
                                const char *message);

#define HTTP_JSON "application/json"

/* Compresses the parts of an answer ahead of the reply, on any thread that has the call, because it takes
 * long. Replaces the parts by one with its own buf and returns the value for the reply's `packed_as`.
 * Returns NULL and changes nothing when the client accepts no compression or memory is short. */
const char *http_call_pack(struct http_call *call, struct http_part *parts, size_t *n_parts);
bool        http_call_wants_packing(const struct http_call *call);

/* An answer in pieces (Transfer-Encoding: chunked; for HTTP/1.0 unframed until the connection closes).
 * `begin` sends status and headers and the first parts. `send` queues one more chunk; it takes the
 * part's buf, and copies a part without `buf`. `end` ends the call as http_call_reply() does. Chunks that
 * the socket has not taken are queued, up to `unsent_bytes` of the limits. The connection is closed
 * beyond that, and when the client reads nothing for `idle_time_ns`. */
void http_call_begin_chunks(struct http_call *call, const struct http_reply *reply);
void http_call_send_chunk(struct http_call *call, const struct http_part *part);
void http_call_end_chunks(struct http_call *call);
/* Sends the last chunk while the handler has still to wait for something: the client has its whole answer,
 * and the connection ends. The handler ends the call later, with http_call_end_chunks(). */
void http_call_finish_chunks(struct http_call *call);
/* Number of chunks queued so far, and how many of these the socket has taken, or were dropped because the
 * client has gone. */
uint64_t http_call_chunks_sent(const struct http_call *call);
uint64_t http_call_chunks_written(const struct http_call *call);

/* The mailbox of the call's loop, for results of other threads. */
struct mailbox *http_call_mailbox(const struct http_call *call);
/* The call's loop, for timers. */
struct loop *http_call_loop(const struct http_call *call);
/* The memory of the connection that every answer touches (infer_call_options.cold). */
struct str http_call_state(const struct http_call *call);
/* Runs work that blocks (a model load) on a thread of its own, then work->done on the loop. */
struct loop_work;
void http_call_start_work_thread(struct http_call *call, struct loop_work *work);
/* Runs a long computation on a compute thread, see loop_compute(), then work->done on the loop. Until then
 * the work owns the call and its arena. */
void http_call_compute(struct http_call *call, struct loop_work *work);
/* The buffer pool of the call's loop, for the answer. */
struct buf_pool *http_call_buf_pool(const struct http_call *call);

/* INVALID_ARG for a body that has an encoding: the endpoint takes plain ones only. */
struct error *http_call_check_identity(const struct http_call *call) NODISCARD;
/* Replaces a compressed body (Content-Encoding gzip or deflate; "KServe over HTTP, compression") by
 * its plain bytes in a new body_buf. Does nothing when the encoding is identity or absent. Any other
 * encoding is UNSUPPORTED "Unsupported compression type"; an UNSUPPORTED error must be answered with
 * http_call_reply_encoding_error(). The plain bytes are limited to max_input_bytes. When the body, as
 * received or plain, has more than max_bytes, nothing changes and *ret_is_more is set. */
struct error *http_call_decode_body(struct http_call *call, size_t max_bytes, bool *ret_is_more)
        NODISCARD;
/* Errors of bodies that --http-max-input-size does not permit. */
struct error *http_call_body_too_large(uint64_t bytes, size_t max);
struct error *http_call_inflated_too_large(const struct http_call *call);
/* Answers UNSUPPORTED with 501 and the header "Accept-Encoding: gzip, deflate", other errors as
 * http_call_reply_error(). */
void http_call_reply_encoding_error(struct http_call *call, struct error *err,
                                    const char *content_type);
