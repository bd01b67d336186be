/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP/2 connection and its streams: frames, header compression, flow control, limits, graceful
 * shutdown.
 *
 * nghttp2 parses and creates the frames; only h2_conn.c uses it. The connection passes what arrives for a
 * stream to the user of the stream through a table of callbacks (struct h2_stream_ops; grpc_call.c has the
 * only one). When flow control permits, it asks the user for bytes to send and gathers them in a struct
 * h2_out.
 *
 *     OPENING -> OPEN -> FAILED -> LINGERING -> RELEASED -> CLOSED
 *
 * OPENING    the preface or the first SETTINGS of the client have not arrived
 * OPEN       frames are exchanged; `leaving` is the state of the graceful shutdown
 * FAILED     input is ignored; what is queued, such as a GOAWAY with the reason, is written
 * LINGERING  the last frame is written; what the peer still sends is discarded for a short time, because
 *            closing a socket with unread bytes resets the connection, and the peer would lose that frame
 * RELEASED   streams are closed and the session is freed; the socket is not closed yet
 * CLOSED     the socket is closed; the connection is freed with the last stream that a handler owns
 *
 * A connection goes forward only, and may leave out states. Its loop makes all changes, with set_state().
 *
 * Graceful shutdown (drain, age), RFC 9113, 6.8: the server first sends NOTICE, a GOAWAY that does not
 * forbid new streams yet, followed by a ping. When the ping returns, all that the client had sent before
 * has arrived, and the FINAL GOAWAY names the last accepted stream. The connection closes after its last
 * stream has ended.
 *
 * All connections of a loop share one read buffer, because a session keeps no pointer into the bytes that
 * it was fed. Messages inside it hold a reference on it; the loop then reads into the rest of the
 * buffer or takes another one. Frames are gathered once per batch: after all that one read brought, or before the loop waits.
 *
 * A connection that has used its share of a round (net/turns.h) makes nghttp2 pause, keeps the rest of what it
 * has read, which is a reference on the read buffer, and does not read until it was worked off.
 *
 * Ownership.  h2_conn_open() creates a connection. It frees itself after its socket was closed and all
 * streams that handlers own were recycled.
 * Threads.  The connection's loop only.
 */
#pragma once

#include "base/list.h"
#include "base/str.h"
#include "grpc/grpc_limits.h"
#include "grpc/h2_blocks.h"
#include "grpc/h2_fields.h"
#include "grpc/h2_scan.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/mailbox.h"
#include "net/net_server.h"
#include "net/turns.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct buf;
struct grpc_server_options;
struct h2_conn;
struct h2_shard;
struct h2_out;
struct nghttp2_session;

/* Error codes of RFC 9113, section 7. */
enum h2_code {
        H2_NO_ERROR = 0x0,
        H2_PROTOCOL_ERROR = 0x1,
        H2_INTERNAL_ERROR = 0x2,
        H2_REFUSED_STREAM = 0x7,
        H2_CANCEL = 0x8,
        H2_ENHANCE_YOUR_CALM = 0xb,
};

#define H2_PING_BYTES 8

/* Flow-control windows of a stream and of the connection. A message of 1 MiB fits without a pause. */
#define H2_STREAM_WINDOW (4 << 20)
#define H2_CONNECTION_WINDOW (16 << 20)
/* Largest frame accepted. Large frames are read directly into their message. */
#define H2_MAX_FRAME_BYTES (1 << 20)
/* Largest frame sent, after which another stream gets its turn. */
#define H2_MAX_SENT_FRAME_BYTES ((size_t)256 << 10)

#define H2_READ_BYTES ((size_t)64 << 10)
/* Smallest room behind messages for the next read; with less, another buffer is taken. */
#define H2_MIN_READ_ROOM ((size_t)16 << 10)
/* The connection's window is not reopened while more than this is held in paused streams, unary requests
 * without an answer, and answers that the client has not taken. */
#define H2_MAX_HELD_BYTES ((size_t)64 << 20)

/* A field of a header block. */
struct h2_header {
        struct str name, value;
        bool       is_static; /* both outlive the connection, so nghttp2 need not copy them */
};

/* The connection's part of a stream, at the start of the user's struct. */
struct h2_stream {
        struct h2_conn  *conn;       /* borrowed: waits for its streams */
        int32_t          id;         /* 0 once closed */
        struct list_node node;       /* in conn->streams */
        bool             is_waiting; /* deferred until pull() has bytes */
        bool             is_reset;   /* reset by the server */
        bool             is_due;     /* call on_due(); set together with conn->has_due */
        bool             waits_turn; /* call on_turn() in the connection's turn */
        bool    was_partial; /* is_partial() when the window of check_message_rate() began */
        int64_t body_left;   /* rest of the content-length; -1 = not given */
        size_t  used;        /* consumed bytes not yet in a window update */
};

