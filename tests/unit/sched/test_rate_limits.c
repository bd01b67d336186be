/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedulers with a rate limiter and real threads: two models that share one resource, batches that are
 * formed when the permit is given, and permits that no instance needs any more.
 */
#include "suite.h"

#include "sched/rate_limiter.h"
#include "sched/scheduler_fixture.h"

#include <stdatomic.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define MODEL "name: 'm' max_batch_size: 8 " X
#define DYNAMIC MODEL "dynamic_batching {} "
#define DYNAMIC_TIMEOUT                                                                            \
        MODEL "dynamic_batching { default_queue_policy { allow_timeout_override: true "            \
              "default_timeout_microseconds: 60000000 } } "
#define ALWAYS "parameters { key: 'inline_execution' value { string_value: 'always' } } "

#define GROUP(limits) "instance_group { rate_limiter { " limits " } } "
#define R(count) "resources { name: 'R' count: " count " } "
#define PRIORITY_2 "priority: 2 "
#define S(count) "resources { name: 'S' count: " count " } "

/* Two models with one limiter. */
struct pair {
        struct rate_limiter *limiter;
        struct fixture      *a, *b;
};

static void pair_open(struct pair *p, const char *a, const char *b, unsigned n_executors) {
        p->limiter = rate_limiter_new(NULL, 0);
        p->a = fixture_open_limited(a, n_executors, true, p->limiter);
        p->b = fixture_open_limited(b, n_executors, true, p->limiter);
}

static void pair_close(struct pair *p) {
        fixture_close(p->a);
        fixture_close(p->b);
        rate_limiter_free(p->limiter);
}

static void submit_all(struct ticket *tickets, unsigned first, unsigned end) {
        for (unsigned i = first; i < end; i++)
                ticket_submit(&tickets[i]);
}

static void test_a_batch_forms_when_its_permit_comes(void **state) {
        struct pair    p;
        struct ticket *a, *b;

        (void)state;
        pair_open(&p, DYNAMIC GROUP(R("1")), DYNAMIC GROUP(R("1")), 1);
        a = tickets_new(p.a, 1);
        b = tickets_new(p.b, 8);
        hold(p.a, 0);
        ticket_submit(&a[0]);
        assert_batch(p.a, 0, "a");
        submit_all(b, 0, 8); /* its instance is idle but has no permit */
        assert_int_equal(FIXTURE_GET(p.b, p.b->n_batches), 0);
        let_go(p.a, 0);
        assert_batch(p.b, 0, "abcdefgh");
        tickets_end(a, 1);
        tickets_end(b, 8);
        pair_close(&p);
}

/* An instance is not idle until its thread has started. Submits requests until one runs on this
 * thread. */
static void settle(struct fixture *fixture) {
        uint64_t give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;
        bool     is_here = false;

        while (!is_here) {
                struct ticket *t = tickets_new(fixture, 1);

                ticket_submit(t);
                assert_success(t);
                is_here = pthread_equal(FIXTURE_GET(fixture, t->ran_on), pthread_self());
                tickets_end(t, 1);
                assert_true(clock_now_ns() < give_up_ns);
        }
}

static void test_runs_here_only_with_a_permit_at_once(void **state) {
        struct pair    p;
        struct ticket *a, *b;
        unsigned       n_batches;

        (void)state;
        pair_open(&p, DYNAMIC ALWAYS GROUP(R("1")), MODEL GROUP(R("1")), 1);
        settle(p.a);
        a = tickets_new(p.a, 2);
        b = tickets_new(p.b, 1);
        ticket_submit(&a[0]);
        assert_int_equal(FIXTURE_GET(p.a, a[0].n_releases), 1);
        assert_true(pthread_equal(a[0].ran_on, pthread_self()));
        hold(p.b, 0);
        ticket_submit(&b[0]);
        assert_batch(p.b, 0, "a");
        n_batches = FIXTURE_GET(p.a, p.a->n_batches);
        ticket_submit(&a[1]);
        assert_int_equal(FIXTURE_GET(p.a, p.a->n_batches), n_batches);
        let_go(p.b, 0);
        assert_success(&a[1]);
        assert_false(pthread_equal(FIXTURE_GET(p.a, a[1].ran_on), pthread_self()));
        tickets_end(a, 2);
        tickets_end(b, 1);
        pair_close(&p);
}

