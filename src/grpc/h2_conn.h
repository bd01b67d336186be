/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP/2 connection and its calls.
 *
 *     OPEN -> LINGER -> (closed)
 *
 * OPEN    frames come and go; `leaving` tells how far the good-bye has come
 * LINGER  the last word is written; what the peer still sends is thrown away for a moment, because
 *         closing a socket with unread bytes would take that word from the peer
 *
 * Good-bye (drain, age): NOTICE, a GOAWAY that forbids nothing yet and a ping behind it; when the
 * ping comes back, whatever the client had sent is here, and the FINAL one says which calls are
 * taken. The connection closes behind the last of them (RFC 9113, 6.8).
 *
 * One read buffer serves all connections of a loop: a session keeps no pointer into what it was
 * fed. Messages that lie in it hold a reference, and then the loop goes on behind them or takes
 * another buffer. What is to be written is gathered once per batch: after everything that one read
 * brought, or before the loop waits again.
 *
 * Ownership.  h2_conn_open() makes it; it frees itself when its socket is closed and no handler has
 * one of its calls any more.
 * Threads.  All on the connection's loop.
 */
#pragma once

#include "base/list.h"
#include "grpc/grpc_limits.h"
#include "grpc/grpc_stream.h"
#include "grpc/h2_blocks.h"
#include "grpc/h2_fields.h"
#include "grpc/h2_rate_limit.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/mailbox.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grpc_server_options;
struct h2_conn;
struct h2_out;
struct nghttp2_session;

#define H2_READ_BYTES ((size_t)64 << 10)
/* With less room than this left behind what messages hold, another buffer is taken. */
#define H2_MIN_READ_ROOM ((size_t)16 << 10)
#define H2_SPARE_STREAMS 256
/* Of these, without a connection: those of a burst lie far apart, and each would hold its pages. */
#define H2_LASTING_STREAMS 4
/* With more than this in paused streams, in unary requests that are not answered yet, and in answers
 * that the client has not taken, nothing more is read from the connection than its window allows. */
#define H2_MAX_HELD_BYTES ((size_t)64 << 20)

/* What one server has on one loop. */
struct h2_loop {
        struct net_home net; /* first; lists struct h2_conn; zero in tests without sockets */
        const struct grpc_server_options *options; /* borrowed: the server's */
        const struct str                 *paths;   /* borrowed: of options->methods, same order */
        struct buf_pool                  *pool;    /* borrowed: the loop's */
        struct mailbox                   *mailbox; /* borrowed: the loop's */
        struct buf                       *in;      /* ref; NULL until needed */
        size_t                            in_len;  /* of it in use by messages */
        struct h2_out                    *out;     /* owned; NULL until needed */
        struct list                       spares;  /* struct grpc_stream */
        size_t                            n_spares;
        struct list                       unflushed; /* struct h2_conn: `flush` will see to them */
        struct loop_task                  flush;
        struct h2_blocks                  blocks; /* memory of the sessions */
};

enum h2_leaving {
        H2_STAYING,
        H2_LEAVING_NOTICE,
        H2_LEAVING_FINAL,
};

struct h2_conn {
        struct conn            *net;  /* NULL once the socket is closed, and in tests */
        struct h2_loop         *home; /* borrowed */
        struct list_node        node; /* in home->net.conns */
        struct list_node        unflushed_node;
        struct nghttp2_session *session; /* owned; see h2_session.c */
        struct list             streams; /* struct grpc_stream, those of handlers alone included */
        size_t                  n_streams;
        size_t                  n_open; /* of these not closed */

        bool is_lingering;
        bool is_busy; /* inside callbacks of the session or of methods: a flush follows */
        bool is_flushing;
        bool wants_flush;        /* asked for meanwhile */
        bool has_due;            /* a stream is_due */
        bool is_condemned;       /* nothing more is fed */
        bool is_ending;          /* the socket is gone, the calls are being told */
        bool has_settings;       /* preface and first frame are there */
        bool has_told_encodings; /* an answer had grpc-accept-encoding */

