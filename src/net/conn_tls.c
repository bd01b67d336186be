/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between a connection's socket and its owner: handshake, reading, writing, shutdown.
 *
 *     HANDSHAKE -> OPEN -> (closed)
 *          \---------\--> LINGER -> (closed)
 *
 *     HANDSHAKE  the owner may write already; the write stays pending
 *     LINGER     TLS failed and an alert was sent to the peer. Further bytes of the peer are discarded for
 *                LINGER_NS: closing a socket with unread bytes sends RST, and the peer loses the alert
 *
 * Reading: records are received into the loop's input buffer, which all its connections share, and are
 * decrypted into the buffer that the owner's on_room() returns. Records that the owner has no room for
 * are copied to a stash until it reads again (at most one input buffer; meanwhile the socket is not
 * read). The same holds for records that come after the connection has used its share of the loop's round
 * (net/turns.h), and for those of a handshake in a round whose time is used up: a handshake takes a millisecond,
 * and clients may begin a thousand at a time.
 *
 * Writing: up to four records are encrypted into the loop's output buffer, which is also shared, and
 * sent. When the socket does not take all of it, the connection keeps the output buffer until the rest
 * is sent (the loop allocates another one), and only then encrypts more of the owner's write. So a
 * connection holds at most one output buffer, whatever the peer does. While it holds one, its session
 * cannot output records of its own (answers to key updates), and reading waits when one is needed.
 *
 * The loop's output buffer is empty whenever a callback of the owner runs, because the callback may
 * write to another connection. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/conn_private.h"
#include "net/tls.h"

#include <assert.h>
#include <string.h>

#define IN_BYTES ((size_t)64 << 10)
/* Time that a refused peer has to read the alert. */
#define LINGER_NS NS_PER_S
/* A client has so many times the time of a handshake for a record, 40 s: 16 KiB come in 16 s at the lowest rate that
 * the protocols allow. Until then the session holds a buffer for a whole record, whatever has come of it. */
#define RECORD_TIMES 4
/* State that the connections of a loop share. */
struct loop_tls {
        struct tls_out  *out;      /* owned; NULL until needed */
        struct list      resuming; /* struct conn_tls: connections that `resume` lets read again */
        struct mail      resume;
        bool             is_resume_posted;
        struct log_limit limit; /* of logged failures; it keeps peers from filling the disk */
        char             in[IN_BYTES];
        char             record[TLS_RECORD_BYTES]; /* gathers small parts into one record */
};

enum conn_tls_state {
        CONN_TLS_HANDSHAKE,
        CONN_TLS_OPEN,
        CONN_TLS_LINGER,
};

/* A place in an array of parts. */
struct cursor {
        const struct iovec *parts;
        size_t              n_parts;
        size_t              at; /* offset in the first part */
};

struct conn_tls {
        struct conn                *conn; /* borrowed: our connection */
        const struct conn_security *how;  /* borrowed */
        struct tls_session         *session;
        enum conn_tls_state         state;
        uint64_t                    since_ns; /* start of HANDSHAKE or LINGER */
        uint64_t record_ns; /* first tick that found the present record incomplete; 0 = none did */

        struct tls_out *sending;         /* owned: the socket has not taken all of it */
        size_t          encrypted_bytes; /* bytes of the owner's write in `sending` */
        struct cursor   rest;            /* part of the pending write that is not encrypted yet */
        struct iovec   *rest_parts;      /* owned: array of `rest` */
        size_t          rest_bytes;

        struct buf      *stash; /* owned: records that the owner had no room for; NULL: none */
        struct list_node resume_node; /* in loop_tls.resuming */
        bool             is_running_steps;
        bool             is_socket_reading;
        bool             is_blocked;     /* the session cannot read before it has room for output */
        bool             wants_shutdown; /* to be done after the pending write */
        bool             was_active;     /* since the last tick */
        bool             has_begun;      /* the peer has sent something */
        struct turn      turn; /* waits with records in the stash; then it does not read */
};

