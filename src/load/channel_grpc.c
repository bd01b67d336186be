/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of gRPC over HTTP/2: a call is a stream, or a message of a stream that stays open.
 *
 * The frames of all calls of a round are gathered and sent together at its end. */
#include "base/clock.h"
#include "load/channel_private.h"
#include "load/grpc_answer.h"

#define PREFIX_BYTES 5
/* What is gathered before a write is begun at once, without waiting for the end of the round. */
#define MAX_GATHERED ((size_t)256 << 10)

static const char *const status_names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
};

static struct call *call_of(struct h2_client_stream *s) {
        return CONTAINER_OF(s, struct call, stream);
}

/* ---- writing ----------------------------------------------------------------------------------- */

static void write_out(struct channel *ch) {
        struct strbuf swap = ch->sending;

        if (ch->state != CHANNEL_OPEN || conn_is_writing(ch->conn) || ch->h2.out.len == 0)
                return;
        ch->sending = ch->h2.out;
        ch->h2.out = swap;
        strbuf_clear(&ch->h2.out);
        if (conn_write(ch->conn, &(struct iovec){ ch->sending.ptr, ch->sending.len }, 1) ==
            CONN_WRITE_FAILED)
                conn_shutdown(ch->conn); /* on_end() follows */
}

static void on_flush(struct loop_task *task) {
        write_out(CONTAINER_OF(task, struct channel, flush));
}

static void flush_soon(struct channel *ch) {
        if (ch->h2.out.len >= MAX_GATHERED)
                write_out(ch);
        else
                loop_defer(ch->shard->loop, LOOP_WRITE, &ch->flush);
}

static void on_written(struct channel *ch) {
        write_out(ch);
}

/* ---- calls ------------------------------------------------------------------------------------- */

static bool has_room(const struct channel *ch) {
        return h2_client_has_room(&ch->h2);
}

static bool is_over(const struct channel *ch) {
        return h2_client_is_over(&ch->h2);
}

static void begin_call(struct channel *ch, struct call *c) {
        c->http_status = 0;
        c->grpc_status = -1;
        strbuf_clear(&c->gathered);
        strbuf_clear(&c->reason);
        h2_client_open(&ch->h2, &c->stream, c->message->head);
}

static void write_prefix(char *prefix, bool is_compressed, size_t len) {
        prefix[0] = is_compressed;
        for (unsigned i = 0; i < 4; i++)
                prefix[1 + i] = (char)(len >> (24 - 8 * i));
}

static void send_call(struct channel *ch, struct call *c) {
        const struct wire_message *m = c->message;
        struct str                 parts[4] = { str_range(c->prefix, PREFIX_BYTES), m->before,
                                                str_range(c->patch, c->n_patch), m->after };

        c->sent_ns = clock_now_ns();
        c->stays_open = m->is_stream;
        if (c->stream.id == 0)
                begin_call(ch, c);
        write_prefix(c->prefix, m->is_compressed, m->before.len + c->n_patch + m->after.len);
        h2_client_send(&ch->h2, &c->stream, parts, ARRAY_LEN(parts), !m->is_stream);
        c->written_ns = c->sent_ns; /* it is written with the others of the round */
        flush_soon(ch);
}

/* On a connection that ends, a stream that stays open ends with its call, so that the next one gets a new
 * connection. */
static void finish_call(struct channel *ch, struct call *c, const struct answer *a) {
        if (c->channel == NULL) /* a stream has ended between two calls */
                return;
        if (ch->h2.is_going && c->stream.id != 0)
                h2_client_reset(&ch->h2, &c->stream);
        channel_finish(ch, c, a);
}

/* ---- reading ----------------------------------------------------------------------------------- */

