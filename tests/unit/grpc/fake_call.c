/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/fake_call.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct fake_call fake_call;

/* ---- the loop ---- */

struct mailbox {
        struct mail *first, *last;
};

static struct mailbox mails;

bool mailbox_post_without_wake(struct mailbox *box, struct mail *m) {
        m->next = NULL;
        if (box->first != NULL)
                box->last->next = m;
        else
                box->first = m;
        box->last = m;
        return box->first == m;
}

/* The test delivers by itself. */
void mailbox_wake(struct mailbox *box) {
        (void)box;
}

void mailbox_post(struct mailbox *box, struct mail *m) {
        if (mailbox_post_without_wake(box, m))
                mailbox_wake(box);
}

/* This is no loop's thread. */
bool loop_set_waker(void (*call)(void)) {
        (void)call;
        return false;
}

bool loop_is_late(uint64_t now_ns) {
        (void)now_ns;
        return false;
}

void loop_timer_init(struct loop_timer *t, loop_timer_fn fire) {
        *t = (struct loop_timer){ .fire = fire };
}

bool loop_timer_arm(struct loop *l, struct loop_timer *t, uint64_t due_ns) {
        assert_null(l);
        assert_true(due_ns > clock_now_ns());
        assert_true(fake_call.timer == NULL || fake_call.timer == t);
        fake_call.timer = fake_call.has_no_timers ? NULL : t;
        return !fake_call.has_no_timers;
}

void loop_timer_cancel(struct loop_timer *t) {
        if (fake_call.timer == t)
                fake_call.timer = NULL;
}

void fake_call_let_time_pass(void) {
        struct loop_timer *t = STEAL(fake_call.timer);

        assert_non_null(t);
        t->fire(t);
}

static struct mail *take(void) {
        struct mail *m = mails.first;

        if (m != NULL)
                mails.first = m->next;
        return m;
}

void fake_call_deliver(void) {
        for (struct mail *m = take(); m != NULL; m = take())
                m->deliver(m);
}

void fake_call_run_work(void) {
        struct loop_work *w = STEAL(fake_call.work);

        assert_non_null(w);
        if (!w->is_cancelled)
                w->run(w);
        if (fake_call.delivers_first)
                fake_call_deliver();
        w->done(w);
}

/* ---- the call ---- */

void fake_call_init(void) {
        memset(&fake_call, 0, sizeof(fake_call));
        arena_init(&fake_call.call.arena, NULL, 0, 0);
        fake_call.call.service = &fake_call.service;
        fake_call.service.infer = &fake_call.core;
        strbuf_init(&fake_call.text, 0);
        for (size_t i = 0; i < ARRAY_LEN(fake_call.messages); i++)
                strbuf_init(&fake_call.messages[i], 0);
}

void fake_call_done(void) {
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.n_charged, 0);
        assert_null(mails.first);
        assert_null(fake_call.work);
        assert_null(fake_call.timer);
        strbuf_done(&fake_call.text);
        for (size_t i = 0; i < ARRAY_LEN(fake_call.messages); i++)
                strbuf_done(&fake_call.messages[i]);
        arena_done(&fake_call.call.arena);
}

void fake_call_read(grpc_message_fn on_message, struct str message) {
        struct buf *owner = message.len > 0 ? buf_new(NULL, message.len) : NULL;

        if (owner != NULL)
                memcpy(owner->bytes, message.ptr, message.len);
        on_message(&fake_call.call, str_range(owner != NULL ? owner->bytes : NULL, message.len),
                   owner);
        buf_unref(owner);
}

struct str grpc_call_metadata(const struct grpc_call *call, const char *name) {
        for (size_t i = 0; i < call->n_metadata; i++)
                if (str_is(call->metadata[i].name, name))
                        return call->metadata[i].value;
        return str_range(NULL, 0);
}

void grpc_call_add_initial(struct grpc_call *call, struct str name, struct str value) {
        (void)call;
        (void)name;
        (void)value;
}