static void test_the_instance_that_may_run_does(void **state) {
        struct pair    p;
        struct ticket *a, *b;

        (void)state;
        pair_open(&p, MODEL GROUP(R("1")) GROUP(S("1")), MODEL GROUP(R("1")) GROUP(R("1")), 2);
        a = tickets_new(p.a, 3);
        b = tickets_new(p.b, 1);
        hold(p.b, 0);
        hold(p.b, 1);
        ticket_submit(&b[0]);
        assert_batch(p.b, 0, "a");
        for (unsigned i = 0; i < 3; i++) { /* only the resource of the second one is free */
                ticket_submit(&a[i]);
                assert_success(&a[i]);
                assert_int_equal(FIXTURE_GET(p.a, p.a->batches[i].executor), 1);
        }
        let_go(p.b, 0);
        let_go(p.b, 1);
        tickets_end(a, 3);
        tickets_end(b, 1);
        pair_close(&p);
}

#define SMALL MODEL GROUP(R("1")) GROUP(R("1"))
#define LARGE(text) MODEL "dynamic_batching { " text " } " GROUP(R("2")) GROUP(R("2"))
#define TIMEOUT_20_MS "default_queue_policy { default_timeout_microseconds: 20000 } "

/* A small need runs, and a large one waits. A second small need must not overtake it. Then the
 * large one withdraws. */
static void give_up(const char *large, bool by_cancel) {
        struct pair    p;
        struct ticket *a, *b;

        pair_open(&p, SMALL, large, 2);
        a = tickets_new(p.a, 2);
        b = tickets_new(p.b, 1);
        hold(p.a, 0);
        hold(p.a, 1);
        ticket_submit(&a[0]);
        assert_batch(p.a, 0, "a");
        ticket_submit(&b[0]);
        ticket_submit(&a[1]);
        if (by_cancel) {
                request_cancel(b[0].req);
                assert_answer(&b[0], ERR_CANCELLED, "");
        } else {
                assert_answer(&b[0], ERR_UNAVAILABLE, "Request timeout expired");
        }
        assert_batch(p.a, 1, "b");
        assert_int_equal(FIXTURE_GET(p.b, p.b->n_batches), 0);
        let_go(p.a, 0);
        let_go(p.a, 1);
        tickets_end(a, 2);
        tickets_end(b, 1);
        pair_close(&p);
}

static void test_cancelled_while_waiting(void **state) {
        (void)state;
        give_up(LARGE(""), true);
}

static void test_expired_while_waiting(void **state) {
        (void)state;
        give_up(LARGE(TIMEOUT_20_MS), false);
}

/* Instances leave while the model waits for a permit. The last one gets it. */
static void test_an_instance_leaves_while_waiting(void **state) {
        struct pair       p;
        struct scheduler *s;
        struct ticket    *a, *b;

        (void)state;
        pair_open(&p, SMALL, LARGE(""), 2);
        a = tickets_new(p.a, 1);
        b = tickets_new(p.b, 1);
        s = p.b->scheduler;
        hold(p.a, 0);
        hold(p.a, 1);
        ticket_submit(&a[0]);
        assert_batch(p.a, 0, "a");
        ticket_submit(&b[0]);
        s->ops->remove_executor(s, &p.b->executors[0].base);
        assert_int_equal(FIXTURE_GET(p.b, p.b->n_batches), 0);
        let_go(p.a, 0);
        let_go(p.a, 1);
        assert_batch(p.b, 0, "a");
        assert_int_equal(FIXTURE_GET(p.b, p.b->batches[0].executor), 1);
        tickets_end(a, 1);
        tickets_end(b, 1);
        pair_close(&p);
}