/* ---- failures ---- */

static bool may_log(struct loop_tls *l) {
        unsigned n_more;
        bool     passes = log_limit_pass(&l->limit, &n_more);

        if (n_more > 0)
                log_warn("%u more TLS failures were not logged", n_more);
        return passes;
}

static void report_failure(struct conn *c, const char *limit, const char *reason) {
        const struct conn_security *how = c->tls->how;

        if (how->on_rejected != NULL)
                how->on_rejected(how->owner, limit);
        if (may_log(c->loop->tls))
                log_warn("TLS %s %s failed: %s",
                         c->tls->state == CONN_TLS_HANDSHAKE ? "handshake with" : "connection of",
                         conn_peer(c), reason);
}

static void notify_end(struct conn *c, bool is_reset) {
        if (c->is_closing || c->has_ended)
                return;
        c->has_ended = true;
        conn_read_stop(c);
        c->ops->on_end(c, is_reset);
}

/* ---- writing ---- */

/* Lends the loop's output buffer to the session for its next call; none (NULL) while the connection
 * still sends an output buffer, or when memory is short. */
static struct tls_out *lend_out(struct conn *c) {
        struct loop_tls *l = c->loop->tls;
        struct conn_tls *t = c->tls;

        if (l->out == NULL && t->sending == NULL && (l->out = try_alloc(sizeof(*l->out))) != NULL)
                l->out->len = 0;
        tls_session_lend(t->session, t->sending != NULL ? NULL : l->out);
        return t->sending != NULL ? NULL : l->out;
}

static void on_sent(uv_write_t *request, int status);

/* Writes the loop's output to the socket; false when the connection has failed. */
static bool flush_output(struct conn *c) {
        struct conn_tls *t = c->tls;
        struct tls_out  *out = c->loop->tls->out;
        uv_buf_t         part;
        ssize_t          n;

        if (t->sending != NULL || out == NULL || out->len == 0)
                return true;
        n = conn_try_send(c, &(struct iovec){ out->bytes, out->len }, 1, out->len);
        if (n < 0 || (size_t)n == out->len) {
                out->len = 0;
                return n > 0;
        }
        part = uv_buf_init(out->bytes + n, (unsigned)out->len - (unsigned)n);
        if (uv_write(&c->write, conn_stream(c), &part, 1, on_sent) < 0) {
                out->len = 0;
                return false;
        }
        t->sending = STEAL(c->loop->tls->out);
        return true;
}

/* Takes the bytes of the next record. Bytes that span several parts are copied to `gathered`. */
static struct str take_record(struct cursor *at, char *gathered) {
        size_t n = 0;

        while (at->n_parts > 0 && n < TLS_RECORD_BYTES) {
                size_t      left = at->parts->iov_len - at->at;
                const char *from = left > 0 ? (const char *)at->parts->iov_base + at->at : NULL;
                size_t      take = MIN(left, TLS_RECORD_BYTES - n);
                bool        is_whole = n == 0 && (take == TLS_RECORD_BYTES || at->n_parts == 1);

                at->at += take;
                if (take == left) {
                        at->parts++;
                        at->n_parts--;
                        at->at = 0;
                }
                if (is_whole && take > 0)
                        return str_range(from, take);
                if (take > 0)
                        memcpy(gathered + n, from, take);
                n += take;
        }
        return str_range(gathered, n);
}

/* Encrypts as many bytes as the output buffer has room for. */
static bool encrypt_records(struct conn *c, struct cursor *at) {
        struct conn_tls *t = c->tls;
        struct tls_out  *out = lend_out(c);

        if (out == NULL)
                return false;
        while (at->n_parts > 0 && sizeof(out->bytes) - out->len >= TLS_ENCRYPTED_BYTES) {
                struct str record = take_record(at, c->loop->tls->record);

                if (record.len > 0 && !tls_session_write(t->session, record.ptr, record.len)) {
                        out->len = 0;
                        return false;
                }
                t->encrypted_bytes += record.len;
                t->rest_bytes -= MIN(t->rest_bytes, record.len);
        }
        return true;
}

