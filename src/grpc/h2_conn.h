/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP/2 connection and its streams: frames, header compression, flow control, limits, the good-bye.
 *
 * nghttp2 makes and reads the frames; all that is known of it is in h2_conn.c. What arrives for a
 * stream goes to its user through a table of callbacks (struct h2_stream_ops; gRPC's is in
 * grpc_call.c). What is to be sent is asked for when flow control lets it go, and gathered in an
 * h2_out.
 *
 *     OPEN -> LINGER -> (closed)
 *
 * OPEN    frames come and go; `leaving` is how far the good-bye has come
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
 * one of its streams any more.
 * Threads.  All on the connection's loop.
 */
#pragma once

#include "base/list.h"
#include "base/str.h"
#include "grpc/grpc_limits.h"
#include "grpc/h2_blocks.h"
#include "grpc/h2_fields.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/mailbox.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct buf;
struct grpc_server_options;
struct h2_conn;
struct h2_loop;
struct h2_out;
struct nghttp2_session;

/* Numbers of RFC 9113, section 7. */
enum h2_code {
        H2_NO_ERROR = 0x0,
        H2_PROTOCOL_ERROR = 0x1,
        H2_INTERNAL_ERROR = 0x2,
        H2_REFUSED_STREAM = 0x7,
        H2_CANCEL = 0x8,
        H2_ENHANCE_YOUR_CALM = 0xb,
};

#define H2_PING_BYTES 8

/* What a client may send without being told to go on: of one stream, and of the connection. A
 * message of 1 MiB fits without a pause. */
#define H2_STREAM_WINDOW (4 << 20)
#define H2_CONNECTION_WINDOW (16 << 20)
/* Large frames are read straight into the message they belong to. */
#define H2_MAX_FRAME_BYTES (1 << 20)
/* And so much of one stream is sent before another has its turn. */
#define H2_MAX_SENT_FRAME_BYTES ((size_t)256 << 10)

#define H2_READ_BYTES ((size_t)64 << 10)
/* With less room than this left behind what messages hold, another buffer is taken. */
#define H2_MIN_READ_ROOM ((size_t)16 << 10)
#define H2_SPARE_STREAMS 256
/* Of these, without a connection: those of a burst lie far apart, and each would hold its pages. */
#define H2_LASTING_STREAMS 4
/* With more than this in paused streams, in unary requests that are not answered yet, and in answers
 * that the client has not taken, nothing more is read from the connection than its window allows. */
#define H2_MAX_HELD_BYTES ((size_t)64 << 20)

/* A field of a header block. */
struct h2_header {
        struct str name, value;
        bool       is_static; /* both outlive the connection: the session need not copy them */
};

/* The connection's part of a stream; its user's struct begins with it. */
struct h2_stream {
        struct h2_conn  *conn;       /* borrowed: waits for its streams */
        int32_t          id;         /* 0 once closed */
        struct list_node node;       /* in conn->streams, or in the loop's spares */
        bool             is_waiting; /* the session waits for pull() to have something */
        bool             is_reset;   /* by us */
        bool             is_due;     /* on_due() has something to do; set conn->has_due with it */
        int64_t          body_left;  /* of the content-length; -1 = none was given */
        size_t           used;       /* bytes that the client has not been told of */
};

struct h2_stream_ops {
        size_t stream_bytes; /* of the struct that begins with a struct h2_stream */
        /* `st` is set up; what follows it in memory is not. */
        void (*on_open)(struct h2_stream *st);
        /* Fields as they come, but those that are left out; then the end of the block. */
        void (*on_header)(struct h2_stream *st, enum h2_field field, struct str name,
                          struct str value);
        void (*on_headers)(struct h2_stream *st);
        /* `owner` holds the bytes, or is NULL when they do not stay. Returns how many of them may be
         * told to the client as consumed: those that are not come to h2_stream_consumed(). */
        size_t (*on_bytes)(struct h2_stream *st, struct str bytes, struct buf *owner);
        void (*on_end)(struct h2_stream *st);
        /* What came breaks the rules of HTTP/2: the user resets the stream. */
        void (*on_malformed)(struct h2_stream *st);
        /* After a flush: the socket has taken much, or all. */
        void (*on_due)(struct h2_stream *st);
        /* It is gone (id is 0). h2_stream_recycle() follows, at once or later. */
        void (*on_closed)(struct h2_stream *st);

        /* At most `max` bytes of the next frame, 0 when there are none for now; *ret_is_last when
         * trailers follow. Then the bytes. */
        size_t (*pull)(struct h2_stream *st, size_t max, bool *ret_is_last);
        void (*emit)(struct h2_stream *st, size_t n, struct h2_out *out);
        /* `fields` has room for H2_MAX_FIELDS. */
        size_t (*trailers)(struct h2_stream *st, struct h2_header *fields);

        /* Where the rest of a message under way is to be read; else iov_len 0. */
        struct iovec (*room)(struct h2_stream *st);
        /* The client has sent a part and owes the rest. */
        bool (*is_partial)(struct h2_stream *st);
        /* Which limit a client breaks that does not read what is left of its answer: stop() resets
         * the stream. */
        enum grpc_limit (*check_progress)(struct h2_stream *st, uint64_t now_ns);
        void (*stop)(struct h2_stream *st, enum grpc_limit limit);
};