struct h2_stream_ops {
        size_t stream_bytes; /* size of the struct that begins with a struct h2_stream */
        /* `st` is initialized; the user initializes the rest of its struct. */
        void (*on_open)(struct h2_stream *st);
        /* Each header field except those left out, then the end of the block. */
        void (*on_header)(struct h2_stream *st, enum h2_field field, struct str name,
                          struct str value);
        void (*on_headers)(struct h2_stream *st);
        /* `owner` holds the bytes; NULL when they are valid for the call only. Returns how many bytes
         * are consumed; h2_stream_consumed() reports the others later. */
        size_t (*on_bytes)(struct h2_stream *st, struct str bytes, struct buf *owner);
        void (*on_end)(struct h2_stream *st);
        /* The request violates HTTP/2; the user resets the stream. */
        void (*on_malformed)(struct h2_stream *st);
        /* Called after a flush when is_due is set. */
        void (*on_due)(struct h2_stream *st);
        /* The connection has a new share of a round (h2_stream_take_share()). */
        void (*on_turn)(struct h2_stream *st);
        /* The stream is closed (id is 0). The user calls h2_stream_recycle() now or later. */
        void (*on_closed)(struct h2_stream *st);

        /* pull() returns the number of bytes of the next frame, at most `max`; 0 when there are none
         * now. *ret_is_last: trailers follow. emit() then adds these bytes to `out`. */
        size_t (*pull)(struct h2_stream *st, size_t max, bool *ret_is_last);
        void (*emit)(struct h2_stream *st, size_t n, struct h2_out *out);
        /* `fields` has room for H2_MAX_FIELDS. */
        size_t (*trailers)(struct h2_stream *st, struct h2_header *fields);

        /* Returns the place for the rest of an incomplete message, iov_len 0 if there is none. */
        struct iovec (*room)(struct h2_stream *st);
        /* True when the client has sent a part of a message and owes the rest. */
        bool (*is_partial)(struct h2_stream *st);
        /* True when nothing is at work for the stream, and it holds neither a message nor bytes to send: its client
         * owes the next message, or it waits for something that may never happen. */
        bool (*is_quiet)(struct h2_stream *st);
        /* Returns the limit that the client exceeds by not reading the rest of an answer; stop() then
         * resets the stream. */
        enum grpc_limit (*check_progress)(struct h2_stream *st, uint64_t now_ns);
        void (*stop)(struct h2_stream *st, enum grpc_limit limit);
};

/* Limit of the fields of a header block that is sent. */
#define H2_MAX_FIELDS 24

/* State of one server on one loop. */
struct drain;

struct h2_shard {
        struct net_shard net; /* first; lists struct h2_conn; zero in tests without sockets */
        const struct h2_stream_ops       *ops;     /* static */
        const struct grpc_limits         *limits;  /* borrowed: the server's */
        const struct grpc_server_options *options; /* borrowed; for the user of streams */
        const struct str   *paths;   /* borrowed: paths of options->methods; for the user */
        const struct drain *drain;   /* borrowed; NULL = never drains */
        struct buf_pool    *pool;    /* borrowed: the loop's */
        struct mailbox     *mailbox; /* borrowed: the loop's */
        struct buf         *in;      /* ref; NULL until needed */
        size_t              in_len;  /* bytes of it that messages use */
        char *scratch;      /* owned: read into when there is no room for `in`; NULL until then */
        struct h2_out *out; /* owned; NULL until needed */
        /* NULL = rejections are not counted. Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void            *rejected_owner; /* borrowed */
        struct list      unflushed;      /* struct h2_conn; `flush` flushes them */
        struct loop_task flush;
        struct h2_blocks blocks; /* memory of the sessions */
};

enum h2_state { H2_OPENING, H2_OPEN, H2_FAILED, H2_LINGERING, H2_RELEASED, H2_CLOSED };

enum h2_leaving {
        H2_STAYING,
        H2_LEAVING_NOTICE,
        H2_LEAVING_FINAL,
};

struct h2_conn {
        struct conn            *net;   /* NULL once the socket is closed, and in tests */
        struct h2_shard        *shard; /* borrowed */
        struct leave_place      place; /* in shard->net.conns */
        struct list_node        unflushed_node;
        struct nghttp2_session *session; /* owned */
        struct list             streams; /* struct h2_stream; includes closed ones still in use */
        size_t                  n_streams;
        size_t                  n_open; /* streams that are not closed */

        enum h2_state state;
        /* All combinations occur: a flush may let a paused stream go on, whose methods ask for a flush. */
        bool is_busy; /* inside callbacks of the session or of methods; a flush follows */
        bool is_flushing;
        bool wants_flush;        /* flush requested while busy or flushing */
        bool has_due;            /* is_due of some stream is set */
        bool has_sent_encodings; /* an answer had grpc-accept-encoding */

