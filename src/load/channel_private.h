/* SPDX-License-Identifier: BSD-3-Clause */
/* For channel.c, channel_http.c and channel_grpc.c only: the struct of a channel and the table of a
 * protocol. channel.c connects, and calls the protocol through the table. */
#pragma once

#include "base/clock.h"
#include "load/channel.h"
#include "load/http_response.h"
#include "net/conn.h"
#include "net/loop.h"

enum channel_state { CHANNEL_IDLE, CHANNEL_CONNECTING, CHANNEL_OPEN };

struct channel_protocol {
        void (*on_open)(struct channel *ch);
        /* In state CHANNEL_OPEN, with room for the call. */
        void (*send)(struct channel *ch, struct call *c);
        bool (*has_room)(const struct channel *ch);
        /* True when the connection takes no further calls and owes no answers: the next calls need a new one. */
        bool (*is_over)(const struct channel *ch);
        /* NULL, or what is wrong. */
        const char *(*on_read)(struct channel *ch, struct str bytes);
        void (*on_written)(struct channel *ch);
        /* Takes any call that is under way out of the channel; NULL: there is none. */
        struct call *(*take_call)(struct channel *ch);
        void (*on_closed)(struct channel *ch);
};

struct channel {
        struct channel_shard          *shard;    /* borrowed */
        const struct channel_protocol *protocol; /* borrowed: static */
        struct conn                   *conn;     /* owned; NULL in CHANNEL_IDLE */
        enum channel_state             state;
        unsigned                       n_conns;   /* that the loop has not closed yet */
        bool                           is_closed; /* by channel_close() */
        uint64_t                       read_ns;   /* time of the read that is under way */
        struct call     *waiting, **waiting_end;  /* calls without room, in their order */
        struct loop_task retry;                   /* sends them */

        /* HTTP/1.1 */
        struct call         *current;
        struct http_response response;
        size_t               event_at;  /* of the body: the event that is not complete yet */
        size_t               failed_at; /* the event with an error; SIZE_MAX: none */
        struct strbuf        event;     /* owned: the text of an event with several lines of it */

        /* gRPC */
        struct h2_client h2;
        bool             has_h2;
        struct strbuf    sending; /* being written */
        struct loop_task flush;
};

extern const struct channel_protocol channel_http, channel_grpc;

/* The call waits, with others, until there is room for it. */
static inline void channel_wait(struct channel *ch, struct call *c) {
        c->next_waiting = NULL;
        c->is_waiting = true;
        *ch->waiting_end = c;
        ch->waiting_end = &c->next_waiting;
}

/* The call has its answer. */
static inline void channel_finish(struct channel *ch, struct call *c, const struct answer *a) {
        c->channel = NULL;
        c->done_ns = a->kind == ANSWER_BROKEN ? clock_now_ns() : ch->read_ns;
        c->ops->on_done(c, a);
}
