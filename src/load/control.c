/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/control.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "load/grpc_message.h"
#include "load/waiter.h"
#include "load/wire.h"
#include "net/loop.h"

#include <string.h>

struct control {
        struct channel_shard *shard; /* borrowed */
        uint64_t              timeout_ns;
        struct waiter        *waiter;  /* borrowed */
        struct channel       *channel; /* of the loop's thread */
        struct call           call;
        struct wire_message   message;
        struct strbuf         head, text;
        struct mail           mail;
        void (*order)(struct control *c); /* on the loop's thread */

        struct mutex     lock; /* rank LOCK_LEAF; guards the fields below */
        struct cond      changed;
        bool             is_order_done;
        bool             is_answered; /* the call of the last order_send() */
        enum answer_kind kind;
        int              code;
        struct strbuf    answer;
};

/* ---- on the loop's thread ---------------------------------------------------------------------- */

static void on_done(struct call *call, const struct answer *a) {
        struct control *c = CONTAINER_OF(call, struct control, call);
        MUTEX_GUARD(&c->lock);

        c->is_answered = true;
        c->kind = a->kind;
        c->code = a->code;
        strbuf_clear(&c->answer);
        strbuf_put(&c->answer, a->text.ptr, a->text.len);
        cond_signal(&c->changed);
        waiter_wake(c->waiter);
}

static const struct call_ops call_ops = { .on_done = on_done };

static void finish_order(struct control *c) {
        MUTEX_GUARD(&c->lock);

        c->is_order_done = true;
        cond_signal(&c->changed);
}

static void on_order(struct mail *m) {
        struct control *c = CONTAINER_OF(m, struct control, mail);

        c->order(c);
        finish_order(c);
}

static void order_open(struct control *c) {
        c->channel = channel_open(c->shard);
}

static void order_close(struct control *c) {
        channel_close(c->channel);
}

static void order_send(struct control *c) {
        channel_send(c->channel, &c->call);
}

/* Drops a call that takes too long. */
static void order_drop(struct control *c) {
        order_close(c);
        order_open(c);
}

/* ---- on the caller's thread -------------------------------------------------------------------- */

static void run_order(struct control *c, void (*order)(struct control *c)) {
        mutex_lock(&c->lock);
        c->is_order_done = false;
        mutex_unlock(&c->lock);
        c->order = order;
        mailbox_post(loop_mailbox(c->shard->loop), &c->mail);
        mutex_lock(&c->lock);
        while (!c->is_order_done)
                cond_wait(&c->changed, &c->lock);
        mutex_unlock(&c->lock);
}

static bool is_answered(struct control *c) {
        MUTEX_GUARD(&c->lock);
        return c->is_answered;
}

static void wait_for_answer(struct control *c, uint64_t deadline_ns) {
        bool was_interrupted = false;

        while (!is_answered(c) && clock_now_ns() < deadline_ns) {
                if (c->waiter->is_interrupted && !was_interrupted) {
                        was_interrupted = true;
                        deadline_ns = MIN(deadline_ns, clock_now_ns() + CONTROL_INTERRUPTED_NS);
                }
                waiter_wait(c->waiter, deadline_ns);
        }
}

/* Sends the call and waits; false when no answer came in time. */
static bool run_call(struct control *c) {
        uint64_t deadline_ns = clock_now_ns() + c->timeout_ns;

        c->is_answered = false; /* no call is under way */
        run_order(c, order_send);
        wait_for_answer(c, deadline_ns);
        if (is_answered(c))
                return true;
        run_order(c, order_drop);
        return false;
}

static struct error *no_answer(const struct control *c) {
        const char *authority = c->shard->target->authority;

        if (c->waiter->is_interrupted)
                return error_new(ERR_UNAVAILABLE, "interrupted: no answer from %s yet", authority);
        return error_new(ERR_UNAVAILABLE, "no answer from %s within %llu s", authority,
                         (unsigned long long)(c->timeout_ns / NS_PER_S));
}

struct control *control_open(struct channel_shard *shard, uint64_t timeout_ns,
                             struct waiter *waiter) {
        struct control *c = mem_zalloc(sizeof(*c));

        c->shard = shard;
        c->timeout_ns = timeout_ns;
        c->waiter = waiter;
        c->mail.deliver = on_order;
        mutex_init(&c->lock, LOCK_LEAF);
        cond_init(&c->changed);
        call_init(&c->call, &call_ops);
        run_order(c, order_open);
        return c;
}

void control_close(struct control *c) {
        if (c == NULL)
                return;
        run_order(c, order_close);
        call_done(&c->call);
        strbuf_done(&c->head);
        strbuf_done(&c->text);
        strbuf_done(&c->answer);
        cond_done(&c->changed);
        mutex_done(&c->lock);
        free(c);
}

