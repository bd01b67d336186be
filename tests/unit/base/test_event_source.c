/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/event_source.h"
#include "base/mem.h"
#include "base/thread.h"

#include <stdatomic.h>

static void count(void *userp) {
        atomic_fetch_add((_Atomic unsigned *)userp, 1);
}

static void test_all_are_told_once(void **state) {
        struct event_source  n;
        struct subscription *w[3];
        _Atomic unsigned     calls[3] = { 0 };

        (void)state;
        event_source_init(&n);
        event_source_publish(&n); /* to nobody */
        for (int i = 0; i < 3; i++)
                w[i] = event_source_subscribe(&n, count, &calls[i]);
        event_source_publish(&n);
        subscription_free(w[1]);
        event_source_publish(&n);
        event_source_publish(&n);
        assert_int_equal(calls[0], 3);
        assert_int_equal(calls[1], 1);
        assert_int_equal(calls[2], 3);
        subscription_free(w[0]);
        subscription_free(w[2]);
        subscription_free(NULL);
        event_source_publish(&n);
        assert_int_equal(calls[0], 3);
        event_source_done(&n);
}

/* A callback announces, makes a watch, and frees another one. */
struct busy {
        struct event_source *notice;
        struct subscription *other, *made;
        _Atomic unsigned     n_calls, n_others, n_made;
};

static void change_everything(void *userp) {
        struct busy *b = userp;

        if (atomic_fetch_add(&b->n_calls, 1) > 0)
                return;
        subscription_free(STEAL(b->other));
        b->made = event_source_subscribe(b->notice, count, &b->n_made);
        event_source_publish(b->notice);
}

static void test_changes_from_a_callback(void **state) {
        struct event_source  n;
        struct busy          b = { .notice = &n };
        struct subscription *w;

        (void)state;
        event_source_init(&n);
        w = event_source_subscribe(&n, change_everything, &b);
        b.other = event_source_subscribe(&n, count, &b.n_others);
        event_source_publish(&n);
        assert_int_equal(b.n_calls, 2);
        assert_int_equal(b.n_others, 0);
        assert_int_equal(b.n_made, 1);
        subscription_free(w);
        subscription_free(b.made);
        event_source_done(&n);
}

/* One thread is inside the callback when another frees the watch. */
struct held {
        struct event_source  notice;
        struct subscription *watch;
        struct thread        announcer, freer;
        struct mutex         lock; /* rank LOCK_MODEL; guards what follows */
        struct cond          changed;
        bool                 is_inside, may_leave, has_left;
        bool                 was_freed_inside;
};

static void stay(void *userp) {
        struct held *h = userp;
        MUTEX_GUARD(&h->lock);

        h->is_inside = true;
        cond_broadcast(&h->changed);
        while (!h->may_leave)
                cond_wait(&h->changed, &h->lock);
        h->has_left = true;
}

static void announce(void *arg) {
        event_source_publish(&((struct held *)arg)->notice);
}

static void free_watch(void *arg) {
        struct held *h = arg;

        subscription_free(h->watch);
        MUTEX_GUARD(&h->lock);
        h->was_freed_inside = !h->has_left;
}

static bool is_unlinked(struct event_source *n) {
        MUTEX_GUARD(&n->lock);

        return list_is_empty(&n->subscriptions);
}

static void test_free_waits_for_the_callback(void **state) {
        struct held *h = mem_zalloc(sizeof(*h));

        (void)state;
        event_source_init(&h->notice);
        mutex_init(&h->lock, LOCK_MODEL);
        cond_init(&h->changed);
        h->watch = event_source_subscribe(&h->notice, stay, h);
        assert_null(thread_start(&h->announcer, "announcer", announce, h));
        mutex_lock(&h->lock);
        while (!h->is_inside)
                cond_wait(&h->changed, &h->lock);
        mutex_unlock(&h->lock);
        assert_null(thread_start(&h->freer, "freer", free_watch, h));
        while (!is_unlinked(&h->notice)) /* the moment before it waits */
                ;
        mutex_lock(&h->lock);
        h->may_leave = true;
        cond_broadcast(&h->changed);
        mutex_unlock(&h->lock);
        thread_join(&h->announcer);
        thread_join(&h->freer);
        assert_false(h->was_freed_inside);
        event_source_done(&h->notice);
        cond_done(&h->changed);
        mutex_done(&h->lock);
        free(h);
}

/* Threads that announce while watches come and go: nobody misses the last change. */
#define N_ROUNDS 2000

static void announce_often(void *arg) {
        for (int i = 0; i < N_ROUNDS; i++)
                event_source_publish(arg);
}

static void test_threads(void **state) {
        struct event_source  n;
        struct thread        announcers[3] = { 0 };
        _Atomic unsigned     calls = 0, passing = 0;
        struct subscription *w;

        (void)state;
        event_source_init(&n);
        w = event_source_subscribe(&n, count, &calls);
        for (size_t i = 0; i < ARRAY_LEN(announcers); i++)
                assert_null(thread_start(&announcers[i], "announcer", announce_often, &n));
        for (int i = 0; i < N_ROUNDS; i++)
                subscription_free(event_source_subscribe(&n, count, &passing));
        for (size_t i = 0; i < ARRAY_LEN(announcers); i++)
                thread_join(&announcers[i]);
        /* Changes that come while it is told of one may be told together. */
        assert_in_range(calls, 1, 3 * N_ROUNDS);
        unsigned before = calls;

        event_source_publish(&n);
        assert_int_equal(calls, before + 1);
        subscription_free(w);
        event_source_done(&n);
}

SUITE(event_source) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_are_told_once),
                cmocka_unit_test(test_changes_from_a_callback),
                cmocka_unit_test(test_free_waits_for_the_callback),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
