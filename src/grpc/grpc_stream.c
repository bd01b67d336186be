/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_stream.h"

#include <string.h>

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "grpc/grpc_server.h"
#include "grpc/grpc_timeout.h"
#include "grpc/h2_conn.h"
#include "grpc/h2_session.h"

/* What a call usually has; more cost an array more. */
#define FEW_FIELDS 24

static void on_deadline(struct loop_timer *t);

/* ---- headers ---- */

struct grpc_stream *grpc_stream_new(struct h2_conn *c, int32_t id) {
        struct h2_loop     *home = c->home;
        struct grpc_stream *st;

        if (UNLIKELY(reserve_is_short()))
                return NULL;
        if (list_is_empty(&home->spares)) {
                st = try_alloc(sizeof(*st));
                if (!st)
                        return NULL;
        } else {
                st = LIST_ENTRY(list_first(&home->spares), struct grpc_stream, node);
                list_remove(&st->node);
                home->n_spares--;
        }
        memset(st, 0, offsetof(struct grpc_stream, out));
        st->initial.n = st->trailing.n = 0;
        arena_init(&st->call.arena, st->arena_bytes, sizeof(st->arena_bytes),
                   GRPC_MAX_ARENA_BYTES);
        arena_set_budget(&st->call.arena, buf_pool_budget(home->pool));
        send_queue_init(&st->out, home->pool);
        grpc_frame_init(&st->frame, home->options->limits.message_bytes, home->pool);
        st->conn = c;
        st->id = id;
        st->body_left = -1;
        st->call.stream = st;
        st->call.service = &home->options->service;
        st->call.core = home->options->service.core;
        st->call.deadline_ns = CLOCK_NEVER;
        loop_timer_init(&st->deadline, on_deadline);
        st->call.recv_start_ns = c->now_ns;
        return st;
}

static void refuse_headers(struct grpc_stream *st, enum grpc_limit limit) {
        if (st->refused == GRPC_LIMIT_NONE)
                st->refused = limit;
}

static const struct grpc_method *find_method(const struct h2_loop *home, struct str path,
                                             struct str *ret_path) {
        const struct grpc_method_table *table = &home->options->methods;

        for (size_t i = 0; i < table->n_rows; i++) {
                if (str_equal(home->paths[i], path)) {
                        *ret_path = home->paths[i];
                        return &table->rows[i];
                }
        }
        return NULL;
}

/* Nothing of a path that is known is kept: it is in the table. */
static void on_path(struct grpc_stream *st, struct str path) {
        char *copy;

        st->call.method = find_method(st->conn->home, path, &st->call.path);
        if (LIKELY(st->call.method))
                return;
        copy = arena_try_str(&st->call.arena, path);
        if (copy)
                st->call.path = str_range(copy, path.len);
        else
                refuse_headers(st, GRPC_LIMIT_MEMORY);
}

static void remember(struct grpc_stream *st, enum h2_field field, struct str value) {
        switch (field) {
        case H2_FIELD_CONTENT_TYPE: st->content_type = value; break;
        case H2_FIELD_GRPC_TIMEOUT: st->timeout = value; break;
        case H2_FIELD_GRPC_ENCODING: st->encoding = value; break;
        case H2_FIELD_GRPC_ACCEPT_ENCODING: st->accept_encoding = value; break;
        default: break;
        }
}

/* NULL when memory is short. */
static struct grpc_metadata *add_field(struct grpc_stream *st) {
        if (st->n_fields == st->cap_fields) {
                size_t                cap = st->cap_fields > 0 ? 2 * st->cap_fields : FEW_FIELDS;
                struct grpc_metadata *grown =
                        arena_try_alloc(&st->call.arena, cap * sizeof(*grown));

                if (!grown)
                        return NULL;
                if (st->n_fields > 0)
                        memcpy(grown, st->fields, st->n_fields * sizeof(*grown));
                st->fields = grown;
                st->cap_fields = cap;
        }
        return &st->fields[st->n_fields++];
}

/* ptr NULL when memory is short. */
static struct str keep(struct grpc_stream *st, struct str s) {
        char *copy = arena_try_alloc(&st->call.arena, s.len + 1);

        if (!copy)
                return str_range(NULL, 0);
        memcpy(copy, s.ptr, s.len);
        copy[s.len] = '\0';
        return str_range(copy, s.len);
}

