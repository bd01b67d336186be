/* SPDX-License-Identifier: BSD-3-Clause */
/* Members with batch ranges on real threads and fake executors: a batch runs on the instance that it was
 * assigned to, and requests run in parts and are answered once. The same holds under a rate limiter and
 * while instances come and go.
 */
#include "suite.h"

#include "base/placement.h"
#include "config/batching_config.h"
#include "infer/infer_thread.h"
#include "observe/batch_counts.h"
#include "sched/instance.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/rate_limiter.h"
#include "sched/scheduler_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define P(key, value) "parameters { key: '" key "' value { string_value: '" value "' } } "
#define GROUPS "instance_group [ { name: 'b1' }, { name: 'b4' }, { name: 'b8' } ] "
#define RANGES P("batch_ranges", "b1:1-1,b4:4-4,b8:8-8")
#define MODEL "name: 'm' max_batch_size: 8 " X GROUPS RANGES
#define NEVER P("inline_execution", "never")
#define ALWAYS P("inline_execution", "always")
#define OFF P("adaptive_batching", "off")

static const uint32_t ranges[FIXTURE_MAX_EXECUTORS][2] = { { 1, 1 }, { 4, 4 }, { 8, 8 }, { 8, 8 } };

/* The executors get their ranges before the scheduler sees them. */
static struct error *make(const struct sched_setup *setup, struct scheduler **ret) {
        for (uint32_t i = 0; i < setup->n_executors; i++) {
                setup->executors[i]->min_rows = ranges[i][0];
                setup->executors[i]->max_rows = ranges[i][1];
        }
        return sched_new(setup, ret);
}

static struct fixture *open_fixture(const char *config) {
        return fixture_open_made(config, 3, false, NULL, make);
}

static void hold_all(struct fixture *fixture, bool is_held) {
        for (unsigned i = 0; i < fixture->n_executors; i++)
                FIXTURE_SET(fixture, fixture->executors[i].is_held, is_held);
}

static unsigned executor_of(struct fixture *fixture, unsigned batch) {
        WAIT_FOR(fixture, fixture->n_batches > batch);
        return FIXTURE_GET(fixture, fixture->batches[batch].executor);
}

static unsigned n_wrong_sizes;

/* Called with the fixture's lock. */
static void check_size(struct fake_executor *e, struct request **requests, uint32_t n) {
        uint64_t rows = 0;

        for (uint32_t i = 0; i < n; i++)
                rows += request_rows(requests[i]);
        n_wrong_sizes += rows < e->base.min_rows || rows > e->base.max_rows;
}

static void test_assigned_batches_run_on_their_members(void **state) {
        struct fixture *fixture = open_fixture(MODEL NEVER "dynamic_batching { } " OFF);
        struct ticket  *t = tickets_new(fixture, 26);
        unsigned        n_rows = 0;

        (void)state;
        hold_all(fixture, true);
        for (unsigned i = 0; i < 26; i++)
                ticket_submit(&t[i]);
        hold_all(fixture, false);
        for (unsigned i = 0; i < 26; i++)
                assert_success(&t[i]);
        for (unsigned i = 0; i < FIXTURE_GET(fixture, fixture->n_batches); i++) {
                unsigned on = executor_of(fixture, i);

                assert_int_equal(FIXTURE_GET(fixture, fixture->batches[i].n), ranges[on][0]);
                n_rows += ranges[on][0];
        }
        assert_int_equal(n_rows, 26);
        tickets_end(t, 26);
        fixture_close(fixture);
}

/* A request of so many rows. */
static void ticket_init_rows(struct ticket *t, struct fixture *fixture, int64_t rows) {
        struct request *req;

        ticket_init(t, fixture, "r");
        req = t->req;
        request_remove_all_inputs(req);
        add_zeroed_input(req, "X", DATA_TYPE_FP32, (int64_t[]){ rows, 1 }, 2);
        assert_ok(request_prepare(req), "prepare");
}

static void test_a_cancelled_request_in_parts(void **state) {
        struct fixture *fixture = open_fixture(MODEL NEVER "dynamic_batching { } " OFF);
        struct ticket   t;

        (void)state;
        hold_all(fixture, true);
        ticket_init_rows(&t, fixture, 3);
        ticket_submit(&t);
        WAIT_FOR(fixture, fixture->n_batches == 1); /* one row runs, two wait */
        request_cancel(t.req);
        hold_all(fixture, false);
        assert_answer(&t, ERR_CANCELLED, "");
        WAIT_FOR(fixture, t.n_releases == 1);
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 1);
        request_free(t.req);
        fixture_close(fixture);
}