/* ---- HTTP -------------------------------------------------------------------------------------- */

static void put_model_path(const struct control_subject *s, const char *tail, struct strbuf *out) {
        if (s->model == NULL) {
                strbuf_printf(out, "/v2/models%s", tail);
                return;
        }
        wire_put_model_path(s->model, s->version, out);
        strbuf_puts(out, tail);
}

static void put_region(const struct control_subject *s, struct strbuf *out) {
        AUTO_CHARS         key = mem_printf("/%s", s->region);
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_string(&w, "key", key);
        json_member_u64(&w, "offset", 0);
        json_member_u64(&w, "byte_size", s->region_bytes);
        json_end_object(&w);
}

static void put_cuda_region(const struct control_subject *s, struct strbuf *out) {
        AUTO_STRBUF        handle = { 0 };
        struct json_writer w = { .out = out };

        base64_encode(s->handle, &handle);
        json_begin_object(&w);
        json_member_object(&w, "raw_handle");
        json_member_string(&w, "b64", strbuf_cstr(&handle));
        json_end_object(&w);
        json_member_u64(&w, "device_id", (uint64_t)s->device);
        json_member_u64(&w, "byte_size", s->region_bytes);
        json_end_object(&w);
}

/* {"parameters":{"config":"..."}} */
static void put_load(const struct control_subject *s, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_object(&w, "parameters");
        json_member_str(&w, "config", s->config);
        json_end_object(&w);
        json_end_object(&w);
}

static void make_http(struct control *c, enum control_question q, const struct control_subject *s) {
        AUTO_STRBUF       path = { 0 }, body = { 0 }, model_path = { 0 };
        struct wire_parts parts = { .method = "GET" };

        switch (q) {
        case CONTROL_METADATA: put_model_path(s, "", &path); break;
        case CONTROL_CONFIG: put_model_path(s, "/config", &path); break;
        case CONTROL_STATISTICS: put_model_path(s, "/stats", &path); break;
        case CONTROL_REGISTER:
                parts.method = "POST";
                strbuf_printf(&path, "/v2/systemsharedmemory/region/%s/register", s->region);
                put_region(s, &body);
                break;
        case CONTROL_UNREGISTER:
                parts.method = "POST";
                strbuf_printf(&path, "/v2/systemsharedmemory/region/%s/unregister", s->region);
                break;
        case CONTROL_REGISTER_CUDA:
                parts.method = "POST";
                strbuf_printf(&path, "/v2/cudasharedmemory/region/%s/register", s->region);
                put_cuda_region(s, &body);
                break;
        case CONTROL_UNREGISTER_CUDA:
                parts.method = "POST";
                strbuf_printf(&path, "/v2/cudasharedmemory/region/%s/unregister", s->region);
                break;
        case CONTROL_LOAD:
                parts.method = "POST";
                strbuf_puts(&path, "/v2/repository");
                wire_put_model_path(s->model, NULL, &model_path);
                strbuf_printf(&path, "%s/load", strbuf_cstr(&model_path) + strlen("/v2"));
                put_load(s, &body);
                break;
        case CONTROL_PAGE: strbuf_puts(&path, s->path); break;
        }
        parts.path = strbuf_cstr(&path);
        parts.body_bytes = body.len;
        wire_put_http_head(c->shard->target, &parts, &c->text);
        strbuf_put(&c->text, strbuf_cstr(&body), body.len);
}

/* ---- both -------------------------------------------------------------------------------------- */

static struct error *refused(const struct control *c) {
        if (c->kind == ANSWER_BROKEN)
                return error_new(ERR_UNAVAILABLE, "no answer from %s: %s",
                                 c->shard->target->authority, strbuf_cstr(&c->answer));
        return error_new(ERR_INVALID_ARG, "%s answered %d: %s", c->shard->target->authority,
                         c->code, strbuf_cstr(&c->answer));
}

struct error *control_ask(struct control *c, enum control_question question,
                          const struct control_subject *subject, struct strbuf *ret) {
        bool is_http = c->shard->target->protocol == TARGET_HTTP;

        strbuf_clear(&c->head);
        strbuf_clear(&c->text);
        if (is_http)
                make_http(c, question, subject);
        else
                TRY(grpc_message_make(c->shard->target, question, subject, &c->head, &c->text));
        c->message = (struct wire_message){ .head = strbuf_str(&c->head),
                                            .before = strbuf_str(&c->text) };
        c->call.message = &c->message;
        if (!run_call(c))
                return no_answer(c);
        if (c->kind != ANSWER_OK)
                return refused(c);
        if (is_http) {
                strbuf_put(ret, c->answer.ptr, c->answer.len);
                return NULL;
        }
        return grpc_message_print(question, strbuf_str(&c->answer), ret);
}