static enum conn_write encrypt_and_send(struct conn *c, struct cursor *at) {
        c->tls->was_active = true;
        for (;;) {
                if (!encrypt_records(c, at) || !flush_output(c))
                        return CONN_WRITE_FAILED;
                if (c->tls->sending != NULL)
                        return CONN_WRITE_PENDING;
                c->tls->encrypted_bytes = 0;
                if (at->n_parts == 0)
                        return CONN_WRITE_DONE;
        }
}

static size_t bytes_left(const struct cursor *at) {
        return conn_count_bytes(at->parts, at->n_parts) - at->at;
}

/* Keeps the rest of a small write: one block with an array of one part, then the bytes. */
static bool copy_rest(struct conn_tls *t, const struct cursor *at) {
        struct iovec *one =
                try_alloc(sizeof(*one) + t->rest_bytes); /* no overflow: a small write */
        struct cursor from = *at;
        struct str    bytes;

        if (one == NULL)
                return false;
        one->iov_base = one + 1;
        one->iov_len = t->rest_bytes;
        bytes = take_record(&from, one->iov_base);
        if (bytes.ptr != one->iov_base)
                memcpy(one->iov_base, bytes.ptr, bytes.len);
        t->rest_parts = one;
        t->rest = (struct cursor){ one, 1, 0 };
        return true;
}

/* Keeps the rest of the write: copies the array of parts, and the bytes of a small write. */
static bool keep_rest(struct conn_tls *t, const struct cursor *at) {
        t->rest_bytes = at->n_parts > 0 ? bytes_left(at) : 0;
        if (at->n_parts == 0)
                return true;
        if (t->rest_bytes <= CONN_SMALL_WRITE)
                return copy_rest(t, at);
        t->rest_parts =
                try_alloc(at->n_parts * sizeof(*t->rest_parts)); /* size of the given array */
        if (t->rest_parts == NULL)
                return false;
        memcpy(t->rest_parts, at->parts, at->n_parts * sizeof(*t->rest_parts));
        t->rest = (struct cursor){ t->rest_parts, at->n_parts, at->at };
        return true;
}

static void drop_rest(struct conn_tls *t) {
        free(t->rest_parts);
        t->rest_parts = NULL;
        t->rest = (struct cursor){ 0 };
        t->rest_bytes = 0;
}

static enum conn_write tls_write(struct conn *c, const struct iovec *parts, size_t n_parts) {
        struct conn_tls *t = c->tls;
        struct cursor    at = { parts, n_parts, 0 };
        enum conn_write  rc = CONN_WRITE_PENDING;

        if (t->state == CONN_TLS_LINGER)
                return CONN_WRITE_FAILED;
        if (t->state == CONN_TLS_OPEN && t->sending == NULL)
                rc = encrypt_and_send(c, &at);
        if (rc == CONN_WRITE_PENDING && !keep_rest(t, &at))
                return CONN_WRITE_FAILED;
        c->is_writing = rc == CONN_WRITE_PENDING;
        return rc;
}

static bool tls_is_in_handshake(const struct conn *c) {
        return c->tls->state == CONN_TLS_HANDSHAKE;
}

static bool tls_has_unread(const struct conn *c) {
        return c->tls->stash != NULL;
}

static size_t tls_unwritten_bytes(const struct conn *c) {
        size_t queued = uv_stream_get_write_queue_size(conn_stream(c));

        return c->tls->rest_bytes + MIN(queued, c->tls->encrypted_bytes);
}

static void finish_write(struct conn *c, bool is_ok) {
        drop_rest(c->tls);
        c->is_writing = false;
        c->ops->on_written(c, is_ok);
}

