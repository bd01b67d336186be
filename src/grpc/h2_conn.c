/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_conn.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "grpc/grpc_server.h"
#include "grpc/h2_out.h"
#include "grpc/h2_session.h"
#include "net/loop.h"

/* A client that does not answer the ping of a notice is told the final word all the same. */
#define NOTICE_NS NS_PER_S

static const char event_source_ping[H2_PING_BYTES] = "goodbye";
static const char keepalive_ping[H2_PING_BYTES] = "alive?";

const struct grpc_limits *h2_conn_limits(const struct h2_conn *c) {
        return &c->home->options->limits;
}

void h2_conn_count_rejected(struct h2_conn *c, enum grpc_limit limit) {
        const struct grpc_server_options *o = c->home->options;

        if (limit != GRPC_LIMIT_NONE && o->net.on_rejected)
                o->net.on_rejected(o->net.rejected_owner, grpc_limit_name(limit));
}

/* ---- the end ---- */

static void drop_spares(struct h2_loop *home, size_t n_kept) {
        while (home->n_spares > n_kept) {
                struct grpc_stream *st =
                        LIST_ENTRY(list_first(&home->spares), struct grpc_stream, node);

                list_remove(&st->node);
                home->n_spares--;
                free(st);
        }
}

static void free_conn(struct h2_conn *c) {
        struct h2_loop *home = c->home;

        list_remove(&c->node);
        if (list_is_empty(&home->net.conns))
                drop_spares(home, H2_LASTING_STREAMS);
        if (list_is_linked(&c->unflushed_node))
                list_remove(&c->unflushed_node);
        h2_out_free(c->writing);
        free(c);
        if (home->net.server)
                net_home_conn_gone(&home->net);
}

static void log_access(const struct grpc_stream *st) {
        const struct grpc_server_options *o = st->conn->home->options;
        struct grpc_access                access;

        if (!o->on_access)
                return;
        access = (struct grpc_access){
                .peer = grpc_call_peer(&st->call),
                .path = st->call.path,
                .key = access_key_name(&st->call.access),
                .code = st->code,
                .bytes_in = st->bytes_in,
                .bytes_out = st->bytes_out,
                .duration_ns = clock_now_ns() - st->call.recv_start_ns,
                .is_aborted = st->call.abort_reason == GRPC_ABORT_CANCELLED,
        };
        o->on_access(o->owner, &access);
}

void h2_conn_recycle(struct grpc_stream *st) {
        struct h2_conn *c = st->conn;
        struct h2_loop *home = c->home;

        if (st->call.on_sent)
                st->call.on_sent(&st->call);
        log_access(st);
        access_done(&st->call.access);
        list_remove(&st->node);
        c->n_streams--;
        arena_done(&st->call.arena);
        if (home->n_spares < H2_SPARE_STREAMS) {
                list_prepend(&home->spares, &st->node);
                home->n_spares++;
        } else {
                free(st);
        }
        if (!c->session && !c->is_ending && c->n_streams == 0)
                free_conn(c);
}

static struct grpc_stream *find_open(struct h2_conn *c) {
        LIST_FOR_EACH(&c->streams, node) {
                struct grpc_stream *st = LIST_ENTRY(node, struct grpc_stream, node);

                if (st->id != 0)
                        return st;
        }
        return NULL;
}

/* Handlers are told; what they have stays until they finish. */
static void end_calls(struct h2_conn *c) {
        struct grpc_stream *st;

        while ((st = find_open(c)) != NULL)
                grpc_stream_on_closed(st);
}

void h2_conn_end(struct h2_conn *c) {
        c->is_ending = true; /* handlers that finish now must not free the connection under us */
        end_calls(c);
        h2_session_close(c);
        c->net = NULL;
        c->is_ending = false;
        if (c->n_streams == 0)
                free_conn(c);
}

void h2_conn_kill(struct h2_conn *c) {
        c->is_condemned = true;
        if (c->net)
                conn_close(c->net);
}

/* ---- writing ---- */

static void linger(struct h2_conn *c) {
        c->is_lingering = true;
        c->linger_ns = c->now_ns;
        end_calls(c);
        if (c->net)
                conn_shutdown(c->net);
}

static bool can_write(const struct h2_conn *c) {
        return c->session && !c->is_lingering &&
               (!c->net || (!conn_is_closing(c->net) && !conn_is_writing(c->net)));
}