/* Five of thirteen requests are cancelled before anything runs. The other eight are one batch. */
static void test_43_five_of_thirteen_are_cancelled(void **state) {
        struct fixture *fixture =
                open_fixture(MODEL NEVER OFF "dynamic_batching { "
                                             "max_queue_delay_microseconds: 3600000000 } ");
        struct ticket *t = tickets_new(fixture, 13);

        (void)state;
        for (unsigned i = 0; i < 5; i++)
                ticket_submit(&t[i]);
        for (unsigned i = 0; i < 5; i++)
                request_cancel(t[i].req);
        for (unsigned i = 5; i < 13; i++)
                ticket_submit(&t[i]);
        assert_batch(fixture, 0, "fghijklm");
        for (unsigned i = 0; i < 5; i++)
                assert_answer(&t[i], ERR_CANCELLED, "");
        for (unsigned i = 5; i < 13; i++)
                assert_success(&t[i]);
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 1);
        tickets_end(t, 13);
        fixture_close(fixture);
}

/* ---- the limiter chooses no other member ------------------------------------------------------- */

#define LIMITED                                                                                    \
        "name: 'm' max_batch_size: 8 " X                                                           \
        "instance_group [ { name: 'b1' rate_limiter { resources { "                                \
        "name: 'R' count: 1 } } }, { name: 'b4' rate_limiter { resources { name: 'R' count: 1 } "  \
        "} }, "                                                                                    \
        "{ name: 'b8' rate_limiter { resources { name: 'R' count: 1 } } } ] " RANGES

static void test_a_permit_is_for_the_member_that_was_chosen(void **state) {
        /* one unit of R for all instances */
        struct rate_limiter *limiter = rate_limiter_new(NULL, 0);
        struct fixture      *fixture =
                fixture_open_made(LIMITED NEVER OFF "dynamic_batching { "
                                                    "max_queue_delay_microseconds: 3600000000 } ",
                                  3, false, limiter, make);
        struct ticket *t = tickets_new(fixture, 24);

        (void)state;
        fixture->before_batch = check_size;
        for (unsigned i = 0; i < 24; i++)
                ticket_submit(&t[i]);
        for (unsigned i = 0; i < 24; i++)
                assert_success(&t[i]);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(executor_of(fixture, i), 2);
                assert_int_equal(FIXTURE_GET(fixture, fixture->batches[i].n), 8);
        }
        tickets_end(t, 24);
        fixture_close(fixture);
        rate_limiter_free(limiter);
        assert_int_equal(n_wrong_sizes, 0);
}

/* ---- the end while a batch still runs -------------------------------------------------------- */

/* As make(), with counters of the members. */
static struct error *make_counted(const struct sched_setup *setup, struct scheduler **ret) {
        struct fake_model *fake = CONTAINER_OF(setup->model, struct fake_model, model);

        model_stats_free(fake->model.stats);
        fake->model.stats =
                model_stats_new(fake->metrics,
                                &(struct model_stats_options){
                                        .model = "m", .version = 1, .has_batches = true });
        for (uint32_t i = 0; i < setup->n_executors; i++)
                setup->executors[i]->group_name = setup->model->config->pb->instance_group[i]->name;
        return make(setup, ret);
}

static struct {
        struct thread         thread;
        struct fixture       *fixture;
        struct member_counts *other;
        bool                  was_freed;
} closing;

static void free_scheduler(void *arg) {
        struct scheduler *s = arg;

        s->ops->free(s);
}

/* The client frees its request, and the model ends, before the execution does. */
static void execute_and_close(struct executor *base, struct request **requests, uint32_t n) {
        struct scheduler *s = closing.fixture->scheduler;
        uint64_t          until_ns = clock_now_ns() + 50 * NS_PER_MS;

        fixture_execute(base, requests, n);
        error_free(thread_start(&closing.thread, "closer", free_scheduler, s));
        while (clock_now_ns() < until_ns && atomic_load(&closing.other->n_instances) > 0)
                continue;
        closing.was_freed = atomic_load(&closing.other->n_instances) == 0;
}

/* The first instance is idle, and stays until the second one has returned its permit: the engine goes
 * through all instances then. */