static void on_metadata(struct grpc_stream *st, enum h2_field field, struct str name,
                        struct str value) {
        struct grpc_metadata *m = add_field(st);

        if (m) {
                m->name = field == H2_FIELD_OTHER ? keep(st, name) : h2_field_name(field);
                m->value = keep(st, value);
        }
        if (UNLIKELY(!m || !m->name.ptr || !m->value.ptr))
                refuse_headers(st, GRPC_LIMIT_MEMORY);
        else
                remember(st, field, m->value);
}

void grpc_stream_on_header(struct grpc_stream *st, enum h2_field field, struct str name,
                           struct str value) {
        const struct grpc_limits *l = h2_conn_limits(st->conn);

        if (UNLIKELY(st->conn->head_bytes > l->header_bytes))
                refuse_headers(st, GRPC_LIMIT_HEADER_BYTES);
        else if (UNLIKELY(st->n_fields >= l->header_fields))
                refuse_headers(st, GRPC_LIMIT_HEADER_FIELDS);
        if (UNLIKELY(st->refused != GRPC_LIMIT_NONE))
                return;
        switch (field) {
        case H2_FIELD_PATH: on_path(st, value); break;
        case H2_FIELD_METHOD: st->is_post = STR_IS(value, "POST"); break;
        case H2_FIELD_SCHEME:
        case H2_FIELD_AUTHORITY: break; /* nobody asks */
        default: on_metadata(st, field, name, value); break;
        }
}

/* "application/grpc", and perhaps "+proto" or "; charset=utf-8" behind it. */
static bool is_grpc(struct str content_type) {
        static const char wanted[] = "application/grpc";
        size_t            n = sizeof(wanted) - 1;

        return content_type.len >= n && memcmp(content_type.ptr, wanted, n) == 0 &&
               (content_type.len == n || content_type.ptr[n] == '+' || content_type.ptr[n] == ';');
}

static void field_at(const void *of, size_t at, struct str *ret_name, struct str *ret_value) {
        const struct grpc_call *call = of;

        *ret_name = call->metadata[at].name;
        *ret_value = call->metadata[at].value;
}

/* The one place where a call is let through. False: it has been answered. */
static bool check_access(struct grpc_stream *st) {
        struct grpc_call            *call = &st->call;
        const struct access_question question = {
                .group = call->method->group,
                .noun = "protocol",
                .field = field_at,
                .call = call,
                .n_fields = call->n_metadata,
                .arena = &call->arena,
        };
        const char         *text;
        enum access_verdict verdict =
                access_check(call->service->policy, &question, &call->access, &text);

        if (LIKELY(verdict == ACCESS_GRANTED))
                return true;
        grpc_stream_refuse(st, grpc_code_of_access(verdict), text);
        return false;
}

