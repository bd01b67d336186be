/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/thread_failure.h"
#include "repo/reaper.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define N_ITEMS 5

/* Memory given back is counted: the program is linked with --wrap=mem_trim. */
static sem_t given_back;

void __wrap_mem_trim(void);

void __wrap_mem_trim(void) {
        sem_post(&given_back);
}

struct corpse {
        struct reaper_item item;
        unsigned           order; /* which it was, from 1; 0: not reaped */
        pthread_t          reaped_on;
        struct reaper     *reaper; /* borrowed: for those that push another one */
        struct corpse     *next;
        sem_t              is_reaping, may_end;
};

static _Atomic unsigned n_reaped;

static void reap(struct reaper_item *item) {
        struct corpse *c = CONTAINER_OF(item, struct corpse, item);

        c->order = ++n_reaped;
        c->reaped_on = pthread_self();
}

static void reap_slowly(struct reaper_item *item) {
        struct corpse *c = CONTAINER_OF(item, struct corpse, item);

        sem_post(&c->is_reaping);
        while (sem_wait(&c->may_end) != 0)
                continue;
        reap(item);
}

static void reap_and_push(struct reaper_item *item) {
        struct corpse *c = CONTAINER_OF(item, struct corpse, item);

        reap(item);
        reaper_push(c->reaper, &c->next->item);
}

static struct corpse corpse_of(void (*run)(struct reaper_item *item)) {
        return (struct corpse){ .item.reap = run };
}

static struct reaper *new_reaper(void) {
        struct reaper *r;

        n_reaped = 0;
        thread_failure_after(0);
        assert_null(reaper_new(&r));
        return r;
}

static void test_reaps_on_a_thread_of_its_own(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  corpses[N_ITEMS];

        (void)state;
        assert_int_equal(reaper_wait(r, 0), 0);
        for (size_t i = 0; i < N_ITEMS; i++) {
                corpses[i] = corpse_of(reap);
                reaper_expect(r);
        }
        assert_int_equal(reaper_wait(r, 0), N_ITEMS);
        for (size_t i = 0; i < N_ITEMS; i++)
                reaper_push(r, &corpses[i].item);
        assert_int_equal(reaper_wait(r, CLOCK_NEVER), 0);
        for (size_t i = 0; i < N_ITEMS; i++) {
                assert_in_range(corpses[i].order, 1, N_ITEMS);
                assert_false(pthread_equal(corpses[i].reaped_on, pthread_self()));
        }
        reaper_free(r);
}

/* One that hangs delays no other, on however many threads. */
static void test_a_slow_one_delays_no_other(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  slow[N_ITEMS], quick[N_ITEMS];

        (void)state;
        for (size_t i = 0; i < N_ITEMS; i++) {
                slow[i] = corpse_of(reap_slowly);
                quick[i] = corpse_of(reap_slowly);
                sem_init(&slow[i].is_reaping, 0, 0);
                sem_init(&slow[i].may_end, 0, 0);
                sem_init(&quick[i].is_reaping, 0, 0);
                sem_init(&quick[i].may_end, 0, 1);
                reaper_expect(r);
                reaper_expect(r);
                reaper_push(r, &slow[i].item);
                assert_int_equal(sem_wait(&slow[i].is_reaping), 0);
        }
        for (size_t i = 0; i < N_ITEMS; i++) {
                reaper_push(r, &quick[i].item);
                assert_int_equal(sem_wait(&quick[i].is_reaping), 0);
        }
        for (size_t i = 0; i < N_ITEMS; i++)
                sem_post(&slow[i].may_end);
        assert_int_equal(reaper_wait(r, CLOCK_NEVER), 0);
        assert_int_equal(n_reaped, 2 * N_ITEMS);
        for (size_t i = 0; i < N_ITEMS; i++)
                assert_false(pthread_equal(slow[i].reaped_on, quick[i].reaped_on));
        reaper_free(r);
        for (size_t i = 0; i < N_ITEMS; i++) {
                sem_destroy(&slow[i].is_reaping);
                sem_destroy(&slow[i].may_end);
                sem_destroy(&quick[i].is_reaping);
                sem_destroy(&quick[i].may_end);
        }
}

/* Without another thread it waits for the first. */
static void test_no_further_thread(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  slow = corpse_of(reap_slowly), other = corpse_of(reap);

        (void)state;
        sem_init(&slow.is_reaping, 0, 0);
        sem_init(&slow.may_end, 0, 0);
        reaper_expect(r);
        reaper_expect(r);
        reaper_push(r, &slow.item);
        assert_int_equal(sem_wait(&slow.is_reaping), 0);
        thread_failure_after(1);
        reaper_push(r, &other.item);
        thread_failure_after(0);
        sem_post(&slow.may_end);
        assert_int_equal(reaper_wait(r, CLOCK_NEVER), 0);
        assert_int_equal(slow.order, 1);
        assert_int_equal(other.order, 2);
        reaper_free(r);
        sem_destroy(&slow.is_reaping);
        sem_destroy(&slow.may_end);
}

