/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands behind a call: its place on the connection, what arrives for it, what it sends.
 *
 *     h2_session.c -> grpc_stream_on_*()      (grpc_stream.c)   headers, bytes, ends -> messages
 *     grpc_call_*() -> the send queue         (grpc_call.c)     answers
 *     h2_session.c <- grpc_stream_pull/emit   (grpc_call.c)     bytes, when flow control allows
 *
 * A stream has two owners, and goes when both have let go of it: the connection, until the HTTP/2
 * stream is closed (id becomes 0), and the handler, from its first callback to finish. For a while
 * there may be a third, the thread that decompresses one of its messages.
 *
 * Ownership.  Streams are recycled by their loop.
 * Threads.  The loop's.
 */
#pragma once

#include "base/list.h"
#include "grpc/grpc_call.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_frame.h"
#include "grpc/grpc_limits.h"
#include "grpc/h2_fields.h"
#include "grpc/send_queue.h"
#include "net/loop.h"
#include "net/loop_timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2_conn;
struct h2_out;

/* Of each call without an allocation: metadata, and what handlers put beside it. */
#define GRPC_ARENA_BYTES 8192
/* What handlers decode of a message is bounded by its size on top of that. */
#define GRPC_MAX_ARENA_BYTES ((size_t)1 << 30)
/* Further metadata of an answer, initial and trailing each. */
#define GRPC_MAX_ADDED 8

enum grpc_pause {
        GRPC_PAUSE_HANDLER = 1,
        GRPC_PAUSE_UNSENT = 2,
        GRPC_PAUSE_UNPACK = 4, /* a worker decompresses a message; later ones wait */
};

struct grpc_header {
        struct str name, value;
        bool       is_static; /* both outlive the connection: the session need not copy them */
};

struct grpc_added {
        struct grpc_header fields[GRPC_MAX_ADDED]; /* in arena */
        size_t             n;
};

/* Bytes of a paused stream, as they came. */
struct grpc_stash {
        struct buf *buf; /* ref; NULL when there is nothing */
        size_t      at;  /* first byte that is not used up */
};

/* A message that is decompressed by another thread, since it becomes large. The stream is not recycled
 * before it is back. */
struct grpc_unpacking {
        struct loop_work    work;
        struct grpc_message message;   /* as it came; owned */
        size_t              max_bytes; /* it may become */
        enum gzip_status    status;
        struct buf         *plain;     /* owned; with GZIP_OK */
};

struct grpc_stream {
        struct grpc_call call;
        struct h2_conn  *conn; /* borrowed: waits for its streams */
        int32_t          id;   /* 0 once closed */
        struct list_node node; /* in conn->streams, or in the loop's spares */

        bool is_given;    /* the handler has it */
        bool is_finished; /* and has ended it */
        bool is_answered; /* trailers are settled: nothing is sent any more, nothing delivered */
        bool has_ended;   /* the client has half-closed */
        bool has_responded; /* headers are out */
        bool is_waiting;    /* the session waits for grpc_stream_pull() to have something */
        bool is_delivering; /* inside a loop over its messages */
        bool is_reset;      /* by us */
        bool is_unpacking;  /* `unpacking` is with another thread */
        bool is_due;        /* grpc_stream_on_due() has something to do */
        bool has_written;   /* since on_written was last called */

        /* Headers as they come. */
        bool                   is_post;
        struct str             content_type, timeout, encoding, accept_encoding;
        struct grpc_metadata  *fields; /* in arena; call.metadata when complete */
        size_t                 n_fields, cap_fields;
        enum grpc_limit        refused; /* why the headers are too much */

        /* Messages as they come. */
        int64_t             body_left; /* of the content-length; -1 = none was given */
        size_t              used;      /* bytes that the client has not been told of */
        enum grpc_encoding  encoding_in;
        struct grpc_frame   frame;
        struct grpc_message only; /* of a method without client stream, until half-close */
        bool                has_only;
        const struct arena_block *before; /* borrowed: the arena's newest when the handler got its
                                           * message; freed at the end is what came later */
        size_t              given_bytes; /* in conn->given_bytes, until the handler has ended */
        unsigned            pauses; /* of enum grpc_pause */
        struct grpc_stash   stash;

        /* The answer. */
        enum grpc_encoding encoding_out;
        enum grpc_code     code;
        struct str         text;       /* in arena, encoded */
        uint64_t           bytes_in, bytes_out;
        uint64_t           progress_ns; /* start of the window of `progress_bytes` */
        uint64_t           progress_bytes; /* bytes_out then */
        struct loop_timer  deadline;    /* armed at call.deadline_ns until the call is answered */

        /* From here on only what counts is cleared. */
        struct send_queue out;
        struct grpc_added initial, trailing;
        struct grpc_unpacking unpacking; /* see is_unpacking */
        _Alignas(16) char arena_bytes[GRPC_ARENA_BYTES];
};

/* grpc_stream.c: what the session says. */
struct grpc_stream *grpc_stream_new(struct h2_conn *c, int32_t id); /* NULL when memory is short */
void grpc_stream_on_header(struct grpc_stream *st, enum h2_field field, struct str name,
                           struct str value);
void grpc_stream_on_headers(struct grpc_stream *st);
/* What comes breaks the rules of HTTP/2: the stream is reset. */
void grpc_stream_on_malformed(struct grpc_stream *st);
/* `owner` as for grpc_frame_read(). Returns how many of the bytes may be told to the client as
 * consumed; the others wait in the stash of a paused stream. */
size_t grpc_stream_on_bytes(struct grpc_stream *st, struct str bytes, struct buf *owner);
void grpc_stream_on_end(struct grpc_stream *st);
/* The HTTP/2 stream is gone. */
void grpc_stream_on_closed(struct grpc_stream *st);
/* Which limit a client breaks that does not read what is left of its answer: stop() resets the
 * stream. */
enum grpc_limit grpc_stream_check_progress(struct grpc_stream *st, uint64_t now_ns);
void            grpc_stream_stop(struct grpc_stream *st, enum grpc_limit limit);
/* After a flush: the socket has taken much, or all. */
void grpc_stream_on_due(struct grpc_stream *st);
void grpc_stream_set_pause(struct grpc_stream *st, enum grpc_pause pause, bool is_on);

/* grpc_call.c: the end of a call that the handler has no say in. */
void grpc_stream_refuse(struct grpc_stream *st, enum grpc_code code, const char *text);
/* With another :status than 200: what came was no call. */
void grpc_stream_refuse_http(struct grpc_stream *st, unsigned status, const char *text);
/* Tells the handler, once; afterwards the stream may be gone. */
void grpc_stream_abort(struct grpc_stream *st, enum grpc_abort reason);

/* grpc_call.c: for the session, which sends. At most `max` bytes of the next frame, 0 when there
 * are none for now; *ret_is_last when trailers follow. */
size_t grpc_stream_pull(struct grpc_stream *st, size_t max, bool *ret_is_last);
void   grpc_stream_emit(struct grpc_stream *st, size_t n, struct h2_out *out);
/* Name and value pairs of the trailers; `fields` has room for GRPC_MAX_TRAILERS. */
#define GRPC_MAX_TRAILERS (2 + GRPC_MAX_ADDED)
size_t grpc_stream_trailers(const struct grpc_stream *st, struct grpc_header *fields);