static bool check_timeout(struct grpc_stream *st) {
        struct loop *loop = st->conn->home->net.loop;
        uint64_t     timeout_ns;

        if (!st->timeout.ptr)
                return true;
        if (!grpc_timeout_decode(st->timeout, &timeout_ns)) {
                grpc_stream_refuse(st, GRPC_INTERNAL, "malformed grpc-timeout");
                return false;
        }
        if (timeout_ns == 0) { /* over before it began: nothing runs */
                grpc_stream_refuse(st, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
                return false;
        }
        if (timeout_ns < CLOCK_NEVER - st->conn->now_ns)
                st->call.deadline_ns = st->conn->now_ns + timeout_ns;
        if (!loop || loop_timer_arm(loop, &st->deadline, st->call.deadline_ns))
                return true;
        h2_conn_count_rejected(st->conn, GRPC_LIMIT_MEMORY);
        grpc_stream_refuse(st, GRPC_RESOURCE_EXHAUSTED, "not enough memory for the deadline");
        return false;
}

/* Of a path that is no method's, what is told. */
#define MAX_TOLD_BYTES 256

static void refuse_method(struct grpc_stream *st) {
        struct str path = st->call.path;

        path.len = MIN(path.len, MAX_TOLD_BYTES);
        grpc_stream_refuse(
                st, GRPC_UNIMPLEMENTED,
                arena_printf(&st->call.arena, "unknown method '%.*s'", STR_ARG(path)));
}

static bool check_encoding(struct grpc_stream *st) {
        if (grpc_encoding_find(st->encoding, &st->encoding_in))
                return true;
        grpc_stream_refuse(st, GRPC_UNIMPLEMENTED,
                           arena_printf(&st->call.arena, "unsupported grpc-encoding '%.*s'",
                                        STR_ARG(st->encoding)));
        return false;
}

static bool check_request(struct grpc_stream *st) {
        if (st->refused != GRPC_LIMIT_NONE) {
                h2_conn_count_rejected(st->conn, st->refused);
                grpc_stream_refuse(st, GRPC_RESOURCE_EXHAUSTED, "received metadata is too large");
                return false;
        }
        if (!st->is_post) {
                grpc_stream_refuse_http(st, 405, "a call has the method POST");
                return false;
        }
        if (!is_grpc(st->content_type)) {
                grpc_stream_refuse_http(st, 415, "a call has the content-type application/grpc");
                return false;
        }
        if (st->conn->home->net.is_draining) {
                grpc_stream_refuse(st, GRPC_UNAVAILABLE,
                                   "GRPC server is shutting down and has stopped accepting new "
                                   "requests.");
                return false;
        }
        return true;
}

void grpc_stream_on_headers(struct grpc_stream *st) {
        struct grpc_call *call = &st->call;

        call->metadata = st->fields;
        call->n_metadata = st->n_fields;
        if (!check_request(st))
                return;
        if (!call->method) {
                refuse_method(st);
                return;
        }
        if (!check_access(st) || !check_encoding(st) || !check_timeout(st))
                return;
        if (call->method->is_compressible)
                st->encoding_out = grpc_encoding_choose(st->conn->home->options->compression,
                                                        st->accept_encoding);
        if (call->method->on_open) {
                st->is_given = true;
                call->method->on_open(call);
        }
}

/* ---- messages ---- */

static void refuse_message(struct grpc_stream *st, enum grpc_code code, const char *text) {
        grpc_stream_refuse(st, code, text);
        grpc_stream_abort(st, GRPC_ABORT_REFUSED);
}

static void refuse_too_large(struct grpc_stream *st, size_t bytes) {
        size_t max = h2_conn_limits(st->conn)->message_bytes;

        h2_conn_count_rejected(st->conn, GRPC_LIMIT_MESSAGE_BYTES);
        refuse_message(st, GRPC_RESOURCE_EXHAUSTED,
                       arena_printf(&st->call.arena,
                                    "Received message larger than max (%zu vs. %zu)", bytes, max));
}

/* For a buffer of so many bytes. The budget counts what it refuses itself. */
static void refuse_no_memory(struct grpc_stream *st, size_t bytes) {
        const struct buf_pool *pool = st->conn->home->pool;

        if (byte_budget_fits(buf_pool_budget(pool), bytes)) {
                h2_conn_count_rejected(st->conn, GRPC_LIMIT_MEMORY);
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED, "not enough memory for the message");
        } else {
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED, BYTE_BUDGET_USED_UP);
        }
}

static void refuse_compressed(struct grpc_stream *st, enum gzip_status status, size_t max) {
        if (status == GZIP_NO_MEMORY) {
                refuse_no_memory(st, 0);
                return;
        }
        if (status == GZIP_OVER_BUDGET) {
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED,
                               "unable to decompress a message: " BYTE_BUDGET_USED_UP);
                return;
        }
        if (status != GZIP_TOO_LARGE) {
                refuse_message(st, GRPC_INTERNAL, "a compressed message is damaged");
                return;
        }
        h2_conn_count_rejected(st->conn, GRPC_LIMIT_MESSAGE_BYTES);
        refuse_message(st, GRPC_RESOURCE_EXHAUSTED,
                       arena_printf(&st->call.arena,
                                    "Received message larger than max (%zu), decompressed", max));
}

static size_t max_decompressed(const struct grpc_stream *st) {
        const struct grpc_limits *l = h2_conn_limits(st->conn);

        return MIN(l->message_bytes, l->decompressed_bytes);
}

static void run_unpacking(struct loop_work *work) {
        struct grpc_unpacking *u = CONTAINER_OF(work, struct grpc_unpacking, work);
        struct grpc_stream    *st = CONTAINER_OF(u, struct grpc_stream, unpacking);

        u->status = grpc_decompress(u->message.bytes, u->max_bytes, st->conn->home->pool,
                                    &u->plain);
}

