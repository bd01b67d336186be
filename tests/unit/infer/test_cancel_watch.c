/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "infer/cancel_watch.h"
#include "infer/response_stream.h"

static struct response_stream *stream_new(void) {
        struct response_stream *s = mem_alloc(sizeof(*s));

        response_stream_init(s, s, free);
        return s;
}

static void count(void *userp) {
        ++*(unsigned *)userp;
}

static void test_called_once(void **state) {
        struct response_stream *s = stream_new(), *other = stream_new();
        unsigned                n[3] = { 0 };
        struct cancel_watch    *watches[] = { cancel_watch_new(s, count, &n[0]),
                                              cancel_watch_new(s, count, &n[1]),
                                              cancel_watch_new(other, count, &n[2]) };

        (void)state;
        cancel_watch_cancel(s);
        cancel_watch_cancel(s);
        assert_int_equal(n[0], 1);
        assert_int_equal(n[1], 1);
        assert_int_equal(n[2], 0);
        for (unsigned i = 0; i < 3; i++)
                cancel_watch_free(watches[i]);
        cancel_watch_cancel(other);
        assert_int_equal(n[2], 0); /* freed before */
        response_stream_unref(s);
        response_stream_unref(other);
        cancel_watch_free(NULL);
}

static void test_cancelled_before(void **state) {
        struct response_stream *s = stream_new();
        struct cancel_watch    *watch;
        unsigned                n = 0;

        (void)state;
        cancel_watch_cancel(s);
        watch = cancel_watch_new(s, count, &n);
        assert_int_equal(n, 1);
        cancel_watch_cancel(s);
        assert_int_equal(n, 1);
        cancel_watch_free(watch);
        response_stream_unref(s);
}

/* The stream of a request that is used again. */
static void test_the_next_inference_is_another_one(void **state) {
        struct response_stream *s = stream_new();
        unsigned                n = 0;
        struct cancel_watch    *watch = cancel_watch_new(s, count, &n);
        struct response_stream *next = response_stream_renew(s);

        (void)state;
        assert_ptr_not_equal(next, s); /* the watch holds it */
        cancel_watch_cancel(next);
        assert_int_equal(n, 0);
        cancel_watch_cancel(s);
        assert_int_equal(n, 1);
        cancel_watch_free(watch);
        assert_ptr_equal(response_stream_renew(s), s);
        assert_false((atomic_load(&s->marks) & STREAM_IS_WATCHED) != 0);
        response_stream_unref(s);
        response_stream_unref(next);
}

static void test_short_memory(void **state) {
        struct response_stream *s = stream_new();
        unsigned                n = 0;

        (void)state;
        mem_fail_after(1);
        assert_null(cancel_watch_new(s, count, &n));
        mem_fail_after(0);
        cancel_watch_cancel(s);
        response_stream_unref(s);
        assert_int_equal(n, 0);
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct {
        struct mutex lock; /* rank LOCK_SERVER; guards all below */
        struct cond  changed;
        bool         has_begun, may_end, has_ended;
} slow;

static void run_slowly(void *userp) {
        (void)userp;
        MUTEX_GUARD(&slow.lock);
        slow.has_begun = true;
        cond_broadcast(&slow.changed);
        while (!slow.may_end)
                cond_wait(&slow.changed, &slow.lock);
        slow.has_ended = true;
}

static void cancel(void *stream) {
        cancel_watch_cancel(stream);
}

static void end_slowly(void *unused) {
        (void)unused;
        MUTEX_GUARD(&slow.lock);
        slow.may_end = true;
        cond_broadcast(&slow.changed);
}

static void test_freeing_waits_for_the_call(void **state) {
        struct response_stream *s = stream_new();
        struct cancel_watch    *watch = cancel_watch_new(s, run_slowly, NULL);
        struct thread           canceller = { 0 }, ender = { 0 };

        (void)state;
        mutex_init(&slow.lock, LOCK_SERVER);
        cond_init(&slow.changed);
        assert_null(thread_start(&canceller, "canceller", cancel, s));
        mutex_lock(&slow.lock);
        while (!slow.has_begun)
                cond_wait(&slow.changed, &slow.lock);
        mutex_unlock(&slow.lock);
        assert_null(thread_start(&ender, "ender", end_slowly, NULL));
        cancel_watch_free(watch);
        assert_true(slow.has_ended);
        thread_join(&canceller);
        thread_join(&ender);
        response_stream_unref(s);
        cond_done(&slow.changed);
        mutex_done(&slow.lock);
}

/* Each of many watches that are made while their stream is cancelled is called once. */
static void test_a_race(void **state) {
        (void)state;
        for (unsigned i = 0; i < 2000; i++) {
                struct response_stream *s = stream_new();
                struct thread           canceller = { 0 };
                struct cancel_watch    *watch;
                unsigned                n = 0;

                assert_null(thread_start(&canceller, "canceller", cancel, s));
                watch = cancel_watch_new(s, count, &n);
                thread_join(&canceller);
                assert_int_equal(n, 1);
                cancel_watch_free(watch);
                response_stream_unref(s);
        }
}

SUITE(cancel_watch) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_called_once),
                cmocka_unit_test(test_cancelled_before),
                cmocka_unit_test(test_the_next_inference_is_another_one),
                cmocka_unit_test(test_short_memory),
                cmocka_unit_test(test_freeing_waits_for_the_call),
                cmocka_unit_test(test_a_race),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
