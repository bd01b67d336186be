/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches that run on the submitter's thread: inline_execution auto, never, always. */
#include "suite.h"

#include "infer/infer_thread.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/sched_options.h"
#include "sched/scheduler_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define DEFAULT "name: 'm' max_batch_size: 8 " X
#define DYNAMIC(text) DEFAULT "dynamic_batching { " text " } "
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "
#define LIMIT_US(us) "parameters { key: 'inline_limit_us' value { string_value: '" us "' } } "

/* Runs one request to its end. Returns true when the calling thread executed it. */
static bool runs_here(struct fixture *fixture) {
        struct ticket *t = tickets_new(fixture, 1);
        bool           is_here;

        ticket_submit(t);
        assert_success(t);
        is_here = pthread_equal(FIXTURE_GET(fixture, t->ran_on), pthread_self());
        tickets_end(t, 1);
        return is_here;
}

/* An instance is not idle until its thread has started. Submits requests until one runs on this
 * thread. */
static void settle(struct fixture *fixture) {
        uint64_t give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;

        while (!runs_here(fixture))
                if (clock_now_ns() > give_up_ns)
                        fail_msg("no request runs on the submitting thread");
}

static void test_always(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT INLINE("always"), 1, false);

        (void)state;
        settle(fixture);
        for (unsigned i = 0; i < 100; i++)
                assert_true(runs_here(fixture));
        /* "always" runs here, however long it takes. */
        FIXTURE_SET(fixture, fixture->executors[0].spin_ns, 20 * NS_PER_MS);
        assert_true(runs_here(fixture));
        assert_true(runs_here(fixture));
        fixture_close(fixture);
}

/* A thread that may not wait leaves a request to the instance whose execution, or whose answer, waits for the
 * copies of a device. */
static void test_not_with_copies_of_devices(void **state) {
        static const char *const configs[] = { DEFAULT INLINE("always"),
                                               DYNAMIC("") INLINE("always") };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
                struct fixture *fixture = fixture_open(configs[i], 1, false);

                for (unsigned k = 0; k < 20; k++) {
                        struct ticket *t = tickets_new(fixture, 1);

                        settle(fixture);
                        t->req->has_device_inputs = k % 2 == 0;
                        t->req->has_device_outputs = k % 2 == 1;
                        ticket_submit(t);
                        assert_success(t);
                        assert_false(
                                pthread_equal(FIXTURE_GET(fixture, t->ran_on), pthread_self()));
                        tickets_end(t, 1);
                }
                settle(fixture);
                fixture_close(fixture);
        }
}

static void test_never(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT INLINE("never"), 2, true);

        (void)state;
        for (unsigned i = 0; i < 100; i++)
                assert_false(runs_here(fixture));
        fixture_close(fixture);
}

/* An executor that is bound to cores runs on its own thread, even with "always". */
static void test_not_for_an_executor_that_is_bound(void **state) {
        static const char *const configs[] = { DEFAULT INLINE("always"),
                                               DEFAULT INLINE("auto") LIMIT_US("1000000") };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
                struct fixture *fixture = fixture_open(configs[i], 1, true);

                settle(fixture);
                fixture->executors[0].base.is_bound = true;
                for (unsigned k = 0; k < 100; k++)
                        assert_false(runs_here(fixture));
                fixture->executors[0].base.is_bound = false;
                settle(fixture);
                fixture_close(fixture);
        }
}

static void test_auto_needs_an_executor_that_allows_it(void **state) {
        struct fixture *fixture =
                fixture_open(DEFAULT INLINE("auto") LIMIT_US("1000000"), 2, false);

        (void)state;
        for (unsigned i = 0; i < 100; i++)
                assert_false(runs_here(fixture));
        fixture_close(fixture);
}

/* Below the limit on average, batches run here. One execution of nine times the limit raises the
 * average above it. A few short ones lower it again. */
static void auto_follows_the_time(const char *config) {
        struct fixture *fixture = fixture_open(config, 1, true);

        fixture_spin(5 * NS_PER_MS);      /* most likely the instance's thread waits now */
        assert_false(runs_here(fixture)); /* not measured yet */
        settle(fixture);
        for (unsigned i = 0; i < 20; i++)
                assert_true(runs_here(fixture));
        FIXTURE_SET(fixture, fixture->executors[0].spin_ns, 9 * 50 * NS_PER_MS);
        assert_true(runs_here(fixture)); /* the duration was not known before */
        assert_false(runs_here(fixture));
        settle(fixture);
        fixture_close(fixture);
}