static void on_unpacked(struct loop_work *work);

/* Takes the message. */
static void unpack_elsewhere(struct grpc_stream *st, const struct grpc_message *m, size_t max) {
        st->unpacking = (struct grpc_unpacking){ .work = { .run = run_unpacking,
                                                           .done = on_unpacked },
                                                 .message = *m,
                                                 .max_bytes = max };
        st->is_unpacking = true;
        st->pauses |= GRPC_PAUSE_UNPACK;
        loop_compute(st->conn->home->net.loop, &st->unpacking.work);
}

/* Takes the result. False: the call is refused, and the message is gone. */
static bool take_plain(struct grpc_stream *st, struct grpc_message *m, enum gzip_status status,
                       struct buf *plain) {
        buf_unref(m->owner);
        if (status == GZIP_OK) {
                *m = (struct grpc_message){ .bytes = str_range(plain->bytes, plain->len),
                                            .owner = plain };
                return true;
        }
        refuse_compressed(st, status, max_decompressed(st));
        return false;
}

/* False: the message is not there yet, or the call is refused; either way the message is taken. */
static bool unpack(struct grpc_stream *st, struct grpc_message *m) {
        size_t           max, here;
        enum gzip_status status = GZIP_TOO_LARGE;
        struct buf      *plain = NULL;

        if (LIKELY(!m->is_compressed))
                return true;
        max = max_decompressed(st);
        here = st->conn->home->net.loop ? MIN(max, LOOP_MAX_WORK_BYTES) : max;
        /* What is long as it came is not tried. */
        if (m->bytes.len <= here)
                status = grpc_decompress(m->bytes, here, st->conn->home->pool, &plain);
        if (status == GZIP_TOO_LARGE && here < max) {
                unpack_elsewhere(st, m, max);
                return false;
        }
        return take_plain(st, m, status, plain);
}

static void hand_over(struct grpc_stream *st, struct grpc_message *m) {
        st->is_given = true;
        if (!st->call.method->is_client_stream) {
                st->before = st->call.arena.blocks;
                st->given_bytes = m->bytes.len;
                st->conn->given_bytes += st->given_bytes;
        }
        st->call.method->on_message(&st->call, m->bytes, m->owner);
        buf_unref(m->owner);
}

/* The handler takes it now: only now it may be more than what was sent. */
static void deliver(struct grpc_stream *st, struct grpc_message *m) {
        if (unpack(st, m))
                hand_over(st, m);
}

static bool check_compression(struct grpc_stream *st, const struct grpc_message *m) {
        if (!m->is_compressed || st->encoding_in != GRPC_ENCODING_IDENTITY)
                return true;
        buf_unref(m->owner);
        refuse_message(st, GRPC_INTERNAL,
                       "a message is compressed, but the call has no grpc-encoding");
        return false;
}

static void take_message(struct grpc_stream *st, struct grpc_message *m) {
        if (!check_compression(st, m))
                return;
        st->call.recv_end_ns = st->conn->now_ns;
        if (st->call.method->is_client_stream) {
                deliver(st, m);
                return;
        }
        if (st->has_only) {
                buf_unref(m->owner);
                refuse_message(st, GRPC_UNIMPLEMENTED, "the method takes one message, not several");
                return;
        }
        st->only = *m;
        st->has_only = true;
}

/* Until the bytes are used up, the stream is paused, or it is answered. */
static void read_messages(struct grpc_stream *st, struct str *in, struct buf *owner) {
        struct grpc_message m;

        st->is_delivering = true;
        while (in->len > 0 && !st->pauses && !st->is_answered) {
                switch (grpc_frame_read(&st->frame, in, owner, &m)) {
                case GRPC_FRAME_MORE:
                        break;
                case GRPC_FRAME_MESSAGE:
                        take_message(st, &m);
                        break;
                case GRPC_FRAME_TOO_LARGE:
                        refuse_too_large(st, st->frame.len);
                        break;
                case GRPC_FRAME_BAD_FLAG:
                        refuse_message(st, GRPC_INTERNAL, "malformed message prefix");
                        break;
                case GRPC_FRAME_NO_MEMORY:
                        refuse_no_memory(st, st->frame.len);
                        break;
                }
        }
        st->is_delivering = false;
}