/* False when there is nothing more to write for now. */
static bool write_some(struct h2_conn *c, enum h2_gathered gathered) {
        struct h2_out  *out = c->home->out;
        enum conn_write rc = CONN_WRITE_DONE;

        c->written_bytes += out->n_bytes;
        if (out->n_bytes > 0 && c->net)
                rc = conn_write(c->net, out->parts, out->n_parts);
        if (rc == CONN_WRITE_PENDING) {
                c->writing = STEAL(c->home->out);
                return false;
        }
        h2_out_clear(out);
        if (rc == CONN_WRITE_FAILED)
                h2_conn_kill(c);
        return rc == CONN_WRITE_DONE && gathered == H2_GATHERED_FULL;
}

static bool gather_and_write(struct h2_conn *c) {
        enum h2_gathered gathered;

        if (!c->home->out)
                c->home->out = h2_out_new(c->home->pool);
        if (!c->home->out) {
                h2_conn_kill(c);
                return false;
        }
        gathered = h2_session_gather(c, c->home->out);
        if (gathered != H2_GATHERED_FAILED)
                return write_some(c, gathered);
        h2_out_clear(c->home->out);
        h2_conn_kill(c);
        return false;
}

static struct grpc_stream *find_due(struct h2_conn *c) {
        LIST_FOR_EACH(&c->streams, node) {
                struct grpc_stream *st = LIST_ENTRY(node, struct grpc_stream, node);

                if (st->is_due)
                        return st;
        }
        return NULL;
}

static void tell_due(struct h2_conn *c) {
        struct grpc_stream *st;

        if (!c->has_due)
                return;
        c->has_due = false;
        while ((st = find_due(c)) != NULL)
                grpc_stream_on_due(st);
}

static bool is_over(const struct h2_conn *c) {
        return c->is_condemned || (c->leaving == H2_LEAVING_FINAL && c->n_open == 0) ||
               h2_session_is_over(c);
}

bool h2_conn_holds_much(const struct h2_conn *c) {
        return c->stashed_bytes + c->given_bytes + c->unsent_bytes > H2_MAX_HELD_BYTES;
}

void h2_conn_release_window(struct h2_conn *c) {
        if (c->withheld_bytes == 0 || h2_conn_holds_much(c))
                return;
        h2_session_release(c, c->withheld_bytes);
        c->withheld_bytes = 0;
        c->wants_flush = true; /* the update has to be sent */
}

static void flush(struct h2_conn *c) {
        if (c->is_flushing || !can_write(c))
                return;
        c->is_flushing = true;
        do {
                c->wants_flush = false;
                while (gather_and_write(c))
                        ;
                h2_conn_release_window(c);
                tell_due(c);
        } while (c->wants_flush && can_write(c));
        c->is_flushing = false;
        if (can_write(c) && is_over(c))
                linger(c);
}

void h2_conn_flush_soon(struct h2_conn *c, bool is_alone) {
        struct h2_loop *home = c->home;

        c->wants_flush = true;
        if (c->is_busy || c->is_flushing || !c->net)
                return;
        if (is_alone) {
                flush(c);
                return;
        }
        if (!list_is_linked(&c->unflushed_node))
                list_append(&home->unflushed, &c->unflushed_node);
        loop_defer(home->net.loop, LOOP_WRITE, &home->flush);
}

static void on_flush(struct loop_task *task) {
        struct h2_loop *home = CONTAINER_OF(task, struct h2_loop, flush);

        while (!list_is_empty(&home->unflushed)) {
                struct h2_conn *c =
                        LIST_ENTRY(list_first(&home->unflushed), struct h2_conn, unflushed_node);

                list_remove(&c->unflushed_node);
                flush(c);
        }
}

static void on_written(struct conn *net, bool is_ok) {
        struct h2_conn *c = conn_owner(net);

        h2_out_clear(c->writing);
        if (c->home->out)
                h2_out_free(c->writing);
        else
                c->home->out = c->writing;
        c->writing = NULL;
        if (is_ok)
                flush(c);
        else
                h2_conn_kill(c);
}

/* ---- reading ---- */

/* Nobody else looks at its bytes: handlers hold messages in it. */
static bool is_sole_owner(const struct buf *b) {
        return atomic_load_explicit(&b->ref.count, memory_order_acquire) == 1;
}

static struct iovec on_room(struct conn *net) {
        struct h2_conn *c = conn_owner(net);
        struct h2_loop *home = c->home;
        struct iovec    room = { NULL, 0 };