static void test_the_end_while_a_batch_runs(void **state) {
        static const struct executor_ops ops = { .execute = execute_and_close,
                                                 .is_ready = fixture_is_ready };
        struct rate_limiter             *limiter = rate_limiter_new(NULL, 0);
        struct fixture *fixture = fixture_open_made(LIMITED ALWAYS OFF "dynamic_batching { } ", 3,
                                                    true, limiter, make_counted);
        struct ticket   t;

        (void)state;
        closing.fixture = fixture;
        closing.other = batch_counts_member(model_stats_batches(fixture->fake->model.stats), "b1");
        assert_int_equal(atomic_load(&closing.other->n_instances), 1);
        fixture->executors[1].base.ops = &ops;
        ticket_init_rows(&t, fixture, 4);
        ticket_submit(&t);
        assert_int_equal(t.n_releases, 1);
        assert_true(pthread_equal(t.ran_on, pthread_self()));
        assert_false(closing.was_freed);
        thread_join(&closing.thread);
        fixture->scheduler = NULL;
        request_free(t.req);
        fixture_close(fixture);
        rate_limiter_free(limiter);
}

/* ---- an instance whose thread cannot be started ---------------------------------------------- */

/* Each new instance but the first gets the first request that waits. */
static void assign_first(struct policy *p, const struct sched_view *view, struct instance *in) {
        struct queue_walk w = queue_walk_begin(view->queue);
        struct request   *req = queue_walk_next(&w);

        if (req == NULL)
                return;
        instance_begin_batch(in);
        instance_take_rows(in, view->queue, req, request_rows(req));
        policy_assign(p, in);
}

static struct dispatch run_assigned(struct policy *p, const struct sched_view *view,
                                    uint64_t now_ns) {
        struct instance *in = policy_find_assigned(p, view);

        (void)now_ns;
        if (in == NULL)
                return (struct dispatch){ .verdict = BATCH_NOTHING };
        return (struct dispatch){ .verdict = BATCH_RUN, .on = in, .n_requests = in->n_items };
}

static void free_nothing(struct policy *p) {
        (void)p;
}

static struct error *make_assigning(const struct sched_setup *setup, struct scheduler **ret) {
        static const struct policy_ops      ops = { .decide = run_assigned,
                                                    .instance_joined = assign_first,
                                                    .free = free_nothing };
        static const struct batching_config none = { 0 };
        static struct policy                policy;
        struct pull_options                 options = { .model = setup->model,
                                                        .executors = setup->executors,
                                                        .n_executors = setup->n_executors,
                                                        .timers = setup->timers,
                                                        .policy = &policy };

        policy = (struct policy){ .ops = &ops, .limits = &none, .assigns_batches = true };
        return pull_engine_new(&options, ret);
}

static void test_an_instance_that_cannot_start(void **state) {
        struct fixture  *fixture = fixture_open_made(MODEL NEVER, 1, false, NULL, make_assigning);
        struct executor *other = &fixture->executors[1].base;
        struct placement nowhere = { .has_cores = true, .needs_each_core = true };
        struct ticket    t;
        struct error    *err;

        (void)state;
        fixture->executors[1] = fixture->executors[0];
        ticket_init(&t, fixture, "a");
        ticket_submit(&t);
        other->place = &nowhere; /* no core at all */
        err = fixture->scheduler->ops->add_executor(fixture->scheduler, other);
        assert_non_null(err);
        error_free(err);
        other->place = NULL;
        assert_ok(fixture->scheduler->ops->add_executor(fixture->scheduler, other), "add");
        assert_success(&t);
        WAIT_FOR(fixture, t.n_releases == 1);
        assert_int_equal(executor_of(fixture, 0), 1);
        request_free(t.req);
        fixture_close(fixture);
}

/* ---- under traffic --------------------------------------------------------------------------- */

#define N_SUBMITTERS 4
#define N_EACH 400
#define N_AT_ONCE 24
#define MIN_CHANGES 8

struct traffic {
        struct thread   thread;
        struct fixture *fixture;
        struct ticket  *tickets;
        bool            allows_inline;
        bool            is_stuck;
};

static void traffic_main(void *arg) {
        struct traffic *s = arg;

        infer_thread_allow_inline(s->allows_inline);
        for (unsigned i = 0; i < N_EACH && !s->is_stuck; i++) {
                struct error *err = ticket_try_submit(&s->tickets[i]);

                if (err != NULL) {
                        s->is_stuck = true;
                        error_free(err);
                        return;
                }
                if (i % 7 == 0)
                        request_cancel(s->tickets[i - i % 3].req);
                if (i >= N_AT_ONCE)
                        s->is_stuck |= !ticket_wait_released(&s->tickets[i - N_AT_ONCE]);
        }
        for (unsigned i = 0; i < N_EACH && !s->is_stuck; i++)
                s->is_stuck |= !ticket_wait_released(&s->tickets[i]);
}