static void test_an_instance_that_cannot_join_is_refused(void **state) {
        struct rate_limiter *l = rate_limiter_new(&(struct rate_supply){ "R", 1, -1 }, 1);
        struct fixture      *fixture = fixture_open_limited(MODEL GROUP(R("1")), 1, false, l);
        struct fake_model   *large = fake_model_new(MODEL GROUP(R("2")));
        struct scheduler    *s = fixture->scheduler;
        struct ticket       *t = tickets_new(fixture, 1);
        struct executor      second = fixture->executors[0].base;

        (void)state;
        second.limits = large->model.config->pb->instance_group[0]->rate_limiter;
        assert_error(
                s->ops->add_executor(s, &second), ERR_INVALID_ARG,
                "Resource count for \"R\" is limited to 1 which will prevent scheduling of one "
                "or more model instances, the minimum required count is 2");
        ticket_submit(&t[0]);
        assert_success(&t[0]);
        tickets_end(t, 1);
        fixture_close(fixture);
        fake_model_free(large);
        rate_limiter_free(l);
}

/* ---- everything at once --------------------------------------------------------------------- */

#define N_EACH 400

static atomic_int n_running, n_overlaps;

static void execute_alone(struct executor *e, struct request **requests, uint32_t n) {
        if (atomic_fetch_add(&n_running, 1) != 0)
                atomic_fetch_add(&n_overlaps, 1);
        fixture_execute(e, requests, n);
        atomic_fetch_sub(&n_running, 1);
}

static const struct executor_ops lone_ops = { .execute = execute_alone,
                                              .is_ready = fixture_is_ready };

struct infer_thread {
        struct thread  thread;
        struct ticket *tickets; /* N_EACH */
        unsigned       n_refused;
};

static void infer_thread_main(void *arg) {
        struct infer_thread *s = arg;

        for (unsigned i = 0; i < N_EACH; i++) {
                struct error *err = ticket_try_submit(&s->tickets[i]);

                s->n_refused += err != NULL;
                error_free(err);
                if (i % 5 == 0)
                        request_cancel(s->tickets[i - i % 3].req);
        }
}

static void infer_thread_start(struct infer_thread *s, struct fixture *fixture) {
        *s = (struct infer_thread){ .tickets = calloc(N_EACH, sizeof(*s->tickets)) };
        assert_non_null(s->tickets);
        for (unsigned i = 0; i < N_EACH; i++) {
                ticket_init(&s->tickets[i], fixture, "s");
                s->tickets[i].req->timeout_us = i % 4 == 0 ? 1 + i % 300 : 0;
        }
        assert_ok(thread_start(&s->thread, "submitter", infer_thread_main, s), "thread");
}

/* One unit for all four instances of two models: at most one execution at a time, and each request
 * ends once. */
static void test_one_unit_under_traffic(void **state) {
        struct pair         p;
        struct infer_thread submitters[4];

        (void)state;
        pair_open(&p, DYNAMIC ALWAYS GROUP(R("1") PRIORITY_2) GROUP(R("1")),
                  DYNAMIC_TIMEOUT ALWAYS GROUP(R("1")) GROUP(R("1")), 2);
        for (unsigned i = 0; i < 2; i++)
                p.a->executors[i].base.ops = p.b->executors[i].base.ops = &lone_ops;
        for (unsigned i = 0; i < 4; i++)
                infer_thread_start(&submitters[i], i % 2 == 0 ? p.a : p.b);
        for (unsigned i = 0; i < 4; i++) {
                thread_join(&submitters[i].thread);
                assert_int_equal(submitters[i].n_refused, 0);
        }
        for (unsigned i = 0; i < 4; i++)
                tickets_end(submitters[i].tickets, N_EACH);
        assert_int_equal(atomic_load(&n_overlaps), 0);
        pair_close(&p);
        assert_int_equal(atomic_load(&n_running), 0);
}

SUITE(rate_limits) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_batch_forms_when_its_permit_comes),
                cmocka_unit_test(test_runs_here_only_with_a_permit_at_once),
                cmocka_unit_test(test_the_instance_that_may_run_does),
                cmocka_unit_test(test_cancelled_while_waiting),
                cmocka_unit_test(test_expired_while_waiting),
                cmocka_unit_test(test_an_instance_leaves_while_waiting),
                cmocka_unit_test(test_an_instance_that_cannot_join_is_refused),
                cmocka_unit_test(test_one_unit_under_traffic),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