        if (!c->is_lingering && !c->is_condemned)
                room = h2_session_room(c);
        c->is_direct = room.iov_len > 0;
        c->read_at = room.iov_base;
        if (c->is_direct)
                return room;
        if (home->in && is_sole_owner(home->in))
                home->in_len = 0;
        if (!home->in || home->in->cap - home->in_len < H2_MIN_READ_ROOM) {
                buf_unref(home->in);
                home->in = buf_new(home->pool, H2_READ_BYTES);
                home->in_len = 0;
        }
        if (!home->in)
                return room;
        c->read_at = home->in->bytes + home->in_len;
        return (struct iovec){ c->read_at, home->in->cap - home->in_len };
}

static void on_no_room(struct conn *net) {
        struct h2_conn *c = conn_owner(net);

        h2_conn_count_rejected(c, GRPC_LIMIT_MEMORY);
        h2_conn_kill(c);
}

void h2_conn_feed(struct h2_conn *c, struct str bytes, struct buf *owner) {
        if (c->is_lingering || c->is_condemned)
                return;
        c->is_busy = true;
        if (bytes.len > 0 && !h2_session_receive(c, bytes, owner))
                c->is_condemned = true;
        c->is_busy = false;
        flush(c);
}

static void on_read(struct conn *net, size_t n_bytes) {
        struct h2_conn *c = conn_owner(net);
        struct h2_loop *home = c->home;

        c->now_ns = clock_now_ns();
        h2_pings_on_read(&c->pings, c->now_ns);
        if (!c->is_direct)
                home->in_len += n_bytes;
        h2_conn_feed(c, str_range(c->read_at, n_bytes), c->is_direct ? NULL : home->in);
}

/* Half a connection is of no use to either side: a client that ends its own has gone. */
static void on_end(struct conn *net, bool is_reset UNUSED) {
        h2_conn_kill(conn_owner(net));
}

static void on_closed(struct conn *net) {
        h2_conn_end(conn_owner(net));
}

/* ---- what the session tells ---- */

struct grpc_stream *h2_conn_on_stream(struct h2_conn *c, int32_t id) {
        struct grpc_stream *st = NULL;

        if (c->n_streams >= h2_conn_limits(c)->calls)
                h2_conn_count_rejected(c, GRPC_LIMIT_STREAMS);
        else if ((st = grpc_stream_new(c, id)) == NULL)
                h2_conn_count_rejected(c, GRPC_LIMIT_MEMORY);
        if (!st)
                return NULL;
        list_append(&c->streams, &st->node);
        c->n_streams++;
        c->n_open++;
        return st;
}

void h2_conn_calm(struct h2_conn *c, enum grpc_limit limit, const char *text) {
        if (c->is_condemned)
                return;
        h2_conn_count_rejected(c, limit);
        h2_session_terminate(c, H2_ENHANCE_YOUR_CALM, text);
}

bool h2_conn_on_control_frame(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);

        if (h2_allowance_take(&c->control_frames, l->control_frames_at_once,
                              l->control_frames_per_s, c->now_ns))
                return true;
        h2_conn_calm(c, GRPC_LIMIT_CONTROL_FRAMES, "too_many_control_frames");
        return false;
}

bool h2_conn_on_reset(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);

        if (h2_allowance_take(&c->resets, l->resets_at_once, l->resets_per_s, c->now_ns))
                return true;
        h2_conn_calm(c, GRPC_LIMIT_RESETS, "too_many_resets");
        return false;
}

bool h2_conn_on_ping(struct h2_conn *c) {
        if (h2_pings_on_ping(&c->pings, h2_conn_limits(c), c->n_open > 0, c->now_ns))
                return true;
        h2_conn_calm(c, GRPC_LIMIT_PINGS, "too_many_pings");
        return false;
}

void h2_conn_on_payload_sent(struct h2_conn *c) {
        h2_pings_on_payload_sent(&c->pings);
        h2_allowance_refill(&c->control_frames);
}

/* ---- good-bye ---- */

static void say_final(struct h2_conn *c) {
        if (c->leaving == H2_LEAVING_FINAL)
                return;
        c->leaving = H2_LEAVING_FINAL;
        h2_session_goaway(c, "");
}

