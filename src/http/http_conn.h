/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP connection, which reads one request at a time and answers it.
 *
 *     HEAD -> BODY -> CALL -> WRITE -> HEAD ...
 *        \-> CHUNKS -/   \-------> LINGER -> (closed)
 *
 * HEAD    bytes of a head arrive (none yet: the connection is idle)
 * BODY    a body of known length arrives: directly behind its head if the read buffer has room
 *         for it, else in a buffer of its own
 * CHUNKS  a chunked body arrives; the message collects it
 * CALL    the handler has the request and has not answered
 * WRITE   the write of the answer is pending
 * LINGER  a refusal, or the last answer, is written; the connection discards what the peer still
 *         sends for a short time, because closing a socket with unread bytes resets the connection,
 *         and the peer would lose the answer
 *
 * In each round the loop first reads all readable sockets and then parses, connection by connection, so
 * that the code of each phase stays in the cache. A full buffer is parsed at once. A connection whose pipeline
 * is longer than its share of the round (net/turns.h) waits for its turn with what it has read. When the peer has closed
 * its sending side, the complete requests that were read are answered, and then the connection closes.
 *
 * http_conn.c also defines those functions of http_call.h that answer (http_call_reply(), the chunks),
 * because an answer may close the connection or start its next request. Code that needs no connection is
 * elsewhere: parsing in http_message.h, routes in http_route.h, the bytes of an answer in http_reply.h.
 *
 * A stopping server answers requests for a short time longer, with "Connection: close", because a
 * keep-alive client may already have sent its next request. After that it closes idle connections, and
 * each busy one after its answer.
 *
 * While a handler works, the connection keeps reading into the free room of its buffer, to notice when the
 * peer closes. The bytes that it reads belong to the next request, which waits. An idle connection holds
 * no read buffer, and one with a part of a head a buffer of about its size. When the memory budget is tight,
 * those that hold a part of a head the longest are answered 503, so that their memory serves complete
 * requests; health and metrics are answered even beyond the budget.
 *
 * Ownership.  http_conn_open() creates a connection. It frees itself after its socket was closed and the
 * handler, if one has its call, has answered.
 * Threads.  The connection's loop only.
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
#include "net/turns.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_message;

/* An idle connection holds no read buffer; each loop keeps this many for reuse. */
#define HTTP_SPARE_BUFS 64
/* Size of a read buffer. Requests that fit are handled in place. */
#define HTTP_READ_BYTES ((size_t)16 << 10)
#define HTTP_HELD_BUFS 14 /* fills a cache line */
/* First part of each connection's arena, inside the struct; untouched pages cost nothing. */
#define HTTP_ARENA_BYTES 8192
/* Limit of a call's arena, which holds headers and the handler's data. Data decoded from a body is also
 * limited by the size of that body (infer_arena_limit()). */
#define HTTP_MAX_ARENA_BYTES ((size_t)1 << 30)

/* State of the server that its connections share. */
struct http_server {
        struct http_server_options options;
        struct net_server         *net; /* owned */
};

/* State of one server on one loop. */
struct http_shard {
        struct net_shard    net;                    /* first; lists struct http_conn */
        struct http_server *server;                 /* borrowed: outlives its loops */
        struct buf         *spare[HTTP_SPARE_BUFS]; /* ref */
        size_t              n_spare;
        /* Owned: HTTP_READ_BYTES, where connections without a buffer read while the budget is tight, and
         * where input is discarded. */
        char             *scratch;
        struct list       waiting; /* struct http_conn that hold a part of a head; oldest first */
        struct loop_timer leave;   /* armed while the server stops */
        bool              is_leaving; /* close idle connections */
};

enum http_conn_state {
        HTTP_CONN_HEAD,
        HTTP_CONN_BODY,
        HTTP_CONN_CHUNKS,
        HTTP_CONN_CALL,
        HTTP_CONN_WRITE,
        HTTP_CONN_LINGER,
};

/* The current answer. The fields that a small one touches come last. */
struct http_out {
        struct buf  *held[HTTP_HELD_BUFS]; /* ref: until the write ends */
        struct buf **more_held;            /* in arena; those beyond HTTP_HELD_BUFS */
        struct list  chunks;               /* struct http_chunk; wait for the pending write */
        struct list  sending;              /* struct http_chunk; in the pending write */
        size_t       unsent_bytes;         /* in `chunks` */
        uint64_t     n_chunks_sent;
        uint64_t     n_chunks_written;