/* A thread that has not agreed never executes during its submission. */
static void test_auto_needs_the_thread_to_allow_it(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT INLINE("auto") LIMIT_US("1000000"), 2, true);

        (void)state;
        infer_thread_allow_inline(false);
        for (unsigned i = 0; i < 100; i++)
                assert_false(runs_here(fixture));
        infer_thread_allow_inline(true);
        settle(fixture);
        fixture_close(fixture);
}

static void test_auto_follows_the_time(void **state) {
        (void)state;
        auto_follows_the_time(DEFAULT INLINE("auto") LIMIT_US("50000"));
        auto_follows_the_time(DEFAULT LIMIT_US("50000")); /* the default choice */
        auto_follows_the_time(DYNAMIC("") LIMIT_US("50000"));
}

/* ---- the time at which a step has ended ------------------------------------------------------ */

struct step_end {
        struct continuation start;
        struct ticket      *ticket;
        uint64_t            recent_ns; /* after the step */
};

static void run_step(struct continuation *c) {
        struct step_end *s = CONTAINER_OF(c, struct step_end, start);

        ticket_submit(s->ticket);
        s->recent_ns = infer_thread_recent_time(infer_thread_self());
}

static void report_end(struct fake_executor *e, struct request **requests, uint32_t n) {
        (void)requests;
        (void)n;
        atomic_store(&e->base.reported_end_ns, clock_now_ns());
        e->spin_ns = NS_PER_MS; /* the clock is later by then */
}

/* Runs one request within a continuation. Returns whether the recent time is the reported end. */
static bool ends_as_reported(struct fixture *fixture, bool is_step, bool is_reported) {
        struct ticket  *t = tickets_new(fixture, 1);
        struct step_end s = { .start = { .run = run_step }, .ticket = t };
        uint64_t        reported_ns;

        fixture->before_batch = is_reported ? report_end : NULL;
        t->req->is_inner = is_step;
        t->req->outer = NULL;
        infer_thread_start(&s.start, clock_now_ns());
        assert_success(t);
        assert_true(pthread_equal(FIXTURE_GET(fixture, t->ran_on), pthread_self()));
        reported_ns = atomic_load(&fixture->executors[0].base.reported_end_ns);
        tickets_end(t, 1);
        assert_true(s.recent_ns >= reported_ns);
        return s.recent_ns == reported_ns;
}

static void test_a_step_ends_when_its_backend_says(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT INLINE("always"), 1, true);

        (void)state;
        settle(fixture);
        assert_true(ends_as_reported(fixture, true, true));
        assert_false(ends_as_reported(fixture, false, true));
        assert_false(ends_as_reported(fixture, true, false)); /* what is reported is an older end */
        fixture_close(fixture);
}

static void test_waiting_batch_runs_with_the_request_that_completes_it(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("preferred_batch_size: 3 max_queue_delay_microseconds: "
                                     "3600000000") INLINE("always"),
                             1, false);
        uint64_t give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;
        bool     is_here = false;

        (void)state;
        while (!is_here && clock_now_ns() < give_up_ns) {
                struct ticket *t = tickets_new(fixture, 3);

                for (unsigned i = 0; i < 3; i++)
                        ticket_submit(&t[i]);
                for (unsigned i = 0; i < 3; i++)
                        assert_success(&t[i]);
                is_here = pthread_equal(FIXTURE_GET(fixture, t[0].ran_on), pthread_self());
                assert_true(pthread_equal(t[2].ran_on, t[0].ran_on)); /* one batch of three */
                tickets_end(t, 3);
        }
        assert_true(is_here);
        fixture_close(fixture);
}

/* ---- not nested ------------------------------------------------------------------------------ */

static struct ticket *second;

static void submit_second(struct ticket *t) {
        (void)t;
        error_free(ticket_try_submit(second)); /* the test waits for its answer */
}