static void leave(struct h2_conn *c) {
        if (c->leaving != H2_STAYING)
                return;
        c->leaving = H2_LEAVING_NOTICE;
        c->leave_ns = c->now_ns;
        h2_session_announce_goaway(c);
        h2_session_ping(c, event_source_ping);
}

void h2_conn_on_ping_ack(struct h2_conn *c, const char opaque[8]) {
        if (memcmp(opaque, event_source_ping, sizeof(event_source_ping)) == 0 &&
            c->leaving != H2_STAYING)
                say_final(c);
        else if (memcmp(opaque, keepalive_ping, sizeof(keepalive_ping)) == 0)
                h2_pings_on_ack(&c->pings);
}

void h2_conn_drain(struct h2_conn *c) {
        if (c->is_lingering || c->is_condemned)
                return;
        if (c->net && conn_is_shaking_hands(c->net)) { /* it would wait for that to say good-bye */
                h2_conn_kill(c);
                return;
        }
        c->now_ns = clock_now_ns();
        if (c->n_open > 0)
                leave(c);
        else
                say_final(c);
        flush(c);
}

/* ---- time ---- */

/* False: the connection ends. */
static bool check_heads(struct h2_conn *c) {
        uint64_t limit_ns = h2_conn_limits(c)->header_time_ns;

        if ((c->has_settings || c->now_ns - c->opened_ns < limit_ns) &&
            (c->head_ns == 0 || c->now_ns - c->head_ns < limit_ns))
                return true;
        h2_conn_calm(c, GRPC_LIMIT_HEADER_TIME, "headers_too_slow");
        return false;
}

/* The rest of a message, or the half-close behind the only one, is still to come. */
static bool has_partial(struct h2_conn *c) {
        LIST_FOR_EACH(&c->streams, node) {
                const struct grpc_stream *st = LIST_ENTRY(node, struct grpc_stream, node);

                if (st->id != 0 && !st->is_answered && !st->pauses && !st->stash.buf &&
                    (grpc_frame_is_partial(&st->frame) || (st->has_only && !st->has_ended)))
                        return true;
        }
        return false;
}

/* Messages under way have to come on, all together. */
static bool check_pace(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);
        bool                      is_slow;

        if (!has_partial(c)) {
                c->pace_ns = c->now_ns;
                c->pace_bytes = 0;
                return true;
        }
        if (c->now_ns - c->pace_ns < l->message_window_ns)
                return true;
        is_slow = c->pace_bytes < l->message_window_bytes;
        c->pace_ns = c->now_ns;
        c->pace_bytes = 0;
        if (is_slow)
                h2_conn_calm(c, GRPC_LIMIT_MESSAGE_RATE, "message_too_slow");
        return !is_slow;
}

/* The client has to take what is with its socket: the calls of a connection together. Bytes count
 * when its system has acknowledged them, since the socket takes megabytes for a client that reads
 * nothing; their number may go back by a little, because records of TLS are larger than what is in
 * them. */
static bool check_write(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);
        uint64_t                  taken;
        int64_t                   gained;

        if (!c->writing)
                c->write_ns = 0;
        if (!c->writing || (c->write_ns > 0 && c->now_ns - c->write_ns < l->write_stall_ns))
                return true;
        taken = c->written_bytes - conn_unwritten_bytes(c->net) - conn_unacknowledged_bytes(c->net);
        gained = (int64_t)(taken - c->write_bytes);
        if (c->write_ns == 0 || gained >= (int64_t)MAX(l->write_window_bytes, 1)) {
                c->write_ns = c->now_ns;
                c->write_bytes = taken;
                return true;
        }
        h2_conn_count_rejected(c, gained > 0 ? GRPC_LIMIT_WRITE_RATE : GRPC_LIMIT_WRITE_STALL);
        h2_conn_kill(c);
        return false;
}

/* What its client has not taken in time; NULL: all do. */
static struct grpc_stream *find_stalled(struct h2_conn *c, enum grpc_limit *ret_limit) {
        LIST_FOR_EACH(&c->streams, node) {
                struct grpc_stream *st = LIST_ENTRY(node, struct grpc_stream, node);

                *ret_limit = grpc_stream_check_progress(st, c->now_ns);
                if (*ret_limit != GRPC_LIMIT_NONE)
                        return st;
        }
        return NULL;
}