/* Of one header block that is sent. */
#define H2_MAX_FIELDS 24

/* What one server has on one loop. */
struct h2_loop {
        struct net_home net; /* first; lists struct h2_conn; zero in tests without sockets */
        const struct h2_stream_ops       *ops;     /* static */
        const struct grpc_limits         *limits;  /* borrowed: the server's */
        const struct grpc_server_options *options; /* borrowed; for the user of the streams */
        const struct str *paths;   /* borrowed: of options->methods, same order; likewise */
        struct buf_pool  *pool;    /* borrowed: the loop's */
        struct mailbox   *mailbox; /* borrowed: the loop's */
        struct buf       *in;      /* ref; NULL until needed */
        size_t            in_len;  /* of it in use by messages */
        struct h2_out    *out;     /* owned; NULL until needed */
        struct list       spares;  /* struct h2_stream */
        size_t            n_spares;
        /* NULL: refusals are not counted. Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void            *rejected_owner; /* borrowed */
        struct list      unflushed;      /* struct h2_conn: `flush` will see to them */
        struct loop_task flush;
        struct h2_blocks blocks; /* memory of the sessions */
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
        struct nghttp2_session *session; /* owned */
        struct list streams; /* struct h2_stream, closed ones that are in use included */
        size_t      n_streams;
        size_t      n_open; /* of these not closed */

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

        /* The frame that is arriving. */
        int32_t           frame_id;
        size_t            frame_left; /* of an unpadded DATA frame */
        uint32_t          n_continuations;
        size_t            head_bytes; /* of the open header block, unpacked */
        struct h2_fields  fields;     /* of it */
        struct h2_stream *head;       /* whose it is; NULL for trailers, and when it is refused */
        struct buf       *feed_owner; /* borrowed: of the bytes being fed */
        size_t            fed_bytes;  /* of DATA among them, to be released */
        struct h2_out    *gathering;  /* borrowed: NULL outside session_gather() */
        bool              is_full;    /* `gathering` had no room for a frame */

        char *read_at;   /* borrowed: where the next bytes are read to */
        bool  is_direct; /* that is the message they belong to */

        struct grpc_pings        pings;
        struct grpc_token_bucket resets, control_frames;
        size_t                   stashed_bytes;  /* of paused streams */
        size_t                   given_bytes;    /* of unary calls that are with their handlers */
        size_t                   unsent_bytes;   /* of all calls, not yet with the socket */
        size_t                   withheld_bytes; /* of the connection's window, because of those */
        uint64_t                 pace_ns;        /* start of the window of `pace_bytes` */
        uint64_t                 pace_bytes;     /* of messages, in this window */
        struct h2_out           *writing;        /* owned: of a pending write */
        uint64_t                 written_bytes;  /* given to the socket, ever */
        uint64_t                 write_ns;    /* start of the window of `write_bytes`; 0 = none */
        uint64_t                 write_bytes; /* that the client had taken then */
};

/* In zeroed memory whose `net` may be set up already. */
void h2_loop_init(struct h2_loop *home, const struct h2_stream_ops *ops,
                  const struct grpc_limits *limits);
void h2_loop_done(struct h2_loop *home);

/* Takes the socket. */
void h2_conn_open(struct h2_loop *home, int fd);
/* Without a socket, for tests: what is fed is handled, what is written is dropped. */
struct h2_conn *h2_conn_new(struct h2_loop *home, uint64_t now_ns);
void            h2_conn_feed(struct h2_conn *c, struct str bytes, struct buf *owner);
void            h2_conn_end(struct h2_conn *c); /* as when the socket is closed */

void h2_conn_drain(struct h2_conn *c);
/* Ends the socket; streams that are in use stay until they are recycled. */
void h2_conn_kill(struct h2_conn *c);

/* For the users of streams. */
const char *h2_conn_peer(
        const struct h2_conn *c); /* "127.0.0.1:34567"; "unknown" once it is gone */
const struct grpc_limits *h2_conn_limits(const struct h2_conn *c);
void                      h2_conn_count_rejected(struct h2_conn *c, enum grpc_limit limit);
/* The time that a stream was waiting for: what `see` says goes out in one write. */
void h2_conn_on_time(struct h2_conn *c, struct h2_stream *st, void (*see)(struct h2_stream *st));
/* Opens the connection's window again, once little enough is held. */
void h2_conn_release_window(struct h2_conn *c);
void h2_conn_flush_soon(struct h2_conn *c, bool is_alone);

/* The next three queue something; it goes out with the next flush. They return false when the
 * session can do nothing any more (memory). */
bool h2_stream_respond(struct h2_stream *st, const struct h2_header *fields, size_t n,
                       bool has_body);
bool h2_stream_wake(struct h2_stream *st); /* pull() has something now */
bool h2_stream_reset(struct h2_stream *st, enum h2_code code);
/* So many of the bytes that came are used up. */
void h2_stream_consumed(struct h2_stream *st, size_t n);
/* A closed stream that its user has done with. */
void h2_stream_recycle(struct h2_stream *st);