static void test_waiting_has_a_deadline(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  quick = corpse_of(reap_slowly);
        struct corpse  slow = corpse_of(reap_slowly);
        uint64_t       until_ns;

        (void)state;
        sem_init(&quick.is_reaping, 0, 0);
        sem_init(&quick.may_end, 0, 0);
        sem_init(&slow.is_reaping, 0, 0);
        sem_init(&slow.may_end, 0, 0);
        for (int i = 0; i < 3; i++)
                reaper_expect(r);
        reaper_push(r, &quick.item);
        assert_int_equal(sem_wait(&quick.is_reaping), 0);
        reaper_push(r, &slow.item);
        assert_int_equal(sem_wait(&slow.is_reaping), 0);
        sem_post(&quick.may_end);
        while (reaper_wait(r, clock_now_ns() + NS_PER_MS) > 2)
                continue;
        /* The first is gone; the slow one and one that was not pushed are left. */
        until_ns = clock_now_ns() + 2 * NS_PER_MS;
        assert_int_equal(reaper_wait(r, until_ns), 2);
        assert_true(clock_now_ns() >= until_ns);

        sem_post(&slow.may_end);
        reaper_push(r, &(struct corpse){ .item.reap = reap }.item);
        assert_int_equal(reaper_wait(r, CLOCK_NEVER), 0);
        assert_int_equal(n_reaped, 3);
        reaper_free(r);
        sem_destroy(&quick.is_reaping);
        sem_destroy(&quick.may_end);
        sem_destroy(&slow.is_reaping);
        sem_destroy(&slow.may_end);
}

static void test_reaping_may_push(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  last = corpse_of(reap);
        struct corpse  first = corpse_of(reap_and_push);

        (void)state;
        first.reaper = r;
        first.next = &last;
        reaper_expect(r);
        reaper_expect(r);
        reaper_push(r, &first.item);
        assert_int_equal(reaper_wait(r, CLOCK_NEVER), 0);
        assert_int_equal(first.order, 1);
        assert_int_equal(last.order, 2);
        reaper_free(r);
}

static void test_free_drains(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  corpses[N_ITEMS];
        struct corpse  slow = corpse_of(reap_slowly);

        (void)state;
        sem_init(&slow.is_reaping, 0, 0);
        sem_init(&slow.may_end, 0, 0);
        reaper_expect(r);
        reaper_push(r, &slow.item);
        assert_int_equal(sem_wait(&slow.is_reaping), 0);
        for (size_t i = 0; i < N_ITEMS; i++) {
                corpses[i] = corpse_of(reap);
                reaper_expect(r);
                reaper_push(r, &corpses[i].item);
        }
        while (reaper_wait(r, clock_now_ns() + NS_PER_MS) > 1)
                continue;
        assert_int_equal(slow.order, 0);
        sem_post(&slow.may_end);
        reaper_free(r);
        assert_int_equal(slow.order, N_ITEMS + 1);
        for (size_t i = 0; i < N_ITEMS; i++)
                assert_in_range(corpses[i].order, 1, N_ITEMS);
        reaper_free(NULL);
        sem_destroy(&slow.is_reaping);
        sem_destroy(&slow.may_end);
}

/* Once for a row of them, behind the last, and not again without another one. */
static void test_memory_goes_back(void **state) {
        struct reaper *r = new_reaper();
        struct corpse  corpses[N_ITEMS];
        uint64_t       begun_ns = clock_now_ns();
        int            n = -1;

        (void)state;
        sem_init(&given_back, 0, 0);
        for (size_t i = 0; i < N_ITEMS; i++) {
                corpses[i] = corpse_of(reap);
                reaper_expect(r);
                reaper_push(r, &corpses[i].item);
        }
        assert_int_equal(sem_wait(&given_back), 0);
        assert_in_range(clock_now_ns() - begun_ns, NS_PER_S, 60 * NS_PER_S);
        assert_int_equal(n_reaped, N_ITEMS);
        reaper_free(r);
        assert_int_equal(sem_getvalue(&given_back, &n), 0);
        assert_int_equal(n, 0);
        sem_destroy(&given_back);
}

static void test_its_thread_does_not_start(void **state) {
        struct reaper *r = NULL;
        struct error  *err;

        (void)state;
        thread_failure_after(1);
        err = reaper_new(&r);
        assert_non_null(err);
        assert_string_equal(err->message, THREAD_FAILURE_TEXT);
        error_free(err);
        assert_null(r);
}

SUITE(reaper) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reaps_on_a_thread_of_its_own),
                cmocka_unit_test(test_a_slow_one_delays_no_other),
                cmocka_unit_test(test_no_further_thread),
                cmocka_unit_test(test_waiting_has_a_deadline),
                cmocka_unit_test(test_reaping_may_push),
                cmocka_unit_test(test_free_drains),
                cmocka_unit_test(test_memory_goes_back),
                cmocka_unit_test(test_its_thread_does_not_start),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