static void check_pings(struct h2_conn *c) {
        switch (h2_pings_check(&c->pings, h2_conn_limits(c), c->n_open > 0, c->now_ns)) {
        case H2_PINGS_QUIET: break;
        case H2_PINGS_SEND: h2_session_ping(c, keepalive_ping); break;
        case H2_PINGS_DEAD: h2_conn_kill(c); break;
        }
}

static void check_age(struct h2_conn *c) {
        uint64_t grace_ns = h2_conn_limits(c)->max_connection_age_grace_ns;

        if (c->leaving == H2_STAYING && c->now_ns >= c->age_ns) {
                leave(c);
                if (grace_ns < CLOCK_NEVER - c->now_ns)
                        c->grace_end_ns = c->now_ns + grace_ns;
        }
        if (c->leaving == H2_LEAVING_NOTICE && c->now_ns - c->leave_ns >= NOTICE_NS)
                say_final(c);
        if (c->now_ns >= c->grace_end_ns)
                h2_conn_kill(c);
}

static void on_tick(struct conn *net, uint64_t now_ns) {
        struct h2_conn     *c = conn_owner(net);
        struct grpc_stream *st;
        enum grpc_limit     limit;

        c->now_ns = now_ns;
        if (c->is_lingering) {
                if (now_ns - c->linger_ns >= h2_conn_limits(c)->linger_ns)
                        conn_close(net);
                return;
        }
        c->is_busy = true;
        if (check_heads(c) && check_pace(c) && check_write(c)) {
                while ((st = find_stalled(c, &limit)) != NULL)
                        grpc_stream_stop(st, limit);
                check_pings(c);
                check_age(c);
        }
        c->is_busy = false;
        flush(c);
}

void h2_conn_on_time(struct h2_conn *c, struct grpc_stream *st,
                     void (*see)(struct grpc_stream *st)) {
        bool was_busy = c->is_busy;

        c->now_ns = clock_now_ns();
        c->is_busy = true; /* no flush may close the stream under us */
        see(st);
        c->is_busy = was_busy;
        h2_conn_flush_soon(c, false);
}

/* ---- the beginning ---- */

static const struct conn_ops conn_ops = {
        .on_room = on_room,
        .on_no_room = on_no_room,
        .on_read = on_read,
        .on_end = on_end,
        .on_written = on_written,
        .on_tick = on_tick,
        .on_closed = on_closed,
};

void h2_loop_init(struct h2_loop *home, const struct grpc_server_options *o,
                  const struct str *paths) {
        home->options = o;
        home->paths = paths;
        home->flush.run = on_flush;
        list_init(&home->spares);
        list_init(&home->unflushed);
}

void h2_loop_done(struct h2_loop *home) {
        drop_spares(home, 0);
        h2_out_free(home->out);
        buf_unref(home->in);
        h2_blocks_done(&home->blocks);
}

/* Up to a tenth more or less, so that clients that came together do not all come back together. */
static uint64_t age_end(const struct h2_conn *c) {
        uint64_t age_ns = h2_conn_limits(c)->max_connection_age_ns;

        if (age_ns >= CLOCK_NEVER / 2000)
                return CLOCK_NEVER;
        return c->opened_ns + age_ns * (900 + c->opened_ns / NS_PER_US % 201) / 1000;
}

struct h2_conn *h2_conn_new(struct h2_loop *home, uint64_t now_ns) {
        struct h2_conn *c = try_zalloc(sizeof(*c));

        if (!c)
                return NULL;
        c->home = home;
        c->now_ns = c->opened_ns = c->pace_ns = now_ns;
        c->age_ns = age_end(c);
        c->grace_end_ns = CLOCK_NEVER;
        h2_pings_init(&c->pings, now_ns);
        list_init(&c->streams);
        if (!h2_session_open(c)) {
                h2_session_close(c);
                free(c);
                return NULL;
        }
        list_append(&home->net.conns, &c->node);
        return c;
}

void h2_conn_open(struct h2_loop *home, int fd) {
        struct h2_conn *c = h2_conn_new(home, clock_now_ns());
        struct error   *err;

        if (!c) {
                close(fd);
                net_home_conn_gone(&home->net);
                return;
        }
        err = net_home_open(&home->net, fd, &conn_ops, c, &c->net);
        if (err) { /* out of memory or descriptors: as if it had never been accepted */
                error_free(err);
                h2_conn_end(c);
                return;
        }
        if (home->net.is_draining) {
                h2_conn_kill(c);
                return;
        }
        conn_read_start(c->net);
        flush(c);
}