        size_t   n_held;
        uint64_t bytes; /* written or queued so far */
        unsigned status;
        bool     close;          /* close the connection after this answer */
        bool     in_chunks;      /* between http_call_begin_chunks() and _end_chunks() */
        bool     is_http10;      /* no chunked framing; keep-alive is announced */
        bool     is_last_queued; /* http_call_end_chunks() was called */
        bool     is_last_sent;   /* the last chunk is written or pending */
        bool     is_held;        /* between http_call_finish_chunks() and http_call_end_chunks() */
};

/* A model that runs between two requests evicts the connection from the CPU's caches. So the fields that
 * each request touches are adjacent, from the end of `out` to the middle of `call`, followed by the first
 * memory of the arena. */
struct http_conn {
        struct leave_place place;    /* in shard->net.conns */
        struct buf        *body_buf; /* ref: a large body's own; NULL = in place or chunked */
        size_t             body_got; /* bytes received of body_buf */
        struct turn        turn;     /* waits with requests in the buffer; then it does not read */
        struct http_out    out;

        struct conn         *net;    /* NULL once the socket is closed */
        struct http_server  *server; /* borrowed */
        struct http_shard   *shard;  /* borrowed */
        enum http_conn_state state;
        bool                 is_running;         /* inside run(), which does not nest */
        bool                 has_ended;          /* the peer sends no more */
        bool                 must_linger;        /* a part of the request was not read */
        bool                 was_handed_out : 1; /* the current call reached a handler */
        bool                 in_scratch : 1; /* the place that on_room() gave is shard->scratch */
        bool                 is_beyond : 1;  /* its input was allocated beyond the budget */
        bool                 is_waiting : 1; /* it is in shard->waiting */
        uint64_t             now_ns;         /* of the last read, or the end of the last answer */
        uint64_t             bytes_in;       /* of the current request: head and body */

        struct buf            *in;         /* ref; NULL while idle */
        size_t                 in_at;      /* first byte of the current request */
        size_t                 in_len;     /* end of the bytes read */
        size_t                 next_at;    /* end of the current request, once handed out */
        struct http_message   *message;    /* owned */
        struct loop_task       parse_task; /* deferred task that parses the bytes read */
        struct http_rate_watch rate_watch;

        struct http_call call;
        struct list_node waiting; /* in shard->waiting */
        char            *peer;    /* owned; the access log needs it after the socket is closed */
        _Alignas(CACHE_LINE_BYTES) char arena_bytes[HTTP_ARENA_BYTES];
};

/* Range of the bytes that each request touches, in whole cache lines. */
#define HTTP_CONN_BUSY_AT offsetof(struct http_conn, out.n_held)
#define HTTP_CONN_BUSY_END (offsetof(struct http_conn, call.access) + sizeof(void *))
_Static_assert(HTTP_CONN_BUSY_AT % CACHE_LINE_BYTES == 0, "it begins a line");
_Static_assert(HTTP_CONN_BUSY_END - HTTP_CONN_BUSY_AT <= 7 * CACHE_LINE_BYTES,
               "and is few of them");

/* Takes the socket. */
void http_conn_open(struct http_shard *shard, int fd);
/* Closes the socket. A call that a handler has stays valid until it is answered. */
void http_conn_close(struct http_conn *c);
/* Closes an idle connection gracefully, so that a request already sent is answered. Does nothing for a
 * busy one. */
void http_conn_leave(struct http_conn *c);
/* True when its last answer is that old: the next request does not follow at once. */
bool http_conn_is_quiet(const struct http_conn *c, uint64_t now_ns, uint64_t time_ns);
/* True when its last answer was given, or http_conn_leave() closed it, that long ago, and its peer has not closed it
 * since. */
bool http_conn_has_left(const struct http_conn *c, uint64_t now_ns, uint64_t time_ns);
/* Closes the connection of the loop that has been idle longest, or has sent a part of a head and nothing
 * for a second. False when it finds none. */
bool http_shard_make_room(struct http_shard *shard, enum leave_need need);
/* Closes a connection that is idle or has left that long ago. One that lingers for a shorter time may have bytes that
 * were not read: to close it now would take the last answer from its client. */
void http_conn_give_up(struct http_conn *c, uint64_t now_ns, uint64_t time_ns);
