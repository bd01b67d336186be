/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection to the target that carries calls: one at a time over HTTP/1.1, one a stream over gRPC.
 *
 * channel_send() connects when necessary. When the connection breaks, its calls end with ANSWER_BROKEN and
 * the next call connects again. A server may end a connection in good order: after the answers that it owes,
 * calls that wait, and those that it has not taken, go to a new one. The bytes of a request were made before
 * (struct wire_message), apart from a short patch that the caller writes into the call.
 *
 *     HTTP/1.1:  before | patch | after             the whole request
 *     gRPC:      head as HEADERS; a prefix with the length, before | patch | after as DATA
 *
 * Ownership.  A call is embedded in its owner and is used by the channel until on_done(). The message is
 * borrowed until then. channel_close() drops calls without on_done(); the channel is freed by its loop later.
 * Threads.  The loop's thread.
 */
#pragma once

#include "base/str.h"
#include "load/h2_client.h"
#include "load/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALL_PATCH_BYTES 160
/* The read buffer that the channels of a loop share. */
#define CHANNEL_ROOM_BYTES ((size_t)256 << 10)

struct call;
struct channel;
struct loop;

struct wire_message {
        struct str head; /* gRPC: the header block */
        struct str before, after;
        bool       is_compressed; /* gRPC: `before` is, and there is nothing else */
        bool is_stream; /* gRPC: the stream stays open for further calls of the same struct call */
        bool is_events; /* HTTP: the answer is server-sent events, each of which is a response */
};

enum answer_kind {
        ANSWER_OK,
        ANSWER_REFUSED, /* by the server: `code` is the HTTP status or the gRPC status */
        ANSWER_BROKEN,  /* no answer, or one that is against the protocol */
};

struct answer {
        enum answer_kind kind;
        int              code;
        struct str       text; /* OK: the body or the message; else the reason */
        size_t header_length;  /* HTTP: of the JSON before binary tensors; 0: all is JSON */
        bool   is_empty;       /* of a stream or of events: it has no outputs of its own */
};

struct call_ops {
        /* A response of a stream; on_done() follows the last one. NULL for calls that have one answer. */
        void (*on_response)(struct call *c, const struct answer *a);
        void (*on_done)(struct call *c, const struct answer *a);
};

struct call {
        const struct call_ops     *ops;     /* borrowed: static */
        const struct wire_message *message; /* borrowed */
        size_t                     n_patch;
        char                       patch[CALL_PATCH_BYTES];
        bool                       ends_at_first; /* of a stream: the first response is the last */
        uint64_t sent_ns, written_ns; /* when the write began; when the socket had all of it */
        uint64_t first_ns, done_ns;   /* the first and the last bytes of the answer were read */
        uint64_t response_ns;         /* of on_response(): the end of the response was read */

        /* of the channel */
        struct channel         *channel; /* NULL: the call is not under way */
        struct h2_client_stream stream;
        struct strbuf           gathered; /* a gRPC message that came in pieces */
        char                    prefix[5];
        int                     http_status, grpc_status; /* grpc_status -1: none came */
        bool                    is_waiting, stays_open;
        bool                    was_refused; /* by a connection that ended; gRPC */
        struct strbuf           reason;      /* grpc-message */
        struct call            *next_waiting;
};

void call_init(struct call *c, const struct call_ops *ops);
void call_done(struct call *c); /* the call is not under way */

/* What the channels of a loop share. */
struct channel_shard {
        struct loop         *loop;   /* borrowed */
        const struct target *target; /* borrowed */
        char                *room;   /* owned: CHANNEL_ROOM_BYTES */
};

struct channel *channel_open(struct channel_shard *shard);
void            channel_close(struct channel *ch);
/* Starts the call; on_done() follows, at the earliest when the loop runs again or reads. */
void channel_send(struct channel *ch, struct call *c);
