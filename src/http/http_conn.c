/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_conn.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_message.h"
#include "http/http_server_private.h"

#include <string.h>

void http_conn_enter(struct http_conn *c, enum http_conn_state state, enum http_phase phase,
                     uint64_t now_ns) {
        c->state = state;
        http_pace_enter(&c->pace, phase, now_ns);
}

void http_conn_count_rejected(struct http_conn *c, enum http_limit limit) {
        const struct http_server_options *o = &c->server->options;

        if (limit != HTTP_LIMIT_NONE && o->on_rejected)
                o->on_rejected(o->owner, http_limit_name(limit));
}

static void free_conn(struct http_conn *c) {
        struct net_home *home = &c->home->net;

        list_remove(&c->node);
        if (list_is_linked(&c->intake.node))
                list_remove(&c->intake.node);
        http_input_drop(c);
        http_answer_release(c);
        http_chunks_drop(c);
        buf_unref(c->body_buf);
        buf_unref(c->call.body_buf);
        access_done(&c->call.access);
        arena_done(&c->call.arena);
        http_message_free(c->message);
        free(c->peer);
        free(c);
        net_home_conn_gone(home);
}

static bool step(struct http_conn *c) {
        if (!c->net || conn_is_closing(c->net))
                return false;
        switch (c->state) {
        case HTTP_CONN_HEAD:
                return http_intake_head(c);
        case HTTP_CONN_BODY:
                return http_intake_body(c);
        case HTTP_CONN_CHUNKS:
                return http_intake_chunks(c);
        case HTTP_CONN_LINGER:
                c->in_at = c->in_len = 0; /* thrown away */
                break;
        case HTTP_CONN_CALL:
        case HTTP_CONN_WRITE:
                break;
        }
        return false;
}

static bool is_with_handler(const struct http_conn *c) {
        return c->state == HTTP_CONN_CALL && c->was_handed_out;
}

void http_conn_run(struct http_conn *c) {
        if (c->is_running)
                return;
        c->is_running = true;
        while (step(c))
                ;
        c->is_running = false;
        if (c->net)
                conn_read_start(c->net);
        else if (!is_with_handler(c))
                free_conn(c);
}

void http_conn_close(struct http_conn *c) {
        if (c->net)
                conn_close(c->net);
}

/* Something was read, and is looked at before the loop waits: what the connection seems to be in the
 * midst of is the past. */
static bool has_unseen(const struct http_conn *c) {
        return list_is_linked(&c->intake.node);
}

void http_conn_abort_call(struct http_conn *c) {
        http_call_fn on_abort = c->call.on_abort;

        if (!is_with_handler(c) || c->call.is_aborted)
                return;
        c->call.is_aborted = true;
        c->call.on_abort = NULL;
        if (on_abort)
                on_abort(&c->call);
}

static void log_access(struct http_conn *c) {
        const struct http_server_options *o = &c->server->options;
        const struct http_call           *call = &c->call;
        struct http_access                access;

        if (!o->on_access)
                return;
        access = (struct http_access){
                .peer = c->peer,
                .method = call->head ? str_of(c->message->method_text) : (struct str){ 0 },
                .path = call->path,
                .model = call->model,
                .key = access_key_name(&call->access),
                .status = c->out.status,
                .bytes_in = c->bytes_in,
                .bytes_out = c->out.bytes,
                .duration_ns = clock_now_ns() - call->recv_start_ns,
                .is_aborted = call->is_aborted,
        };
        o->on_access(o->owner, &access);
}

/* What only some requests have. */
static void clear_rare(struct http_call *call) {
        if (call->access.policy) {
                access_done(&call->access);
                call->access = (struct access){ 0 };
        }
        if (call->region.len > 0)
                call->region = (struct str){ 0 };
}

/* The fields of the call that belong to one request. Others keep what they were opened with, or are
 * written before they are read. */
static void clear_call(struct http_conn *c) {
        struct http_call *call = &c->call;

        buf_unref(call->body_buf);
        arena_reset(&call->arena);
        clear_rare(call);
        call->method = HTTP_METHOD_GET;
        call->is_aborted = false;
        call->path = call->model = call->version = call->body = (struct str){ 0 };
        call->body_buf = NULL;
        call->route = NULL;
        call->head = NULL;
        call->headers = NULL;
        call->n_headers = 0;
        call->recv_start_ns = call->recv_end_ns = call->send_start_ns = 0;
        call->pending = NULL;
        call->on_abort = call->on_written = call->on_sent = NULL;
        call->trace = NULL;
        c->was_handed_out = false;
        c->bytes_in = 0;
}