/* A completion that submits again must not execute within itself. */
static void test_not_nested(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT INLINE("always"), 2, false);
        unsigned        n_here = 0;

        (void)state;
        settle(fixture);
        for (unsigned i = 0; i < 300; i++) {
                struct ticket *t = tickets_new(fixture, 2);

                t[0].after_response = submit_second;
                second = &t[1];
                ticket_submit(&t[0]);
                assert_success(&t[1]);
                if (pthread_equal(FIXTURE_GET(fixture, t[0].ran_on), pthread_self())) {
                        n_here++;
                        assert_false(
                                pthread_equal(FIXTURE_GET(fixture, t[1].ran_on), pthread_self()));
                }
                tickets_end(t, 2);
        }
        assert_in_range(n_here, 1, 300);
        fixture_close(fixture);
}

/* ---- the other instances meanwhile ----------------------------------------------------------- */

struct infer_thread {
        struct thread  thread;
        struct ticket *tickets;
        unsigned       n;
        uint64_t       pause_ns; /* busy between two requests */
        _Atomic bool   has_failed;
};

static void infer_thread_main(void *arg) {
        struct infer_thread *s = arg;

        for (unsigned i = 0; i < s->n; i++) {
                struct error *err = ticket_try_submit(&s->tickets[i]);

                if (err != NULL)
                        atomic_store(&s->has_failed, true);
                error_free(err);
                fixture_spin(s->pause_ns);
        }
}

static void submitting_start(struct infer_thread *s, struct ticket *tickets, unsigned n) {
        *s = (struct infer_thread){ .tickets = tickets, .n = n, .pause_ns = 2 * NS_PER_MS };
        assert_ok(thread_start(&s->thread, "submitter", infer_thread_main, s), "thread");
}

static void infer_thread_end(struct infer_thread *s) {
        thread_join(&s->thread);
        assert_false(atomic_load(&s->has_failed));
}

/* The instance that watched the time may be borrowed. Then another one watches. */
static void test_delay_is_kept_while_an_instance_is_borrowed(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("preferred_batch_size: 2 max_queue_delay_microseconds: "
                                     "20000") INLINE("always"),
                             2, false);
        struct infer_thread s, late;

        (void)state;
        for (unsigned i = 0; i < 8; i++) {
                struct ticket *t = tickets_new(fixture, 3);
                unsigned       n_before = FIXTURE_GET(fixture, fixture->n_batches);

                hold(fixture, 0);
                hold(fixture, 1);
                submitting_start(&s, t, 2);
                WAIT_FOR(fixture, fixture->n_batches >= n_before + 1);
                /* On a busy machine the first may have run alone, and the second waits for the
                 * third. Neither must run here, since this thread must release them. */
                submitting_start(&late, &t[2], 1);
                WAIT_FOR(fixture, fixture->n_batches >= n_before + 2);
                assert_int_equal(FIXTURE_GET(fixture, t[0].n_finals), 0);
                let_go(fixture, 0);
                let_go(fixture, 1);
                infer_thread_end(&s);
                infer_thread_end(&late);
                tickets_end(t, 3);
        }
        fixture_close(fixture);
}

/* The requests that remain when a batch is taken here may be enough for another instance. */
static void test_rest_runs_while_an_instance_is_borrowed(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("preferred_batch_size: 4 max_queue_delay_microseconds: "
                                     "3600000000") INLINE("always"),
                             2, false);
        struct infer_thread s;

        (void)state;
        for (unsigned i = 0; i < 8; i++) {
                struct ticket *t = tickets_new(fixture, 2);
                unsigned       n_before = FIXTURE_GET(fixture, fixture->n_batches);

                t[0].req->batch_size = 3;
                t[1].req->batch_size = 6;
                hold(fixture, 0);
                hold(fixture, 1);
                submitting_start(&s, t, 2);
                WAIT_FOR(fixture, fixture->n_batches == n_before + 2);
                let_go(fixture, 0);
                let_go(fixture, 1);
                infer_thread_end(&s);
                tickets_end(t, 2);
        }
        fixture_close(fixture);
}

/* free() waits for a batch that runs on a submitter's thread. */
static struct fixture *freed;

static void free_main(void *arg) {
        (void)arg;
        freed->scheduler->ops->free(freed->scheduler);
}