/* Sends as much of the pending write as the socket takes. */
static void continue_write(struct conn *c) {
        struct conn_tls *t = c->tls;
        enum conn_write  rc;

        if (!c->is_writing || t->sending != NULL || t->state != CONN_TLS_OPEN || c->is_closing)
                return;
        rc = encrypt_and_send(c, &t->rest);
        if (rc != CONN_WRITE_PENDING)
                finish_write(c, rc == CONN_WRITE_DONE);
}

static void send_end(struct conn *c) {
        struct conn_tls *t = c->tls;

        t->wants_shutdown = false;
        if (t->state == CONN_TLS_OPEN && lend_out(c) != NULL) {
                tls_session_close(t->session);
                flush_output(c);
        }
        uv_shutdown(&c->shutdown, conn_stream(c), NULL);
}

static void tls_shutdown(struct conn *c) {
        if (c->is_writing || c->tls->sending != NULL)
                c->tls->wants_shutdown = true;
        else
                send_end(c);
}

static void tls_close(struct conn *c) {
        struct conn_tls *t = c->tls;
        struct tls_out  *out;

        if (t->state != CONN_TLS_OPEN || c->is_writing || c->is_shut_down ||
            (out = lend_out(c)) == NULL)
                return;
        tls_session_close(t->session);
        /* If the socket does not take the close_notify, the peer still sees the FIN. */
        conn_try_send(c, &(struct iovec){ out->bytes, out->len }, 1, out->len);
        out->len = 0;
}

static void resume_soon(struct conn *c);

static void on_sent(uv_write_t *request, int status) {
        struct conn     *c = CONTAINER_OF(request, struct conn, write);
        struct conn_tls *t = c->tls;
        struct tls_out  *out = STEAL(t->sending);

        out->len = 0;
        if (c->loop->tls->out != NULL)
                free(out);
        else
                c->loop->tls->out = out;
        t->encrypted_bytes = 0;
        if (status < 0) {
                if (c->is_writing)
                        finish_write(c, false);
                return;
        }
        continue_write(c);
        if (c->is_closing)
                return;
        if (t->wants_shutdown && !c->is_writing && t->sending == NULL)
                send_end(c);
        if (t->is_blocked && t->sending == NULL) {
                t->is_blocked = false;
                resume_soon(c);
        }
}

/* ---- reading ---- */

static void on_room(uv_handle_t *native, size_t suggested, uv_buf_t *ret) {
        struct conn *c = CONTAINER_OF(native, struct conn, tcp);

        (void)suggested;
        *ret = uv_buf_init(c->loop->tls->in, IN_BYTES);
}

static void on_read(uv_stream_t *native, ssize_t n, const uv_buf_t *room);

/* Starts or stops to read from the socket: it is read only while received bytes can be processed. */
static void update_reading(struct conn *c) {
        struct conn_tls *t = c->tls;
        bool wants = c->is_reading && !c->is_closing && !t->is_blocked && t->stash == NULL &&
                     !list_is_linked(&t->resume_node) && !turns_is_waiting(&t->turn);

        if (wants == t->is_socket_reading)
                return;
        t->is_socket_reading = wants;
        if (wants)
                uv_read_start(conn_stream(c), on_room, on_read);
        else if (!c->is_closing)
                uv_read_stop(conn_stream(c));
}

static void fail_and_linger(struct conn *c, const char *limit, const char *reason) {
        struct conn_tls *t = c->tls;

        report_failure(c, limit, reason);
        t->state = CONN_TLS_LINGER;
        t->since_ns = clock_now_ns();
        flush_output(c);
        if (!c->is_shut_down || t->wants_shutdown)
                uv_shutdown(&c->shutdown, conn_stream(c), NULL);
        c->is_shut_down = true;
        t->wants_shutdown = false;
}

/* Sends the output buffer, so that the session has room for records of its own. True when it has room
 * now. */
