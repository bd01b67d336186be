/* SPDX-License-Identifier: BSD-3-Clause */
/* HTTP/2 itself: frames, header compression, flow control. All that is known of nghttp2 is here.
 *
 * Bytes go in and come out; no socket, no clock. What arrives is told to the stream it is for
 * (grpc_stream.h) or to the connection (h2_conn_on_*). What is to be sent is asked for when flow
 * control lets it go, and is gathered in an h2_out.
 *
 * Ownership.  h2_session_open() puts the session into c->session; h2_session_close() frees it and
 * closes, without a word, the streams that are left.
 * Threads.  The loop's.
 */
#pragma once

#include "base/str.h"
#include "grpc/grpc_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct h2_conn;
struct h2_out;

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

/* False when memory is short. */
bool h2_session_open(struct h2_conn *c);
void h2_session_close(struct h2_conn *c);

/* False: nothing more may be fed; what is left to say has been queued. `owner` is the buffer that
 * the bytes are in, NULL when they do not stay. */
bool h2_session_receive(struct h2_conn *c, struct str bytes, struct buf *owner);
/* Where the next bytes are to be read when they are the large rest of a message; else iov_len 0. */
struct iovec h2_session_room(struct h2_conn *c);

enum h2_gathered {
        H2_GATHERED_ALL,
        H2_GATHERED_FULL,   /* there may be more */
        H2_GATHERED_FAILED, /* the connection cannot go on */
};
enum h2_gathered h2_session_gather(struct h2_conn *c, struct h2_out *out);
/* Nothing is left to be read or written. */
bool h2_session_is_over(const struct h2_conn *c);

/* All of these queue something; it goes out with the next gather. They return false when the
 * session can do nothing any more (memory). */
bool h2_session_respond(struct grpc_stream *st, const struct grpc_header *fields, size_t n,
                        bool has_body);
bool h2_session_wake(struct grpc_stream *st); /* grpc_stream_pull() has something now */
bool h2_session_reset(struct grpc_stream *st, enum h2_code code);
/* So much of what the client sent is used up: of the stream's window, of the connection's. */
void h2_session_consumed(struct grpc_stream *st, size_t n);
void h2_session_release(struct h2_conn *c, size_t n);
void h2_session_ping(struct h2_conn *c, const char opaque[H2_PING_BYTES]);
void h2_session_announce_goaway(struct h2_conn *c); /* no new streams, soon */
void h2_session_goaway(struct h2_conn *c, const char *text);
/* The end of the connection, with what for. */
void h2_session_terminate(struct h2_conn *c, enum h2_code code, const char *text);
