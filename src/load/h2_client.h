/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of an HTTP/2 connection, without sockets (RFC 9113): frames, header blocks, windows.
 *
 *     h2_client_init(&c, &ops, owner)       `out` holds the preface and the settings
 *     h2_client_open(&c, &s, block)         HEADERS
 *     h2_client_send(&c, &s, parts, ...)    DATA, as far as the peer's windows allow; the rest follows
 *     h2_client_read(&c, bytes)             calls ops
 *
 * A load generator repeats a few header blocks, so they are made once, without the dynamic table, and are
 * copied as they are. Our own windows are as large as the protocol allows.
 *
 * Ownership.  Streams are embedded in their owner, which keeps them until they are closed. `out` has the
 * bytes to be sent; the owner empties it. The parts of a message are borrowed until they are sent.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define H2_CLIENT_PARTS 4
#define H2_CLIENT_BUCKETS 64
/* Of one header block of the peer. */
#define H2_CLIENT_MAX_BLOCK ((size_t)64 << 10)

struct h2_client;
struct nghttp2_hd_inflater;

struct h2_client_stream {
        uint32_t                 id;                     /* 0: not open */
        int64_t                  window;                 /* what the peer takes of this stream */
        struct str               parts[H2_CLIENT_PARTS]; /* borrowed: unsent */
        size_t                   n_parts;
        bool                     ends;       /* END_STREAM follows the last part */
        bool                     has_ended;  /* it was sent */
        bool                     is_waiting; /* for a window */
        uint32_t                 n_received; /* bytes since the last WINDOW_UPDATE */
        struct h2_client_stream *next;       /* in its bucket */
};

struct h2_client_ops {
        void (*on_field)(struct h2_client_stream *s, struct str name, struct str value);
        void (*on_data)(struct h2_client_stream *s, struct str bytes);
        /* The stream is closed. `code` is that of RST_STREAM, 0 for an ordinary end. May open others. */
        void (*on_end)(struct h2_client_stream *s, uint32_t code);
        /* The peer goes away and has not taken the stream, which is closed: another connection may. */
        void (*on_refused)(struct h2_client_stream *s);
        /* True when nothing of the stream is awaited: it is reset when the peer goes away. NULL: of no stream. */
        bool (*is_idle)(struct h2_client_stream *s);
};

struct h2_client {
        const struct h2_client_ops *ops;      /* borrowed: static */
        struct strbuf               out;      /* owned */
        const char                 *wrong;    /* static; NULL: the connection is sound */
        bool                        is_going; /* the peer takes no new streams */
        bool owes_table_size;                 /* the next block begins with a table size of 0 */

        struct nghttp2_hd_inflater *inflater;     /* owned */
        struct strbuf               in;           /* owned: an incomplete frame */
        struct strbuf               block;        /* owned: a header block in several frames */
        uint32_t                    block_stream; /* its stream; 0: none */
        bool                        block_ends;   /* END_STREAM */
        uint32_t                    next_id;
        uint32_t n_open, max_open; /* max_open: of the peer; 0 until its settings have come */
        bool     has_settings;     /* of the peer */
        int64_t  window;           /* of the connection */
        int64_t  initial_window;
        uint32_t max_frame;
        uint32_t n_received;
        uint32_t n_waiting; /* streams that wait for a window */
        struct h2_client_stream *buckets[H2_CLIENT_BUCKETS];
};

/* False when memory is short. */
bool h2_client_init(struct h2_client *c, const struct h2_client_ops *ops) NODISCARD;
/* Closes no stream: the owner forgets them. */
void h2_client_done(struct h2_client *c);

/* True when the peer takes one more stream. It says in its settings how many it takes, so none is opened before. */
bool h2_client_has_room(const struct h2_client *c);
/* True when it takes no further streams ever, and none is open. */
bool h2_client_is_over(const struct h2_client *c);
/* True when a stream was opened. */
bool h2_client_was_used(const struct h2_client *c);
void h2_client_open(struct h2_client *c, struct h2_client_stream *s, struct str block);
/* Sends a message of at most H2_CLIENT_PARTS parts. The stream has sent all of the one before. */
void h2_client_send(struct h2_client *c, struct h2_client_stream *s, const struct str *parts,
                    size_t n_parts, bool ends);

/* False when the connection is of no more use: c->wrong. */
bool h2_client_read(struct h2_client *c, struct str in) NODISCARD;

/* Any stream that is open; NULL: there is none. */
struct h2_client_stream *h2_client_first(const struct h2_client *c);
void                     h2_client_forget(struct h2_client *c, struct h2_client_stream *s);
/* Closes the stream with RST_STREAM; on_end() is not called. */
void h2_client_reset(struct h2_client *c, struct h2_client_stream *s);

/* Appends a field to a header block: a literal that is not indexed (RFC 7541, 6.2.2). */
void h2_block_put(struct strbuf *block, struct str name, struct str value);
/* Name of an error code. Static. */
const char *h2_code_name(uint32_t code);