static bool make_output_room(struct conn *c) {
        struct conn_tls *t = c->tls;

        flush_output(c);
        t->is_blocked = t->sending != NULL;
        if (!t->is_blocked && lend_out(c) == NULL)
                notify_end(c, true); /* memory is short */
        return !t->is_blocked && !c->has_ended;
}

static void on_handshake_done(struct conn *c) {
        c->tls->state = CONN_TLS_OPEN;
        continue_write(c);
        if (!c->is_closing && c->tls->wants_shutdown && !c->is_writing && c->tls->sending == NULL)
                send_end(c);
}

/* Does one step of the handshake; false when it cannot continue for now. */
static bool handshake_step(struct conn *c) {
        struct conn_tls *t = c->tls;
        enum tls_result  rc;

        lend_out(c);
        rc = tls_session_handshake(t->session);
        switch (rc) {
        case TLS_DONE:
                flush_output(c);
                on_handshake_done(c);
                return true;
        case TLS_WANTS_INPUT: flush_output(c); return false;
        case TLS_WANTS_OUTPUT: return make_output_room(c);
        case TLS_ENDED:
        case TLS_FAILED: break;
        }
        fail_and_linger(c, "tls_handshake",
                        rc == TLS_FAILED ? tls_session_reason(t->session) : "the peer ended it");
        return false;
}

/* Decrypts records into the owner's buffer until it is full; returns the last result. */
static enum tls_result decrypt_records(struct conn_tls *t, struct iovec room, size_t *ret_n) {
        enum tls_result rc;
        size_t          n;

        *ret_n = 0;
        do {
                rc = tls_session_read(t->session, (char *)room.iov_base + *ret_n,
                                      room.iov_len - *ret_n, &n);
                if (rc == TLS_DONE)
                        *ret_n += n;
        } while (rc == TLS_DONE && *ret_n < room.iov_len && tls_session_has_input(t->session));
        return rc;
}

/* Decrypts once into the owner's buffer; false when reading cannot continue for now. */
static bool read_some(struct conn *c) {
        struct conn_tls *t = c->tls;
        struct iovec     room;
        enum tls_result  rc;
        size_t           n;

        if (!tls_session_has_input(t->session))
                return false;
        room = c->ops->on_room(c);
        if (room.iov_len == 0) {
                c->is_reading = false;
                if (c->ops->on_no_room != NULL)
                        c->ops->on_no_room(c);
                return c->is_reading;
        }
        lend_out(c);
        rc = decrypt_records(t, room, &n);
        flush_output(c);
        if (n > 0) {
                t->record_ns = 0;
                c->ops->on_read(c, n);
        }
        if (c->is_closing)
                return false;
        switch (rc) {
        case TLS_DONE: return true;
        case TLS_WANTS_INPUT: break;
        case TLS_WANTS_OUTPUT: return make_output_room(c);
        case TLS_ENDED: notify_end(c, false); break;
        case TLS_FAILED: fail_and_linger(c, "tls_record", tls_session_reason(t->session)); break;
        }
        return false;
}

static bool step_tls(struct conn *c) {
        switch (c->tls->state) {
        case CONN_TLS_HANDSHAKE: return handshake_step(c);
        case CONN_TLS_OPEN: return read_some(c);
        case CONN_TLS_LINGER: break;
        }
        return false;
}

static void drop_stash(struct conn_tls *t) {
        buf_unref(STEAL(t->stash));
}

static struct str stashed(const struct conn_tls *t) {
        return t->stash != NULL ? str_range(t->stash->bytes, t->stash->len) : str_of("");
}

/* Copies unread records to the stash, or frees the stash when there are none. `records` may be the end of
 * the stash itself. The memory budget counts them, but does not refuse them: the records cannot go back to the
 * socket, and an innocent connection would have to end. */