static void test_free_waits_for_a_borrowed_instance(void **state) {
        struct fixture     *fixture = fixture_open(DEFAULT INLINE("always"), 1, false);
        struct ticket      *t = tickets_new(fixture, 1);
        struct thread       freeing = { 0 };
        struct infer_thread s;

        (void)state;
        settle(fixture);
        hold(fixture, 0);
        submitting_start(&s, t, 1);
        WAIT_FOR(fixture, t->n_executions == 1);
        assert_false(pthread_equal(FIXTURE_GET(fixture, t->ran_on), pthread_self()));
        freed = fixture;
        assert_ok(thread_start(&freeing, "free", free_main, NULL), "thread");
        let_go(fixture, 0);
        tickets_end(t, 1);
        infer_thread_end(&s);
        thread_join(&freeing);

        /* fixture_close() frees a scheduler, so make another one. */
        struct executor   *executor = &fixture->executors[0].base;
        struct sched_setup setup = { .model = &fixture->fake->model,
                                     .executors = &executor,
                                     .n_executors = 1,
                                     .timers = fixture->timers };

        assert_ok(sched_new(&setup, &fixture->scheduler), "again");
        fixture_close(fixture);
}

/* ---- deciding late --------------------------------------------------------------------------- */

/* Runs one request after the other, and counts the calls of decide(). */
struct counting_policy {
        struct policy    base;
        _Atomic unsigned n_decisions;
};

static struct counting_policy counting;

static struct dispatch count_decision(struct policy *p, const struct sched_view *view,
                                      uint64_t now_ns) {
        struct policy *single = policy_single_new();

        (void)p;
        atomic_fetch_add(&counting.n_decisions, 1);
        return single->ops->decide(single, view, now_ns);
}

static void free_nothing(struct policy *p) {
        (void)p;
}

static struct error *make_counting(const struct sched_setup *setup, struct scheduler **ret) {
        static const struct policy_ops ops = { .decide = count_decision, .free = free_nothing };
        struct pull_options            options = { .policy = &counting.base };

        counting.base = (struct policy){ .ops = &ops, .limits = policy_single_new()->limits };
        assert_ok(sched_options_read(setup, &options), "options");
        return pull_engine_new(&options, ret);
}

/* A loop that reads many requests leaves the decision to the instance that it wakes at the end.
 * From here on this thread has promised to flush. */
static void test_a_deferred_wake_up_defers_the_decision(void **state) {
        struct fixture *fixture =
                fixture_open_made(DEFAULT LIMIT_US("1000000"), 1, false, NULL, make_counting);
        unsigned n_least = UINT_MAX;

        (void)state;
        assert_false(runs_here(fixture)); /* the duration is known now */
        infer_thread_flush_wakes();
        /* A slow machine may end the deferral early, and on a busy one the instance may be awake. */
        for (unsigned i = 0; i < 200 && n_least > 0; i++) {
                struct ticket *t = tickets_new(fixture, 10);
                unsigned       n_before;

                fixture_spin(NS_PER_MS);
                n_before = atomic_load(&counting.n_decisions);
                for (unsigned k = 0; k < 10; k++)
                        ticket_submit(&t[k]);
                n_least = MIN(n_least, atomic_load(&counting.n_decisions) - n_before);
                infer_thread_flush_wakes();
                tickets_end(t, 10);
        }
        assert_int_equal(n_least, 0);
        fixture_close(fixture);
}

/* Submits four requests, each of its own sequence where the model has sequences. Returns true when
 * the flush ran all four at once on this thread. */
static bool flush_runs_all(struct fixture *fixture, bool has_sequences) {
        struct ticket *t = tickets_new(fixture, 4);
        unsigned       n_before = FIXTURE_GET(fixture, fixture->n_batches), n_here = 0, n_early = 0;
        bool           is_one;

        for (unsigned i = 0; i < 4; i++) {
                if (has_sequences) {
                        t[i].req->correlation.number = i + 1;
                        t[i].req->flags = REQUEST_SEQUENCE_START | REQUEST_SEQUENCE_END;
                }
                ticket_submit(&t[i]);
                n_early += FIXTURE_GET(fixture, t[i].n_finals);
        }
        infer_thread_flush_wakes();
        for (unsigned i = 0; i < 4; i++) {
                assert_success(&t[i]);
                n_here += pthread_equal(FIXTURE_GET(fixture, t[i].ran_on), pthread_self()) != 0;
        }
        is_one = FIXTURE_GET(fixture, fixture->n_batches) == n_before + 1;
        tickets_end(t, 4);
        return is_one && n_here == 4 && n_early == 0;
}