static void drop_stash(struct grpc_stream *st) {
        struct h2_conn *c = st->conn;

        if (!st->stash.buf)
                return;
        c->stashed_bytes -= st->stash.buf->len - st->stash.at;
        buf_unref(st->stash.buf);
        st->stash = (struct grpc_stash){ NULL, 0 };
}

/* Bounded by the stream's window, since none of it is told to the client as consumed. */
static bool stash(struct grpc_stream *st, struct str bytes) {
        struct buf *b = st->stash.buf;
        size_t      used = b ? b->len - st->stash.at : 0;

        if (!b || b->cap - b->len < bytes.len) {
                b = buf_new(st->conn->home->pool, 2 * used + bytes.len);
                if (!b)
                        return false;
                if (used > 0)
                        memcpy(b->bytes, st->stash.buf->bytes + st->stash.at, used);
                b->len = used;
                buf_unref(st->stash.buf);
                st->stash = (struct grpc_stash){ b, 0 };
        }
        memcpy(b->bytes + b->len, bytes.ptr, bytes.len);
        b->len += bytes.len;
        st->conn->stashed_bytes += bytes.len;
        return true;
}

size_t grpc_stream_on_bytes(struct grpc_stream *st, struct str bytes, struct buf *owner) {
        size_t len = bytes.len;

        st->bytes_in += len;
        st->conn->pace_bytes += len;
        if (!st->stash.buf)
                read_messages(st, &bytes, owner);
        if (st->is_answered || bytes.len == 0)
                return len; /* what comes after the answer is thrown away */
        if (!stash(st, bytes)) {
                refuse_no_memory(st, bytes.len);
                return len;
        }
        return len - bytes.len;
}

static void end_of_messages(struct grpc_stream *st) {
        struct grpc_message m = st->only;

        if (grpc_frame_is_partial(&st->frame)) {
                refuse_message(st, GRPC_INTERNAL, "the last message is incomplete");
        } else if (st->call.method->is_client_stream) {
                st->is_given = true;
                st->call.method->on_half_close(&st->call);
        } else if (!st->has_only) {
                refuse_message(st, GRPC_UNIMPLEMENTED, "the method takes one message, not none");
        } else {
                st->has_only = false;
                deliver(st, &m);
        }
}

void grpc_stream_on_end(struct grpc_stream *st) {
        st->has_ended = true;
        if (!st->is_answered && !st->stash.buf && !st->is_unpacking)
                end_of_messages(st);
}

/* ---- pauses ---- */

static void unstash(struct grpc_stream *st) {
        struct h2_conn *c = st->conn;
        struct buf     *b = st->stash.buf;
        struct str      in = str_range(b->bytes + st->stash.at, b->len - st->stash.at);
        size_t          before = in.len;

        read_messages(st, &in, b);
        if (st->is_answered)
                in.len = 0;
        c->stashed_bytes -= before - in.len;
        st->stash.at = b->len - in.len;
        h2_session_consumed(st, before - in.len);
        h2_conn_release_window(c);
        if (in.len > 0)
                return;
        drop_stash(st);
        if (st->has_ended && !st->is_answered && !st->is_unpacking)
                end_of_messages(st);
}

void grpc_stream_set_pause(struct grpc_stream *st, enum grpc_pause pause, bool is_on) {
        struct h2_conn *c = st->conn;
        bool            was_busy = c->is_busy;

        if (is_on) {
                st->pauses |= pause;
                return;
        }
        st->pauses &= ~(unsigned)pause;
        if (st->pauses || st->is_delivering || !st->stash.buf || st->id == 0)
                return;
        c->is_busy = true; /* no flush may close the stream under us */
        unstash(st);
        c->is_busy = was_busy;
        h2_conn_flush_soon(c, false);
}

/* ---- a message that was decompressed elsewhere ---- */

static void see_unpacked(struct grpc_stream *st) {
        struct grpc_message m = st->unpacking.message;
        bool                had_stash = st->stash.buf != NULL;
        bool                is_fine;

        st->is_delivering = true;
        is_fine = take_plain(st, &m, st->unpacking.status, st->unpacking.plain);
        if (is_fine)
                hand_over(st, &m);
        st->is_delivering = false;
        grpc_stream_set_pause(st, GRPC_PAUSE_UNPACK, false);
        if (is_fine && !had_stash && st->has_ended && !st->is_answered &&
            st->call.method->is_client_stream)
                end_of_messages(st); /* it came meanwhile */
}