static bool stash_records(struct conn_tls *t, struct str records) {
        if (records.len == 0) {
                drop_stash(t);
                return true;
        }
        if (t->stash == NULL)
                t->stash = buf_new_beyond(loop_buf_pool(t->conn->loop), records.len);
        if (t->stash == NULL)
                return false;
        assert(records.len <= t->stash->cap);
        memmove(t->stash->bytes, records.ptr, records.len);
        t->stash->len = records.len;
        return true;
}

/* True when the connection must wait for its turn: it has used its share of the round, or it would begin a step of
 * its handshake, which takes a millisecond, in a round that is late. */
static bool must_wait(struct conn *c) {
        struct conn_tls *t = c->tls;
        struct loop     *l = c->loop;
        uint64_t         now_ns = clock_now_ns();

        return turns_is_waiting(&t->turn) ||
               (t->state == CONN_TLS_HANDSHAKE && turns_is_late(&l->turns, now_ns)) ||
               !loop_take_share(l, &t->turn, now_ns);
}

static void run_steps(struct conn *c, struct str records) {
        struct conn_tls *t = c->tls;
        size_t           left;

        t->was_active = true;
        t->is_running_steps = true;
        tls_session_feed(t->session, records);
        while (c->is_reading && !c->is_closing && !t->is_blocked && step_tls(c))
                ;
        t->is_running_steps = false;
        left = t->state == CONN_TLS_LINGER ? 0 : tls_session_unread_bytes(t->session);
        if (!stash_records(t, str_range(records.ptr + records.len - left, left)))
                notify_end(c, true);
        tls_session_feed(t->session, (struct str){ 0 });
        update_reading(c);
}

/* The same in a later round if it must be. */
static void run_steps_in_turn(struct conn *c, struct str records) {
        if (!must_wait(c)) {
                run_steps(c, records);
                return;
        }
        if (!stash_records(c->tls, records)) {
                notify_end(c, true);
                return;
        }
        loop_wait_turn(c->loop, &c->tls->turn);
        update_reading(c);
}

static void on_turn(struct turn *turn) {
        struct conn_tls *t = CONTAINER_OF(turn, struct conn_tls, turn);

        if (!t->conn->is_closing)
                run_steps(t->conn, stashed(t));
}

static void on_read(uv_stream_t *native, ssize_t n, const uv_buf_t *room) {
        struct conn     *c = CONTAINER_OF(native, struct conn, tcp);
        struct conn_tls *t = c->tls;

        if (n > 0) {
                t->has_begun = true;
                if (t->state != CONN_TLS_LINGER)
                        run_steps_in_turn(c, str_range(room->base, (size_t)n));
                return;
        }
        if (n == 0)
                return;
        /* A peer that sends nothing, such as a port scanner or the health check of a load balancer, is
         * not logged. */
        if (t->state == CONN_TLS_HANDSHAKE && t->has_begun)
                report_failure(c, "tls_handshake",
                               n == UV_EOF ? "the peer closed the connection"
                                           : uv_strerror((int)n));
        notify_end(c, n != UV_EOF || t->state != CONN_TLS_OPEN);
}

static void on_resume(struct mail *m) {
        struct loop_tls *l = CONTAINER_OF(m, struct loop_tls, resume);

        l->is_resume_posted = false;
        while (!list_is_empty(&l->resuming)) {
                struct conn_tls *t =
                        LIST_ENTRY(list_first(&l->resuming), struct conn_tls, resume_node);

                list_remove(&t->resume_node);
                if (!t->conn->is_closing)
                        run_steps(t->conn, stashed(t));
        }
}

/* Deferred, because the caller may be inside a callback of this connection. */
static void resume_soon(struct conn *c) {
        struct loop_tls *l = c->loop->tls;

        if (list_is_linked(&c->tls->resume_node))
                return;
        list_append(&l->resuming, &c->tls->resume_node);
        if (!l->is_resume_posted)
                mailbox_post(&c->loop->mailbox, &l->resume);
        l->is_resume_posted = true;
        update_reading(c);
}