/* What was refused may still be on its way: the peer reads our answer before it sees an error. */
static void linger(struct http_conn *c) {
        conn_shutdown(c->net);
        http_conn_enter(c, HTTP_CONN_LINGER, HTTP_PHASE_LINGER, c->now_ns);
}

static bool is_idle(const struct http_conn *c) {
        return c->state == HTTP_CONN_HEAD && c->pace.phase == HTTP_PHASE_IDLE && !has_unseen(c);
}

void http_conn_leave(struct http_conn *c) {
        if (!c->net || conn_is_closing(c->net) || !is_idle(c) || conn_has_unread(c->net))
                return;
        c->now_ns = clock_now_ns();
        if (conn_is_shaking_hands(c->net))
                http_conn_close(c);
        else
                linger(c);
}

void http_conn_give_up(struct http_conn *c) {
        if (is_idle(c) || (c->state == HTTP_CONN_LINGER && !c->must_linger))
                http_conn_close(c);
}

/* Requests behind an answer that was the last, which the client has sent before it knew. */
static bool has_more(const struct http_conn *c) {
        return c->in_at < c->in_len || conn_has_unread(c->net);
}

void http_conn_end_call(struct http_conn *c) {
        c->call.is_aborted = c->call.is_aborted || !c->net || conn_is_closing(c->net);
        if (c->call.on_sent)
                c->call.on_sent(&c->call);
        log_access(c);
        http_answer_release(c);
        c->out.bytes = 0;
        c->now_ns = c->call.send_start_ns;
        clear_call(c);
        http_message_reset(c->message);
        http_conn_enter(c, HTTP_CONN_HEAD, HTTP_PHASE_IDLE, c->now_ns);
        c->in_at = c->next_at;
        if (!c->net || conn_is_closing(c->net))
                return;
        if (!c->has_ended && (c->must_linger || (c->out.close && has_more(c))))
                linger(c);
        else if (c->out.close || (c->has_ended && c->in_at == c->in_len))
                http_conn_close(c);
}

static struct iovec on_room(struct conn *net) {
        return http_input_room(conn_owner(net));
}

/* While a request is handled its buffer may be full: reading goes on afterwards. A head without
 * memory has nothing to be answered with, either. */
static void on_no_room(struct conn *net) {
        struct http_conn *c = conn_owner(net);

        if (c->state != HTTP_CONN_HEAD && c->state != HTTP_CONN_LINGER)
                return;
        http_conn_count_rejected(c, HTTP_LIMIT_MEMORY);
        http_conn_close(c);
}

/* What comes now is the next request, which waits its turn. */
static bool is_answering(const struct http_conn *c) {
        return c->state == HTTP_CONN_CALL || c->state == HTTP_CONN_WRITE;
}

/* Nothing more can be read before what came is looked at. */
static bool is_full(const struct http_conn *c) {
        if (c->state == HTTP_CONN_BODY && c->body_buf)
                return c->body_got == c->message->content_length;
        return c->in_len == c->in->cap;
}

static void on_read(struct conn *net, size_t n_bytes) {
        struct http_conn *c = conn_owner(net);

        c->now_ns = clock_now_ns();
        if (c->state == HTTP_CONN_BODY && c->body_buf)
                c->body_got += n_bytes;
        else
                c->in_len += n_bytes;
        if (is_answering(c))
                return;
        if (is_full(c))
                http_conn_run(c);
        else
                loop_put_off(c->home->net.loop, &c->intake);
}

static void on_intake(struct loop_chore *chore) {
        struct http_conn *c = CONTAINER_OF(chore, struct http_conn, intake);

        if (!is_answering(c))
                http_conn_run(c);
}

/* Looks now at what was put off. */
static void take_in(struct http_conn *c) {
        if (!has_unseen(c))
                return;
        list_remove(&c->intake.node);
        on_intake(&c->intake);
}

static void on_end(struct conn *net, bool is_reset) {
        struct http_conn *c = conn_owner(net);

        take_in(c);
        c->has_ended = true;
        if (is_reset || !is_answering(c))
                http_conn_close(c);
        /* A peer that only stopped sending may still read: the answer is tried. */
        http_conn_abort_call(c);
}