        uint64_t        now_ns; /* when the last bytes came, or the tick */
        uint64_t        opened_ns;
        uint64_t        head_ns;      /* a header block began; 0 = none is open */
        uint64_t        linger_ns;    /* when it began */
        uint64_t        leave_ns;     /* when the notice went out */
        uint64_t        age_ns;       /* at which it is to leave; CLOCK_NEVER */
        uint64_t        grace_end_ns; /* and by when it must be gone */
        enum h2_leaving leaving;

        /* h2_session.c: the frame that is arriving. */
        int32_t             frame_id;
        size_t              frame_left; /* of an unpadded DATA frame */
        uint32_t            n_continuations;
        size_t              head_bytes; /* of the open header block, unpacked */
        struct h2_fields    fields;     /* of it */
        struct grpc_stream *head;       /* whose it is; NULL for trailers, and when it is refused */
        struct buf         *feed_owner; /* borrowed: of the bytes being fed */
        size_t              fed_bytes;  /* of DATA among them, to be released */
        struct h2_out      *gathering;  /* borrowed: NULL outside h2_session_gather() */
        bool                is_full;    /* `gathering` had no room for a frame */

        char *read_at;   /* borrowed: where the next bytes are read to */
        bool  is_direct; /* that is the message they belong to */

        struct h2_pings     pings;
        struct h2_allowance resets, control_frames;
        size_t              stashed_bytes;  /* of paused streams */
        size_t              given_bytes;    /* of unary calls that are with their handlers */
        size_t              unsent_bytes;   /* of all calls, not yet with the socket */
        size_t              withheld_bytes; /* of the connection's window, because of those */
        uint64_t            pace_ns;        /* start of the window of `pace_bytes` */
        uint64_t            pace_bytes;     /* of messages, in this window */
        struct h2_out      *writing;        /* owned: of a pending write */
        uint64_t            written_bytes;  /* given to the socket, ever */
        uint64_t            write_ns;       /* start of the window of `write_bytes`; 0 = none */
        uint64_t            write_bytes;    /* that the client had taken then */
};

/* In zeroed memory whose `net` may be set up already. */
void h2_loop_init(struct h2_loop *home, const struct grpc_server_options *o,
                  const struct str *paths);
void h2_loop_done(struct h2_loop *home);

/* Takes the socket. */
void h2_conn_open(struct h2_loop *home, int fd);
/* Without a socket, for tests: what is fed is handled, what is written is dropped. */
struct h2_conn *h2_conn_new(struct h2_loop *home, uint64_t now_ns);
void            h2_conn_feed(struct h2_conn *c, struct str bytes, struct buf *owner);
void            h2_conn_end(struct h2_conn *c); /* as when the socket is closed */

void h2_conn_drain(struct h2_conn *c);
/* Ends the socket; calls that handlers have stay until they are finished. */
void h2_conn_kill(struct h2_conn *c);

/* For the streams. */
/* The time that a stream was waiting for: what `see` says goes out in one write. */
void h2_conn_on_time(struct h2_conn *c, struct grpc_stream *st,
                     void (*see)(struct grpc_stream *st));
bool h2_conn_holds_much(const struct h2_conn *c);
/* Opens the connection's window again, once little enough is held. */
void h2_conn_release_window(struct h2_conn *c);
void h2_conn_flush_soon(struct h2_conn *c, bool is_alone);
/* The stream has neither the connection nor a handler any more. */
void                      h2_conn_recycle(struct grpc_stream *st);
void                      h2_conn_count_rejected(struct h2_conn *c, enum grpc_limit limit);
const struct grpc_limits *h2_conn_limits(const struct h2_conn *c);

/* For the session. NULL: the stream is to be refused. */
struct grpc_stream *h2_conn_on_stream(struct h2_conn *c, int32_t id);
/* A frame that carries nothing; a ping; a stream that ended in an error, whoever's. False when it
 * was one too many, and the connection ends. */
bool h2_conn_on_control_frame(struct h2_conn *c);
bool h2_conn_on_ping(struct h2_conn *c);
bool h2_conn_on_reset(struct h2_conn *c);
void h2_conn_on_ping_ack(struct h2_conn *c, const char opaque[8]);
void h2_conn_on_payload_sent(struct h2_conn *c);
/* GOAWAY with ENHANCE_YOUR_CALM, counted. */
void h2_conn_calm(struct h2_conn *c, enum grpc_limit limit, const char *text);