static void on_field(struct h2_client_stream *s, struct str name, struct str value) {
        struct call *c = call_of(s);
        uint64_t     number;

        if (STR_IS(name, "grpc-status")) {
                c->grpc_status = str_to_u64(value, &number) && number < 1000 ? (int)number : 2;
        } else if (STR_IS(name, ":status")) {
                c->http_status = str_to_u64(value, &number) && number < 1000 ? (int)number : 0;
        } else if (STR_IS(name, "grpc-message")) {
                strbuf_clear(&c->reason);
                strbuf_put(&c->reason, value.ptr, value.len);
        }
}

static struct channel *channel_of(struct call *c) {
        return c->channel;
}

/* A message of a stream of ModelStreamInfer. */
static void on_stream_message(struct call *c, struct str message) {
        struct channel    *ch = channel_of(c);
        struct grpc_answer g;
        struct answer      a = { .kind = ANSWER_OK, .text = message };

        if (!grpc_stream_answer_read(message, &g))
                a = (struct answer){ .kind = ANSWER_BROKEN,
                                     .text = STR_LIT("a message cannot be decoded") };
        else if (g.error.len > 0)
                a = (struct answer){ .kind = ANSWER_REFUSED, .code = 2, .text = g.error };
        else
                a.text = g.response;
        a.is_empty = a.kind == ANSWER_OK && g.is_empty;
        c->response_ns = ch->read_ns;
        if (c->ops->on_response != NULL && !a.is_empty)
                c->ops->on_response(c, &a);
        if (a.kind != ANSWER_OK || g.is_final || c->ends_at_first)
                finish_call(ch, c, &a);
}

static void on_message(struct call *c, struct str message) {
        if (c->channel == NULL)
                return;
        if (c->first_ns == 0)
                c->first_ns = c->channel->read_ns;
        on_stream_message(c, message);
}

static uint64_t announced(const char *prefix) {
        const unsigned char *b = (const unsigned char *)prefix;

        return (uint64_t)b[1] << 24 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 8 | b[4];
}

/* Splits the bytes of a stream into messages. One that is whole in the bytes is not copied. */
static void on_stream_data(struct call *c, struct str in) {
        while (in.len > 0 && c->stream.id != 0) {
                size_t n;

                if (c->gathered.len == 0 && in.len >= PREFIX_BYTES &&
                    in.len - PREFIX_BYTES >= announced(in.ptr)) {
                        n = (size_t)announced(in.ptr);
                        on_message(c, str_range(in.ptr + PREFIX_BYTES, n));
                        in = str_skip(in, PREFIX_BYTES + n);
                        continue;
                }
                n = c->gathered.len < PREFIX_BYTES
                            ? PREFIX_BYTES - c->gathered.len
                            : (size_t)announced(c->gathered.ptr) + PREFIX_BYTES - c->gathered.len;
                n = MIN(n, in.len);
                strbuf_put(&c->gathered, in.ptr, n);
                in = str_skip(in, n);
                if (c->gathered.overflowed)
                        return;
                if (c->gathered.len >= PREFIX_BYTES &&
                    c->gathered.len == announced(c->gathered.ptr) + PREFIX_BYTES) {
                        n = c->gathered.len - PREFIX_BYTES;
                        c->gathered.len = 0; /* the bytes stay during the call */
                        on_message(c, str_range(c->gathered.ptr + PREFIX_BYTES, n));
                }
        }
}

static void on_data(struct h2_client_stream *s, struct str bytes) {
        struct call *c = call_of(s);

        if (c->stays_open) {
                on_stream_data(c, bytes);
                return;
        }
        if (c->first_ns == 0 && c->channel != NULL)
                c->first_ns = c->channel->read_ns;
        strbuf_put(&c->gathered, bytes.ptr, bytes.len);
}

/* The one message of an ordinary call, with its prefix. */
static bool is_whole(const struct call *c) {
        return c->gathered.len >= PREFIX_BYTES && c->gathered.ptr[0] == 0 &&
               !c->gathered.overflowed &&
               c->gathered.len == announced(c->gathered.ptr) + PREFIX_BYTES;
}