void grpc_call_add_trailing(struct grpc_call *call, struct str name, struct str value) {
        (void)value;
        assert_ptr_equal(call, &fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        fake_call.asks_to_retry = fake_call.asks_to_retry || STR_IS(name, "retry-after");
}

void grpc_call_send(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts) {
        assert_ptr_equal(call, &fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        assert_false(fake_call.is_concluded);
        for (size_t i = 0; i < n_parts; i++) {
                if (call->abort_reason == GRPC_ABORT_NONE)
                        strbuf_put(&fake_call.messages[fake_call.n_messages %
                                                       ARRAY_LEN(fake_call.messages)],
                                   parts[i].ptr, parts[i].len);
                fake_call.n_sent += parts[i].len;
                buf_unref(parts[i].buf);
        }
        fake_call.n_messages += call->abort_reason == GRPC_ABORT_NONE;
        if (fake_call.on_send != NULL)
                fake_call.on_send(call);
}

uint64_t grpc_call_written_bytes(const struct grpc_call *call) {
        (void)call;
        return fake_call.is_slow ? fake_call.n_written : fake_call.n_sent;
}

size_t grpc_call_unsent_bytes(const struct grpc_call *call) {
        return fake_call.n_sent - (size_t)grpc_call_written_bytes(call);
}

static void keep_status(enum grpc_code code, const char *message) {
        if (fake_call.is_concluded)
                return;
        fake_call.code = code;
        strbuf_puts(&fake_call.text, message != NULL ? message : "");
}

void grpc_call_conclude(struct grpc_call *call, enum grpc_code code, const char *message) {
        assert_ptr_equal(call, &fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        keep_status(code, message);
        fake_call.is_concluded = true;
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *message) {
        assert_ptr_equal(call, &fake_call.call);
        fake_call.n_finished++;
        keep_status(code, message);
        /* As the transport does it: nothing of the call may be touched any more. */
        arena_done(&fake_call.call.arena);
}

void grpc_call_reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts) {
        grpc_call_send(call, parts, n_parts);
        grpc_call_finish(call, GRPC_OK, NULL);
}

void grpc_call_fail(struct grpc_call *call, struct error *err) {
        grpc_call_finish(call, grpc_code_of_error(err->code), err->message);
        error_free(err);
}

void grpc_call_pause(struct grpc_call *call) {
        (void)call;
        fake_call.is_paused = true;
        fake_call.n_pauses++;
}

void grpc_call_resume(struct grpc_call *call) {
        (void)call;
        fake_call.is_paused = false;
        fake_call.n_resumes++;
}

bool grpc_call_is_aborted(const struct grpc_call *call) {
        return call->abort_reason != GRPC_ABORT_NONE;
}

static void on_posted(struct mail *m) {
        struct grpc_call *call = CONTAINER_OF(m, struct grpc_call, mail);

        call->posted(call);
}

void grpc_call_post(struct grpc_call *call, grpc_call_fn fn) {
        call->posted = fn;
        call->mail.deliver = on_posted;
        mailbox_post(&mails, &call->mail);
}

struct mailbox *grpc_call_mailbox(const struct grpc_call *call) {
        (void)call;
        return &mails;
}

struct loop *grpc_call_loop(const struct grpc_call *call) {
        (void)call;
        return NULL;
}

struct buf_pool *grpc_call_buf_pool(const struct grpc_call *call) {
        (void)call;
        return NULL;
}

bool grpc_call_charge(struct grpc_call *call, size_t bytes) {
        (void)call;
        if (fake_call.max_charged > 0 && fake_call.n_charged + bytes > fake_call.max_charged)
                return false;
        fake_call.n_charged += bytes;
        return true;
}

void grpc_call_discharge(struct grpc_call *call, size_t bytes) {
        (void)call;
        assert_true(fake_call.n_charged >= bytes);
        fake_call.n_charged -= bytes;
}

void grpc_call_start_work_thread(struct grpc_call *call, struct loop_work *work) {
        (void)call;
        assert_null(fake_call.work);
        work->is_cancelled = false;
        fake_call.work = work;
}

void grpc_call_compute(struct grpc_call *call, struct loop_work *work) {
        grpc_call_start_work_thread(call, work);
}

void grpc_call_compute_cancel(struct grpc_call *call, struct loop_work *work) {
        (void)call;
        assert_ptr_equal(work, fake_call.work);
        work->is_cancelled = true;
}

/* The transport's own; see test_grpc_call.c. */
bool grpc_call_wants_packing(const struct grpc_call *call) {
        (void)call;
        return fake_call.wants_packing;
}

bool grpc_call_pack(const struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                    struct grpc_part *ret) {
        (void)call;
        (void)parts;
        (void)n_parts;
        (void)ret;
        return false;
}

void grpc_call_send_packed(struct grpc_call *call, const struct grpc_part *packed) {
        grpc_call_send(call, packed, 1);
}

void grpc_call_reply_packed(struct grpc_call *call, const struct grpc_part *packed) {
        grpc_call_reply(call, packed, 1);
}