static void tls_read_start(struct conn *c) {
        struct conn_tls *t = c->tls;

        if (t->is_running_steps || t->is_blocked || turns_is_waiting(&t->turn))
                return;
        if (t->stash != NULL || tls_session_has_input(t->session) ||
            (t->state == CONN_TLS_HANDSHAKE && !t->has_begun && tls_session_is_client(t->session)))
                resume_soon(c); /* a client's first step needs no input */
        else
                update_reading(c);
}

static void tls_read_stop(struct conn *c) {
        if (!c->tls->is_running_steps)
                update_reading(c);
}

/* ---- ticks, opening and closing ---- */

/* True when a client has begun a record and does not end it. One whose socket is not read cannot. */
static bool is_record_late(struct conn_tls *t, uint64_t now_ns) {
        if (t->state != CONN_TLS_OPEN || !t->is_socket_reading ||
            tls_session_is_client(t->session) || !tls_session_is_within_record(t->session)) {
                t->record_ns = 0;
                return false;
        }
        if (t->record_ns == 0)
                t->record_ns = now_ns;
        return now_ns - t->record_ns >= RECORD_TIMES * t->how->handshake_time_ns;
}

static void tls_tick(struct conn *c, uint64_t now_ns) {
        struct conn_tls *t = c->tls;

        if (t->state == CONN_TLS_HANDSHAKE && now_ns - t->since_ns >= t->how->handshake_time_ns) {
                report_failure(c, "tls_handshake_time", "it took too long");
                notify_end(c, true);
        } else if (t->state == CONN_TLS_LINGER && now_ns - t->since_ns >= LINGER_NS) {
                notify_end(c, true);
        } else if (is_record_late(t, now_ns)) {
                report_failure(c, "tls_record", "a record came too slowly");
                notify_end(c, true);
        } else if (t->state == CONN_TLS_OPEN && !t->was_active) {
                tls_session_free_buffers(t->session);
        }
        t->was_active = false;
}

static void free_loop_tls(struct loop_tls *t) {
        free(t->out);
        free(t);
}

static struct loop_tls *get_loop_tls(struct loop *l) {
        if (l->tls != NULL || (l->tls = try_alloc(sizeof(*l->tls))) == NULL)
                return l->tls;
        memset(l->tls, 0, offsetof(struct loop_tls, in));
        list_init(&l->tls->resuming);
        l->tls->resume.deliver = on_resume;
        l->free_tls = free_loop_tls;
        return l->tls;
}

static void tls_free(struct conn *c) {
        struct conn_tls *t = c->tls;

        if (list_is_linked(&t->resume_node))
                list_remove(&t->resume_node);
        turns_cancel(&t->turn);
        if (c->is_writing) /* the write waited for the handshake and never reached the socket */
                finish_write(c, false);
        tls_session_free(t->session);
        drop_rest(t);
        drop_stash(t);
        free(t);
        c->tls = NULL;
        c->filter = NULL;
}

static const struct conn_filter filter = {
        .write = tls_write,
        .unwritten_bytes = tls_unwritten_bytes,
        .is_in_handshake = tls_is_in_handshake,
        .has_unread = tls_has_unread,
        .read_start = tls_read_start,
        .read_stop = tls_read_stop,
        .shutdown = tls_shutdown,
        .tick = tls_tick,
        .close = tls_close,
        .free = tls_free,
};

struct error *conn_secure(struct conn *c, const struct conn_security *how) {
        struct conn_tls *t = get_loop_tls(c->loop) != NULL ? try_zalloc(sizeof(*t)) : NULL;

        if (t != NULL)
                t->session = tls_session_new(how->context);
        if (t == NULL || t->session == NULL) {
                free(t);
                return error_new(ERR_UNAVAILABLE, "out of memory");
        }
        t->conn = c;
        t->how = how;
        t->since_ns = clock_now_ns();
        t->turn.run = on_turn;
        c->tls = t;
        c->filter = &filter;
        return NULL;
}