struct changer {
        struct thread   thread;
        struct fixture *fixture;
        atomic_bool     is_ending;
        bool            has_failed;
};

/* The second member for eight rows is added and removed. */
static void changer_main(void *arg) {
        struct changer   *c = arg;
        struct scheduler *s = c->fixture->scheduler;
        struct executor  *e = &c->fixture->executors[3].base;
        bool              is_there = true;

        for (unsigned n = 0; n < MIN_CHANGES || !atomic_load(&c->is_ending); n++) {
                if (is_there) {
                        s->ops->remove_executor(s, e);
                } else {
                        struct error *err = s->ops->add_executor(s, e);

                        c->has_failed |= err != NULL;
                        error_free(err);
                }
                is_there = !is_there;
        }
}

static void run_traffic(const char *config, bool may_inline, struct rate_limiter *limiter,
                        bool changes) {
        struct fixture *fixture = fixture_open_made(config, 4, may_inline, limiter, make);
        struct traffic  traffic[N_SUBMITTERS];
        struct changer  changer = { .fixture = fixture };

        fixture->before_batch = check_size;
        for (unsigned i = 0; i < N_SUBMITTERS; i++) {
                traffic[i] = (struct traffic){ .fixture = fixture, .allows_inline = i % 2 == 0 };
                traffic[i].tickets = calloc(N_EACH, sizeof(struct ticket));
                assert_non_null(traffic[i].tickets);
                for (unsigned k = 0; k < N_EACH; k++) {
                        ticket_init_rows(&traffic[i].tickets[k], fixture, 1 + (k * 5 + i) % 8);
                        traffic[i].tickets[k].req->priority = k % 4;
                        traffic[i].tickets[k].req->timeout_us = k % 3 == 0 ? 1 + k % 200 : 0;
                }
        }
        if (changes)
                assert_ok(thread_start(&changer.thread, "changer", changer_main, &changer),
                          "thread");
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                assert_ok(thread_start(&traffic[i].thread, "traffic", traffic_main, &traffic[i]),
                          "thread");
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                thread_join(&traffic[i].thread);
        if (changes) {
                atomic_store(&changer.is_ending, true);
                thread_join(&changer.thread);
                assert_false(changer.has_failed);
        }
        for (unsigned i = 0; i < N_SUBMITTERS; i++) {
                assert_false(traffic[i].is_stuck);
                for (unsigned k = 0; k < N_EACH; k++) {
                        assert_int_equal(traffic[i].tickets[k].n_finals, 1);
                        assert_int_equal(traffic[i].tickets[k].n_responses, 1);
                        assert_int_equal(traffic[i].tickets[k].n_releases, 1);
                        request_free(traffic[i].tickets[k].req);
                }
                free(traffic[i].tickets);
        }
        fixture_close(fixture);
        assert_int_equal(n_wrong_sizes, 0);
}

#define QUEUES                                                                                     \
        "dynamic_batching { max_queue_delay_microseconds: 300 priority_levels: 3 "                 \
        "default_priority_level: 2 default_queue_policy { default_timeout_microseconds: 2000 "     \
        "allow_timeout_override: true } } "
static void test_traffic(void **state) {
        (void)state;
        run_traffic(MODEL NEVER QUEUES, true, NULL, false);
        run_traffic(MODEL ALWAYS QUEUES, true, NULL, true);
        run_traffic(MODEL P("member_concurrency", "exclusive") QUEUES, true, NULL, true);
        run_traffic(MODEL "dynamic_batching { preserve_ordering: true } ", true, NULL, true);
}

static void test_traffic_with_a_limiter(void **state) {
        struct rate_supply   supply = { "R", 2, -1 };
        struct rate_limiter *limiter = rate_limiter_new(&supply, 1);

        (void)state;
        run_traffic(LIMITED NEVER QUEUES, true, limiter, false);
        run_traffic(LIMITED ALWAYS QUEUES, true, limiter, true);
        rate_limiter_free(limiter);
}

SUITE(pull_assigned) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_assigned_batches_run_on_their_members),
                cmocka_unit_test(test_a_cancelled_request_in_parts),
                cmocka_unit_test(test_43_five_of_thirteen_are_cancelled),
                cmocka_unit_test(test_a_permit_is_for_the_member_that_was_chosen),
                cmocka_unit_test(test_the_end_while_a_batch_runs),
                cmocka_unit_test(test_an_instance_that_cannot_start),
                cmocka_unit_test(test_traffic),
                cmocka_unit_test(test_traffic_with_a_limiter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