        uint64_t        now_ns;  /* time of the last read or tick */
        uint64_t        used_ns; /* time of the last request or bytes of a message */
        uint64_t        opened_ns;
        uint64_t        head_ns;      /* start of the open header block; 0 = none */
        uint64_t        linger_ns;    /* start of LINGERING */
        uint64_t        notice_ns;    /* time of the NOTICE */
        uint64_t        age_ns;       /* when its age limit is reached, or CLOCK_NEVER */
        uint64_t        grace_end_ns; /* when it is closed after that, or CLOCK_NEVER */
        enum h2_leaving leaving;

        struct h2_scan scan; /* of the bytes that come */

        /* State of the frame that is being received. */
        int32_t           frame_id;
        size_t            frame_left; /* rest of an unpadded DATA frame */
        uint32_t          n_continuations;
        size_t            head_bytes; /* decompressed size of the open header block */
        struct h2_fields  fields;     /* state of the header block */
        struct h2_stream *head;    /* stream of the block; NULL for trailers and refused streams */
        int32_t           head_id; /* id of the stream of a block that is not discarded; 0 = none */
        struct buf       *feed_owner; /* borrowed: holds the bytes being fed */
        size_t            fed_bytes;  /* bytes of DATA in them that the window gets back */
        struct h2_out    *gathering;  /* borrowed; NULL outside session_gather() */
        bool              is_full;    /* `gathering` had no room for a frame */

        /* While the connection waits for its turn, it keeps the rest of what it has read, and reads no more. */
        struct turn turn;
        struct buf *rest_owner; /* ref; NULL = nothing is kept */
        struct str  rest;

        char *read_at;  /* borrowed: place of the next read */
        bool is_direct; /* read_at is inside a message, or shard->scratch: nothing may refer to it */

        struct grpc_pings        pings;
        struct grpc_token_bucket resets, control_frames;
        size_t                   stashed_bytes; /* held by paused streams */
        size_t                   given_bytes;   /* held by unary calls in handlers */
        size_t                   unsent_bytes;  /* queued by all calls */
        size_t         withheld_bytes; /* withheld from the connection's window because of these */
        uint64_t       pace_ns;        /* start of the window of check_message_rate() */
        uint64_t       pace_bytes;     /* bytes of messages received in this window */
        bool           has_served;     /* a call has ended without an error in this window */
        struct h2_out *writing;        /* owned; the pending write */
        uint64_t       written_bytes;  /* total given to the socket */
        uint64_t       write_ns;       /* start of the window of check_write_rate(); 0 = none */
        uint64_t       write_bytes;    /* bytes that the client had taken at that time */
};

/* Initializes zeroed memory, whose `net` may already be initialized. */
void h2_shard_init(struct h2_shard *shard, const struct h2_stream_ops *ops,
                   const struct grpc_limits *limits);
void h2_shard_done(struct h2_shard *shard);

/* Takes the socket. */
void h2_conn_open(struct h2_shard *shard, int fd);
/* Without a socket, for tests: handles what it is fed and drops what it writes. */
struct h2_conn *h2_conn_new(struct h2_shard *shard, uint64_t now_ns);
void            h2_conn_feed(struct h2_conn *c, struct str bytes, struct buf *owner);
void            h2_conn_end(struct h2_conn *c); /* as if the socket was closed */

/* Closes the connection of the loop that has had no call at work for the longest time, or one that sends its only
 * header block for more than a second. False when it finds none. */
bool h2_shard_make_room(struct h2_shard *shard, enum leave_need need);
void h2_conn_drain(struct h2_conn *c);
/* Closes the socket. Streams in use stay valid until they are recycled. */
void h2_conn_kill(struct h2_conn *c);

/* For the users of streams. */
const char *h2_conn_peer(const struct h2_conn *c); /* "127.0.0.1:34567"; "unknown" once closed */
const struct grpc_limits *h2_conn_limits(const struct h2_conn *c);
void                      h2_conn_count_rejected(struct h2_conn *c, enum grpc_limit limit);
/* Runs `fn` for a stream outside of a read, for example after a timer, and flushes what it sends in one
 * write. */
void h2_conn_run_stream(struct h2_conn *c, struct h2_stream *st, void (*fn)(struct h2_stream *st));
/* Reopens the connection's window once little enough is held (H2_MAX_HELD_BYTES). */
void h2_conn_release_window(struct h2_conn *c);
void h2_conn_flush_soon(struct h2_conn *c, bool is_alone);

/* The next three functions queue frames for the next flush. They return false when the session cannot
 * continue (out of memory). */
bool h2_stream_respond(struct h2_stream *st, const struct h2_header *fields, size_t n,
                       bool has_body);
bool h2_stream_wake(struct h2_stream *st); /* pull() has bytes now */
bool h2_stream_reset(struct h2_stream *st, enum h2_code code);
/* Takes one message from the connection's share of the round (net/turns.h). When that is used up it returns
 * false, and on_turn() follows. */
bool h2_stream_take_share(struct h2_stream *st);
/* The user has consumed n of the received bytes. */
void h2_stream_consumed(struct h2_stream *st, size_t n);
/* Recycles a closed stream that its user has finished with. */
void h2_stream_recycle(struct h2_stream *st);
