/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with made-up methods on real sockets, and a client that writes frames by hand, for the
 * tests of the transport.
 *
 *     /t.T/Echo      unary: the message back
 *     /t.T/Meta      unary: values of x-tell, initial and trailing metadata
 *     /t.T/Fail      unary: NOT_FOUND, with a text that has to be encoded
 *     /t.T/Later     unary: held until fixture_answer_held() or fixture_fail_held()
 *     /t.T/Big       unary: 12 parts of 1 MiB
 *     /t.T/Flood     server stream: 1 MiB messages without end, until aborted
 *     /t.T/Chat      both stream: each message back, OK after half-close
 *     /t.T/Slow      both stream: paused after each message, resumed by fixture_resume()
 *     /t.T/Locked    as Echo, in the group "trace"
 *     /t.T/Packed    as Echo, compressible
 *     /t.T/Starve    unary: from then on, that many allocations on, its loop gets no memory, until
 *                    fixture_feed()
 */
#pragma once

#include "auth/endpoint.h"
#include "grpc/grpc_server.h"
#include "net/seen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fixture {
        struct grpc_server_options options;
        struct grpc_server        *server;
        struct endpoint_policy     policy;

        struct seen       seen;       /* filled by callbacks */
        struct grpc_call *held;       /* one that has not been answered; guarded by seen.lock */
        enum grpc_abort   reason;     /* of the last of them */
        size_t            n_messages; /* delivered to Slow */
        struct mailbox   *starved;    /* of the loop that Starve ran on */
        struct mail       feed;
        size_t            n_fed;
};

/* Options may be changed between the two. */
void fixture_init(struct fixture *f);
void fixture_start(struct fixture *f);
void fixture_done(struct fixture *f); /* stops, too */

void fixture_answer_held(struct fixture *f); /* waits for it first: "late" */
void fixture_resume(struct fixture *f);
void fixture_feed(struct fixture *f);
bool fixture_was_rejected(struct fixture *f, const char *limit);
void fixture_wait_rejected(struct fixture *f, const char *limit);

/* ---- the client ---- */

enum {
        FRAME_DATA,
        FRAME_HEADERS,
        FRAME_PRIORITY,
        FRAME_RST_STREAM,
        FRAME_SETTINGS,
        FRAME_PUSH_PROMISE,
        FRAME_PING,
        FRAME_GOAWAY,
        FRAME_WINDOW_UPDATE,
        FRAME_CONTINUATION,
};

enum {
        END_STREAM = 1,
        ACK = 1,
        END_HEADERS = 4,
};

struct client {
        int           fd;
        struct strbuf out;      /* frames not yet written */
        void         *inflater; /* of header compression */
};

struct frame {
        uint32_t      len;
        unsigned      type, flags;
        uint32_t      stream;
        unsigned char payload[1 << 18];
};

struct answer {
        char          status[8]; /* :status */
        int           code;      /* grpc-status; -1 = none */
        struct strbuf text;      /* grpc-message, as on the wire */
        struct strbuf fields;    /* "name: value\n" of all headers */
        struct strbuf body;      /* of DATA frames */
        uint32_t      reset;     /* code of RST_STREAM + 1; 0 = none */
        unsigned      n_headers; /* HEADERS frames */
};

/* Connects; sends preface and SETTINGS when `greets`. */
void client_open(struct client *c, const struct fixture *f, bool greets);
void client_close(struct client *c);

/* These collect; client_flush() writes. */
void client_frame(struct client *c, unsigned type, unsigned flags, uint32_t stream,
                  const void *payload, size_t len);
void client_field(struct strbuf *block, const char *name, const char *value);
/* The headers of a call; further fields come in pairs up to a NULL. */
void client_call(struct client *c, uint32_t stream, const char *path, ...);
/* DATA with one message. */
void client_message(struct client *c, uint32_t stream, unsigned flags, const void *bytes,
                    size_t len);
void client_window(struct client *c, uint32_t stream, uint32_t n);
void client_flush(struct client *c);

/* False at the end of the connection. */
bool client_read(struct client *c, struct frame *ret);
/* Reads until the stream has ended, acknowledging and giving windows on the way. */
void client_answer(struct client *c, uint32_t stream, struct answer *ret);
void answer_done(struct answer *a);
/* True when the stream ended properly, false when the connection did. */
bool client_try(struct client *c, uint32_t stream);
/* One whole call: Echo-like, `text` as message; the answer's code, text and body as given. */
void client_expect(struct client *c, uint32_t stream, const char *path, const char *text, int code,
                   const char *body);
/* Reads to the end of the connection; the code of the last GOAWAY, with its text in `ret`. */
uint32_t client_read_goaway(struct client *c, struct strbuf *ret);
