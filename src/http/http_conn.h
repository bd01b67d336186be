/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP connection: requests in, one at a time, answers out.
 *
 *     HEAD -> BODY -> CALL -> WRITE -> HEAD ...
 *        \-> CHUNKS -/   \-------> LINGER -> (closed)
 *
 * HEAD    bytes of a head arrive (none yet: the connection is idle)
 * BODY    a body of known length arrives: in place behind its head when the read buffer has room
 *         for it, else straight into a buffer of its own
 * CHUNKS  a chunked body arrives; the message collects it
 * CALL    the handler has the request and has not answered
 * WRITE   the answer waits for the socket
 * LINGER  a refusal, or the last answer, is written; what the peer still sends is discarded for a
 *         moment, because closing a socket with unread bytes resets the connection, and the peer
 *         would lose the answer
 *
 * In each round the loop first reads all readable sockets, then parses, connection by connection:
 * each of the two keeps its code in the cache that way. A full buffer is parsed at once.
 *
 * The functions of an answer that http_call.h declares (http_call_reply(), the chunks) are in
 * http_conn.c as well: an answer may end the connection, or begin its next request. What needs no
 * connection is elsewhere: parsing in http_message.h, routes in http_route.h, the bytes of an answer
 * in http_reply.h.
 *
 * A stopping server answers for a moment longer, with "Connection: close", because a keep-alive
 * client may already have sent its next request. Then idle connections are closed, and each busy
 * one is closed after its answer.
 *
 * While a request is handled the connection reads on, into what room its buffer has, to notice
 * when the peer ends; those bytes are the next request, which waits. An idle connection holds no
 * read buffer.
 *
 * Ownership.  http_conn_open() makes it; it frees itself when its socket is closed and no handler
 * has its call any more.
 * Threads.  All on the connection's loop.
 */
#pragma once

#include "base/compiler.h"
#include "base/list.h"
#include "http/http_call.h"
#include "http/http_limits.h"
#include "http/http_server.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/loop_timer.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_message;
struct loop;

/* An idle connection keeps nothing; a loop keeps this many read buffers at hand. */
#define HTTP_SPARE_BUFS 64
/* Requests that fit are handled where they were read. */
#define HTTP_READ_BYTES ((size_t)16 << 10)
#define HTTP_HELD_BUFS 11 /* fills a cache line */
/* Of each connection's arena without an allocation; untouched pages cost nothing. */
#define HTTP_ARENA_BYTES 8192
/* Headers and what handlers put beside them. What they decode of a body is bounded by its size on
 * top of that (infer_arena_limit()). */
#define HTTP_MAX_ARENA_BYTES ((size_t)1 << 30)

/* State of the server that its connections share. */
struct http_server {
        struct http_server_options options;
        struct net_server         *net; /* owned */
};

/* What one server has on one loop. */
struct http_loop {
        struct net_home     net;                    /* first; lists struct http_conn */
        struct http_server *server;                 /* borrowed: outlives its loops */
        struct buf         *spare[HTTP_SPARE_BUFS]; /* ref */
        size_t              n_spare;
        struct loop_timer   leave;      /* armed while the server stops */
        bool                is_leaving; /* idle connections end */
};

enum http_conn_state {
        HTTP_CONN_HEAD,
        HTTP_CONN_BODY,
        HTTP_CONN_CHUNKS,
        HTTP_CONN_CALL,
        HTTP_CONN_WRITE,
        HTTP_CONN_LINGER,
};

/* The answer under way; what a small one touches is at the end. */
struct http_out {
        struct buf  *held[HTTP_HELD_BUFS]; /* ref: until the write ends */
        struct buf **more_held;            /* in arena; when there are more than that */
        struct list  chunks;               /* struct http_chunk; waiting for the write before */
        struct list  sending;              /* struct http_chunk; in the pending write */
        size_t       unsent_bytes;         /* in `chunks` */
        uint64_t     n_chunks_sent;
        uint64_t     n_chunks_written;

        size_t   n_held;
        uint64_t bytes; /* written or queued so far */
        unsigned status;
        bool     close;          /* the connection ends after this answer */
        bool     in_chunks;      /* between begin and end */
        bool     is_http10;      /* no chunked framing; the answer names keep-alive */
        bool     is_last_queued; /* the end was asked for */
        bool     is_last_sent;   /* and is written or pending */
};

/* A model that runs between two requests of a connection leaves nothing of it in the caches. So what
 * each request needs lies side by side: from the end of `out` over what follows it to the middle
 * of `call`, and the memory of its arena behind that. */
struct http_conn {
        char            *peer;     /* owned; for the access log, which outlives the socket */
        struct list_node node;     /* in home->net.conns */
        struct buf      *body_buf; /* ref: a large body's own; NULL = in place or chunked */
        size_t           body_got; /* of body_buf */
        struct http_out  out;

        struct conn         *net;    /* NULL once the socket is closed */
        struct http_server  *server; /* borrowed */
        struct http_loop    *home;   /* borrowed */
        enum http_conn_state state;
        bool                 is_running;     /* inside run(): no nesting */
        bool                 has_ended;      /* the peer sends no more */
        bool                 must_linger;    /* a part of the request was not read */
        bool                 was_handed_out; /* the current call reached a handler */
        uint64_t             now_ns;         /* when the last bytes came */
        uint64_t             bytes_in;       /* of the current request: head and body */

        struct buf            *in;      /* ref; NULL while idle */
        size_t                 in_at;   /* first byte of the current request */
        size_t                 in_len;  /* end of what was read */
        size_t                 next_at; /* end of the current request, once handed out */
        struct http_message   *message; /* owned */
        struct loop_task       intake;  /* deferred while bytes that were read are not parsed */
        struct http_rate_watch pace;

        struct http_call call;
        _Alignas(16) char arena_bytes[HTTP_ARENA_BYTES];
};

/* From here to there is what each request touches: whole lines. */
#define HTTP_CONN_BUSY_AT offsetof(struct http_conn, out.n_held)
#define HTTP_CONN_BUSY_END (offsetof(struct http_conn, call.access) + sizeof(void *))
_Static_assert(HTTP_CONN_BUSY_AT % CACHE_LINE_BYTES == 0, "it begins a line");
_Static_assert(HTTP_CONN_BUSY_END - HTTP_CONN_BUSY_AT <= 7 * CACHE_LINE_BYTES,
               "and is few of them");

/* Takes the socket. */
void http_conn_open(struct http_loop *home, int fd);
/* Ends the socket; a call that a handler has stays until it is answered. */
void http_conn_close(struct http_conn *c);
/* An idle connection ends, gently: whatever it sent before is answered. Another one goes on. */
void http_conn_leave(struct http_conn *c);
/* One that left, and whose peer has not closed it. */
void http_conn_give_up(struct http_conn *c);