/* A slow machine may end the deferral early, and on a busy one the instance may be awake. */
static void expect_gathering(struct fixture *fixture, bool has_sequences) {
        uint64_t give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;

        while (!flush_runs_all(fixture, has_sequences))
                if (clock_now_ns() > give_up_ns)
                        fail_msg("the flush never runs the four that were submitted");
        fixture_close(fixture);
}

#define BATCHES_OF_4 "name: 'm' max_batch_size: 4 " X LIMIT_US("1000000")

/* The slots of a direct sequence batch cost the same with and without requests. */
static void test_slots_are_gathered_until_the_flush(void **state) {
        (void)state;
        expect_gathering(fixture_open(BATCHES_OF_4 "sequence_batching { } ", 1, true), true);
}

static void test_batches_are_gathered_until_the_flush(void **state) {
        (void)state;
        expect_gathering(fixture_open(BATCHES_OF_4 "dynamic_batching { } ", 1, true), false);
}

/* Returns true when the flush ran all ten requests here, in more than one batch. */
static bool flush_runs_ten(struct fixture *fixture) {
        struct ticket *t = tickets_new(fixture, 10);
        unsigned       n_before = FIXTURE_GET(fixture, fixture->n_batches), n_here = 0;
        bool           is_few;

        for (unsigned i = 0; i < 10; i++)
                ticket_submit(&t[i]);
        infer_thread_flush_wakes();
        for (unsigned i = 0; i < 10; i++) {
                assert_success(&t[i]);
                n_here += pthread_equal(FIXTURE_GET(fixture, t[i].ran_on), pthread_self()) != 0;
        }
        is_few = FIXTURE_GET(fixture, fixture->n_batches) == n_before + 3;
        tickets_end(t, 10);
        return is_few && n_here == 10;
}

/* The requests that remain after a batch also run here, within the time limit of one event. */
static void test_the_flush_runs_several_batches(void **state) {
        struct fixture *fixture = fixture_open(BATCHES_OF_4 "dynamic_batching { } ", 1, true);
        uint64_t        give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;

        (void)state;
        while (!flush_runs_ten(fixture))
                if (clock_now_ns() > give_up_ns)
                        fail_msg("the flush never runs the ten that were submitted");
        fixture_close(fixture);
}

static struct error *make_members(const struct sched_setup *setup, struct scheduler **ret) {
        setup->executors[0]->max_rows = 1;
        setup->executors[1]->min_rows = 4;
        return sched_new(setup, ret);
}

static void test_batches_of_members_are_gathered_until_the_flush(void **state) {
        (void)state;
        expect_gathering(fixture_open_made(BATCHES_OF_4 "dynamic_batching { } ", 2, true, NULL,
                                           make_members),
                         false);
}

SUITE(run_to_completion) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_always),
                cmocka_unit_test(test_not_with_copies_of_devices),
                cmocka_unit_test(test_never),
                cmocka_unit_test(test_not_for_an_executor_that_is_bound),
                cmocka_unit_test(test_auto_needs_an_executor_that_allows_it),
                cmocka_unit_test(test_auto_needs_the_thread_to_allow_it),
                cmocka_unit_test(test_auto_follows_the_time),
                cmocka_unit_test(test_a_step_ends_when_its_backend_says),
                cmocka_unit_test(test_waiting_batch_runs_with_the_request_that_completes_it),
                cmocka_unit_test(test_not_nested),
                cmocka_unit_test(test_delay_is_kept_while_an_instance_is_borrowed),
                cmocka_unit_test(test_rest_runs_while_an_instance_is_borrowed),
                cmocka_unit_test(test_free_waits_for_a_borrowed_instance),
                cmocka_unit_test(test_a_deferred_wake_up_defers_the_decision),
                cmocka_unit_test(test_slots_are_gathered_until_the_flush),
                cmocka_unit_test(test_batches_are_gathered_until_the_flush),
                cmocka_unit_test(test_batches_of_members_are_gathered_until_the_flush),
                cmocka_unit_test(test_the_flush_runs_several_batches),
        };

        infer_thread_allow_inline(true);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