static void on_written(struct conn *net, bool is_ok) {
        struct http_conn *c = conn_owner(net);

        http_answer_release(c);
        if (!is_ok) {
                http_chunks_drop(c);
                http_conn_close(c);
                http_conn_abort_call(c);
        }
        if (c->out.in_chunks)
                http_chunks_flush(c);
        else if (c->state == HTTP_CONN_WRITE)
                http_conn_end_call(c);
        http_conn_run(c);
}

static void on_closed(struct conn *net) {
        struct http_conn *c = conn_owner(net);

        c->is_running = true; /* an answer given now must not free the connection under us */
        http_conn_abort_call(c);
        c->is_running = false;
        c->net = NULL;
        http_conn_run(c);
}

/* Bytes that moved in the phase the pace watches; of an answer they are those that the peer's system
 * has acknowledged, since the socket takes megabytes for a peer that reads nothing. */
static uint64_t moved_bytes(const struct http_conn *c) {
        switch (c->pace.phase) {
        case HTTP_PHASE_BODY:
                if (c->body_buf)
                        return c->body_got;
                if (c->state == HTTP_CONN_CHUNKS)
                        return c->message->body ? c->message->body->len : 0;
                return c->in_len - c->in_at;
        case HTTP_PHASE_WRITE:
                return c->out.bytes - conn_unwritten_bytes(c->net) -
                       conn_unacknowledged_bytes(c->net);
        case HTTP_PHASE_IDLE:
        case HTTP_PHASE_HEAD:
        case HTTP_PHASE_HANDLER:
        case HTTP_PHASE_LINGER:
                break;
        }
        return 0;
}

static void on_tick(struct conn *net, uint64_t now_ns) {
        struct http_conn *c = conn_owner(net);
        enum http_limit   limit;

        if (has_unseen(c))
                return;
        limit = http_pace_check(&c->pace, &c->server->options.limits, now_ns, moved_bytes(c));
        switch (limit) {
        case HTTP_LIMIT_NONE:
                break;
        case HTTP_LIMIT_HEADER_TIME:
                c->now_ns = now_ns;
                http_conn_refuse(c, 408, limit, "request header was not received in time");
                break;
        case HTTP_LIMIT_BODY_RATE:
                c->now_ns = now_ns;
                http_conn_refuse(c, 408, limit, "request body was received too slowly");
                break;
        case HTTP_LIMIT_WRITE_STALL:
        case HTTP_LIMIT_WRITE_RATE:
                http_conn_count_rejected(c, limit);
                http_conn_close(c);
                break;
        default: /* idle, or lingered long enough: nobody is wronged */
                http_conn_close(c);
                break;
        }
}

static const struct conn_ops conn_ops = {
        .on_room = on_room,
        .on_no_room = on_no_room,
        .on_read = on_read,
        .on_end = on_end,
        .on_written = on_written,
        .on_tick = on_tick,
        .on_closed = on_closed,
};

void http_conn_open(struct http_loop *home, int fd) {
        struct http_conn *c = mem_aligned_alloc(CACHE_LINE_BYTES, sizeof(*c));
        struct error     *err;

        memset(c, 0, offsetof(struct http_conn, arena_bytes));
        err = net_home_open(&home->net, fd, &conn_ops, c, &c->net);
        if (err) { /* out of memory or descriptors: as if it had never been accepted */
                error_free(err);
                free(c);
                net_home_conn_gone(&home->net);
                return;
        }
        c->intake.run = on_intake;
        c->server = home->server;
        c->home = home;
        if (c->server->options.on_access)
                c->peer = mem_strdup(conn_peer(c->net));
        list_append(&home->net.conns, &c->node);
        list_init(&c->out.chunks);
        list_init(&c->out.sending);
        c->message = http_message_new(&home->server->options.limits, loop_buf_pool(home->net.loop));
        arena_init(&c->call.arena, c->arena_bytes, sizeof(c->arena_bytes), HTTP_MAX_ARENA_BYTES);
        arena_set_budget(&c->call.arena, buf_pool_budget(loop_buf_pool(home->net.loop)));
        c->call.conn = c;
        c->call.service = &c->server->options.service;
        c->call.core = c->server->options.service.core;
        http_conn_enter(c, HTTP_CONN_HEAD, HTTP_PHASE_IDLE, clock_now_ns());
        if (home->is_leaving)
                http_conn_close(c);
        else
                conn_read_start(c->net);
}
