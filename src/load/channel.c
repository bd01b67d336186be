/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/channel.h"

#include "base/clock.h"
#include "base/mem.h"
#include "load/channel_private.h"

#define MAX_MESSAGE ((size_t)1 << 30)

void call_init(struct call *c, const struct call_ops *ops) {
        *c = (struct call){ .ops = ops,
                            .gathered.max = MAX_MESSAGE,
                            .reason.max = (size_t)8 << 10 };
}

void call_done(struct call *c) {
        strbuf_done(&c->gathered);
        strbuf_done(&c->reason);
}

/* ---- calls that wait for the connection or for room ------------------------------------------- */

static struct call *take_waiting(struct channel *ch) {
        struct call *c = ch->waiting;

        if (c == NULL)
                return NULL;
        c->is_waiting = false;
        ch->waiting = c->next_waiting;
        if (ch->waiting == NULL)
                ch->waiting_end = &ch->waiting;
        return c;
}

/* Sends the calls that wait, as far as there is room. */
static void send_waiting(struct channel *ch) {
        while (ch->state == CHANNEL_OPEN && ch->waiting != NULL && ch->protocol->has_room(ch))
                ch->protocol->send(ch, take_waiting(ch));
}

/* Ends the connection and all its calls. */
static void break_channel(struct channel *ch, const char *why);

/* Ends a connection without calls; those that wait go to the next one. */
static void leave_connection(struct channel *ch) {
        ch->state = CHANNEL_IDLE;
        conn_close(STEAL(ch->conn));
        ch->protocol->on_closed(ch);
        if (ch->waiting != NULL)
                loop_defer(ch->shard->loop, LOOP_HANDLE, &ch->retry);
}

/* ---- the connection ---------------------------------------------------------------------------- */

static struct iovec on_room(struct conn *conn) {
        struct channel *ch = conn_owner(conn);

        return (struct iovec){ ch->shard->room, CHANNEL_ROOM_BYTES };
}

static void on_read(struct conn *conn, size_t n) {
        struct channel *ch = conn_owner(conn);
        const char     *wrong;

        if (ch->conn != conn)
                return;
        ch->read_ns = clock_now_ns();
        wrong = ch->protocol->on_read(ch, str_range(ch->shard->room, n));
        if (ch->conn != conn)
                return;
        if (wrong != NULL)
                break_channel(ch, wrong);
        else if (ch->protocol->is_over(ch))
                leave_connection(ch);
        else
                send_waiting(ch);
}

static void on_conn_end(struct conn *conn, bool is_reset) {
        struct channel *ch = conn_owner(conn);

        if (ch->conn != conn)
                return conn_close(conn);
        break_channel(ch, ch->state == CHANNEL_CONNECTING ? "no connection to the server"
                          : is_reset                      ? "the connection was reset"
                                                          : "the server closed the connection");
}

static void on_written(struct conn *conn, bool is_ok) {
        struct channel *ch = conn_owner(conn);

        if (ch->conn != conn || conn_is_closing(conn))
                return;
        if (!is_ok)
                break_channel(ch, "the connection was reset");
        else
                ch->protocol->on_written(ch);
}

static void on_tick(struct conn *conn, uint64_t now_ns) {
        (void)conn;
        (void)now_ns;
}

static void on_connected(struct conn *conn) {
        struct channel *ch = conn_owner(conn);

        if (ch->conn != conn)
                return;
        ch->state = CHANNEL_OPEN;
        conn_read_start(conn);
        ch->protocol->on_open(ch);
        send_waiting(ch);
}

static void free_channel(struct channel *ch) {
        ch->protocol->on_closed(ch);
        strbuf_done(&ch->sending);
        strbuf_done(&ch->event);
        free(ch);
}

static void on_closed(struct conn *conn) {
        struct channel *ch = conn_owner(conn);

        ch->n_conns--;
        if (ch->is_closed && ch->n_conns == 0)
                free_channel(ch);
}

static const struct conn_ops conn_ops = {
        .on_room = on_room,
        .on_read = on_read,
        .on_end = on_conn_end,
        .on_written = on_written,
        .on_tick = on_tick,
        .on_connected = on_connected,
        .on_closed = on_closed,
};

static struct error *connect_now(struct channel *ch) {
        const struct target *t = ch->shard->target;
        struct error        *err;

        TRY(conn_connect(ch->shard->loop, (const struct sockaddr *)&t->address, &conn_ops, ch,
                         &ch->conn));
        if (t->security.context != NULL && (err = conn_secure(ch->conn, &t->security)) != NULL) {
                conn_abandon(STEAL(ch->conn));
                return err;
        }
        ch->state = CHANNEL_CONNECTING;
        ch->n_conns++;
        return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------- */

static struct call *take_any(struct channel *ch) {
        struct call *c = ch->protocol->take_call(ch);

        return c != NULL ? c : take_waiting(ch);
}

/* The calls are taken first: on_done() may send the next ones on this channel. */
static void break_channel(struct channel *ch, const char *why) {
        struct answer a = { .kind = ANSWER_BROKEN, .text = str_of(why) };
        struct call  *calls = NULL, **end = &calls, *c;

        while ((c = take_any(ch)) != NULL) {
                *end = c;
                end = &c->next_waiting;
        }
        *end = NULL;
        ch->state = CHANNEL_IDLE;
        if (ch->conn != NULL)
                conn_close(STEAL(ch->conn));
        ch->protocol->on_closed(ch);
        while ((c = calls) != NULL) {
                calls = c->next_waiting;
                channel_finish(ch, c, &a);
        }
}

/* Deferred, since the owner does not expect on_done() within channel_send(). */
static void on_retry(struct loop_task *task) {
        struct channel *ch = CONTAINER_OF(task, struct channel, retry);
        AUTO_ERROR      err = NULL;

        if (ch->state == CHANNEL_IDLE && ch->waiting != NULL && (err = connect_now(ch)) != NULL)
                break_channel(ch, err->message);
}

/* A call whose stream has stayed open needs no room for one. */
static bool can_send(const struct channel *ch, const struct call *c) {
        return ch->state == CHANNEL_OPEN &&
               (c->stream.id != 0 || (ch->waiting == NULL && ch->protocol->has_room(ch)));
}

void channel_send(struct channel *ch, struct call *c) {
        c->channel = ch;
        c->sent_ns = c->written_ns = c->first_ns = 0;
        c->was_refused = false;
        if (can_send(ch, c)) {
                ch->protocol->send(ch, c);
                return;
        }
        channel_wait(ch, c);
        if (ch->state == CHANNEL_IDLE)
                loop_defer(ch->shard->loop, LOOP_HANDLE, &ch->retry);
}

struct channel *channel_open(struct channel_shard *shard) {
        struct channel *ch = mem_zalloc(sizeof(*ch));

        ch->shard = shard;
        ch->protocol = shard->target->protocol == TARGET_HTTP ? &channel_http : &channel_grpc;
        ch->waiting_end = &ch->waiting;
        ch->retry.run = on_retry;
        return ch;
}

void channel_close(struct channel *ch) {
        struct call *c;

        while ((c = take_any(ch)) != NULL)
                c->channel = NULL;
        if (list_is_linked(&ch->retry.node))
                list_remove(&ch->retry.node);
        if (list_is_linked(&ch->flush.node))
                list_remove(&ch->flush.node);
        ch->is_closed = true;
        if (ch->conn != NULL)
                conn_close(STEAL(ch->conn));
        if (ch->n_conns == 0)
                free_channel(ch);
}