static struct answer broken(const char *text) {
        return (struct answer){ .kind = ANSWER_BROKEN, .text = str_of(text) };
}

static struct answer unary_answer(struct call *c, uint32_t code) {
        const char *name;

        if (code != 0)
                return broken(h2_code_name(code));
        if (c->http_status != 200 && c->grpc_status < 0)
                return broken(c->http_status == 0 ? "an answer without headers"
                                                  : "the HTTP status is not 200");
        if (c->grpc_status < 0)
                return broken("an answer without grpc-status");
        if (c->grpc_status > 0) {
                name = (size_t)c->grpc_status < ARRAY_LEN(status_names)
                               ? status_names[c->grpc_status]
                               : "unknown status";
                return (struct answer){ .kind = ANSWER_REFUSED,
                                        .code = c->grpc_status,
                                        .text = c->reason.len > 0 ? strbuf_str(&c->reason)
                                                                  : str_of(name) };
        }
        if (!is_whole(c))
                return broken("a message has another length than announced");
        return (struct answer){ .kind = ANSWER_OK,
                                .text = str_range(c->gathered.ptr + PREFIX_BYTES,
                                                  c->gathered.len - PREFIX_BYTES) };
}

static void on_stream_end(struct h2_client_stream *s, uint32_t code) {
        struct call  *c = call_of(s);
        struct answer a;

        if (c->channel == NULL)
                return;
        a = unary_answer(c, code);
        if (c->stays_open && a.kind != ANSWER_REFUSED)
                a = broken("the server ended the stream");
        finish_call(c->channel, c, &a);
}

/* The next connection sends the call again, once: a server may refuse it on each connection. */
static void on_stream_refused(struct h2_client_stream *s) {
        struct call        *c = call_of(s);
        const struct answer a =
                broken("the server ends each connection before it takes the request");

        if (c->was_refused) {
                finish_call(c->channel, c, &a);
                return;
        }
        c->was_refused = true;
        channel_wait(c->channel, c);
}

/* A stream that stays open is idle between two calls. */
static bool is_idle(struct h2_client_stream *s) {
        return call_of(s)->channel == NULL;
}

static const struct h2_client_ops h2_ops = {
        .on_field = on_field,
        .on_data = on_data,
        .on_end = on_stream_end,
        .on_refused = on_stream_refused,
        .is_idle = is_idle,
};

static void on_open(struct channel *ch) {
        ch->has_h2 = true;
        ch->flush.run = on_flush;
        if (!h2_client_init(&ch->h2, &h2_ops))
                ch->h2.wrong = "out of memory";
        flush_soon(ch);
}

static const char *on_read(struct channel *ch, struct str in) {
        if (!h2_client_read(&ch->h2, in))
                return ch->h2.wrong;
        /* A new connection would fare no better. */
        if (h2_client_is_over(&ch->h2) && !h2_client_was_used(&ch->h2))
                return "the server takes no requests on a new connection";
        if (ch->h2.out.len > 0)
                flush_soon(ch);
        return NULL;
}

/* Streams that stay open between two calls are forgotten on the way. */
static struct call *take_call(struct channel *ch) {
        struct h2_client_stream *s;

        while (ch->has_h2 && (s = h2_client_first(&ch->h2)) != NULL) {
                struct call *c = call_of(s);

                h2_client_forget(&ch->h2, s);
                if (c->channel != NULL)
                        return c;
        }
        return NULL;
}

static void on_closed(struct channel *ch) {
        if (list_is_linked(&ch->flush.node))
                list_remove(&ch->flush.node);
        if (ch->has_h2)
                h2_client_done(&ch->h2);
        ch->has_h2 = false;
}

const struct channel_protocol channel_grpc = {
        .on_open = on_open,
        .send = send_call,
        .has_room = has_room,
        .is_over = is_over,
        .on_read = on_read,
        .on_written = on_written,
        .take_call = take_call,
        .on_closed = on_closed,
};