static void on_unpacked(struct loop_work *work) {
        struct grpc_unpacking *u = CONTAINER_OF(work, struct grpc_unpacking, work);
        struct grpc_stream    *st = CONTAINER_OF(u, struct grpc_stream, unpacking);

        st->is_unpacking = false;
        if (!st->is_answered && st->id != 0) {
                h2_conn_on_time(st->conn, st, see_unpacked);
                return;
        }
        if (u->status == GZIP_TOO_LARGE) /* also of a client that did not wait to be told */
                h2_conn_count_rejected(st->conn, GRPC_LIMIT_MESSAGE_BYTES);
        buf_unref(u->message.owner);
        buf_unref(u->plain);
        if (st->id == 0 && (!st->is_given || st->is_finished))
                h2_conn_recycle(st);
}

void grpc_stream_on_due(struct grpc_stream *st) {
        bool has_written = st->has_written;

        st->is_due = st->has_written = false;
        if (has_written && st->call.on_written && !st->is_answered)
                st->call.on_written(&st->call);
        if ((st->pauses & GRPC_PAUSE_UNSENT) &&
            st->out.bytes <= h2_conn_limits(st->conn)->unsent_pause_bytes / 2)
                grpc_stream_set_pause(st, GRPC_PAUSE_UNSENT, false);
}

/* ---- ends ---- */

void grpc_stream_on_closed(struct grpc_stream *st) {
        st->id = 0;
        st->conn->n_open--;
        loop_timer_cancel(&st->deadline);
        grpc_frame_done(&st->frame);
        drop_stash(st);
        st->conn->unsent_bytes -= st->out.bytes;
        send_queue_done(&st->out);
        if (!st->conn->is_ending)
                h2_conn_release_window(st->conn);
        if (st->has_only)
                buf_unref(st->only.owner);
        st->has_only = false;
        st->is_due = false;
        if (st->is_unpacking)
                loop_compute_cancel(&st->unpacking.work);
        if (!st->is_given || st->is_finished) {
                if (!st->is_unpacking)
                        h2_conn_recycle(st);
                return;
        }
        grpc_stream_abort(st, GRPC_ABORT_CANCELLED);
}

static void reset(struct grpc_stream *st, enum h2_code code) {
        st->is_answered = st->is_reset = true;
        if (!h2_session_reset(st, code))
                h2_conn_kill(st->conn);
}

void grpc_stream_on_malformed(struct grpc_stream *st) {
        reset(st, H2_PROTOCOL_ERROR);
}

static void expire(struct grpc_stream *st) {
        if (st->is_answered)
                return;
        if (st->out.bytes > 0) /* a message is half sent: no trailers can follow it */
                reset(st, H2_CANCEL);
        else
                grpc_stream_refuse(st, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
        grpc_stream_abort(st, GRPC_ABORT_DEADLINE);
}

static void on_deadline(struct loop_timer *t) {
        struct grpc_stream *st = CONTAINER_OF(t, struct grpc_stream, deadline);

        h2_conn_on_time(st->conn, st, expire);
}

/* The calls of a connection share what its client takes. */
static size_t window_bytes(const struct h2_conn *c) {
        return MAX(h2_conn_limits(c)->write_window_bytes / MAX(c->n_open, 1), 1);
}

enum grpc_limit grpc_stream_check_progress(struct grpc_stream *st, uint64_t now_ns) {
        uint64_t gained = st->bytes_out - st->progress_bytes;

        if (st->id == 0 || st->is_reset || !st->is_answered || st->out.bytes == 0 ||
            now_ns <= st->progress_ns ||
            now_ns - st->progress_ns < h2_conn_limits(st->conn)->write_stall_ns)
                return GRPC_LIMIT_NONE;
        if (gained < window_bytes(st->conn))
                return gained > 0 ? GRPC_LIMIT_WRITE_RATE : GRPC_LIMIT_WRITE_STALL;
        st->progress_ns = now_ns;
        st->progress_bytes = st->bytes_out;
        return GRPC_LIMIT_NONE;
}

void grpc_stream_stop(struct grpc_stream *st, enum grpc_limit limit) {
        h2_conn_count_rejected(st->conn, limit);
        reset(st, H2_CANCEL);
}
