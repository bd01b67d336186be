/* SPDX-License-Identifier: BSD-3-Clause */
/* The default scheduler and the dynamic batcher with real threads and fake executors.
 * test_run_to_completion.c tests execution on the submitter's thread.
 */
#include "suite.h"

#include "observe/load_meter.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/scheduler_fixture.h"

#include <pthread.h>
#include <stdlib.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define UNBATCHED "name: 'm' " X
#define DEFAULT "name: 'm' max_batch_size: 8 " X
#define DYNAMIC(text) DEFAULT "dynamic_batching { " text " } "
#define TIMEOUT_20_MS "default_queue_policy { default_timeout_microseconds: 20000 } "
/* A request with priority 1 waits without a limit. */
#define FIRST_HAS_TIME                                                                             \
        "priority_levels: 2 default_priority_level: 2 priority_queue_policy { key: 1 value { } } "
#define DELAY_IF_ASKED                                                                             \
        "default_queue_policy { timeout_action: DELAY allow_timeout_override: true "               \
        "default_timeout_microseconds: 3600000000 } "

static void submit_all(struct ticket *tickets, unsigned first, unsigned end) {
        for (unsigned i = first; i < end; i++)
                ticket_submit(&tickets[i]);
}

/* ---- the default scheduler ------------------------------------------------------------------- */

static void run_one_by_one(const char *config) {
        struct fixture *fixture = fixture_open(config, 1, false);
        struct ticket  *t = tickets_new(fixture, 6);

        hold(fixture, 0);
        submit_all(t, 0, 6);
        assert_batch(fixture, 0, "a");
        let_go(fixture, 0);
        for (unsigned i = 0; i < 6; i++)
                assert_success(&t[i]);
        for (unsigned i = 0; i < 6; i++) {
                assert_batch(fixture, i, (char[]){ (char)('a' + i), 0 });
                assert_int_equal(t[i].place, i + 1);
        }
        tickets_end(t, 6);
        fixture_close(fixture);
}

static void test_default_is_first_come_first_served(void **state) {
        (void)state;
        run_one_by_one(UNBATCHED);
        run_one_by_one(DEFAULT); /* a maximum alone is no reason to batch */
}

static void test_any_idle_instance_takes_the_next(void **state) {
        struct fixture *fixture = fixture_open(UNBATCHED, 3, false);
        struct ticket  *t = tickets_new(fixture, 8);
        unsigned        busy;

        (void)state;
        for (unsigned i = 0; i < 3; i++)
                hold(fixture, i);
        submit_all(t, 0, 8);
        WAIT_FOR(fixture, fixture->n_batches == 3);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(FIXTURE_GET(fixture, fixture->executors[i].n_started), 1);

        /* One instance serves all other requests in order while two stay busy. */
        busy = FIXTURE_GET(fixture, fixture->batches[1].executor);
        let_go(fixture, busy);
        WAIT_FOR(fixture, fixture->n_released == 6);
        assert_int_equal(FIXTURE_GET(fixture, fixture->executors[busy].n_started), 6);
        for (unsigned i = 3; i < 8; i++)
                assert_batch(fixture, i, (char[]){ (char)('a' + i), 0 });
        for (unsigned i = 0; i < 3; i++)
                let_go(fixture, i);
        tickets_end(t, 8);
        fixture_close(fixture);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void test_batches_form_while_the_executor_is_busy(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC(""), 1, false);
        struct ticket  *t = tickets_new(fixture, 12);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        submit_all(t, 1, 12);
        let_go(fixture, 0);
        assert_batch(fixture, 1, "bcdefghi");
        assert_batch(fixture, 2, "jkl");
        tickets_end(t, 12);
        fixture_close(fixture);
}

static void test_preferred_size_runs_without_the_delay(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC("preferred_batch_size: 3 "
                                                       "max_queue_delay_microseconds: 3600000000"),
                                               2, false);
        struct ticket  *t = tickets_new(fixture, 6);

        (void)state;
        submit_all(t, 0, 3);
        /* the second one only then, since two executors start in any order */
        assert_batch(fixture, 0, "abc");
        submit_all(t, 3, 6);
        assert_batch(fixture, 1, "def");
        tickets_end(t, 6);
        fixture_close(fixture);
}

static void test_delay_runs_what_is_there(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("max_queue_delay_microseconds: 30000"), 2, false);
        struct ticket *t = tickets_new(fixture, 3);
        uint64_t       start_ns = clock_now_ns();

        (void)state;
        hold(fixture, 0);
        hold(fixture, 1);
        ticket_submit(&t[0]);
        WAIT_FOR(fixture, fixture->n_batches == 1);
        assert_in_range(clock_now_ns() - start_ns, 30 * NS_PER_MS, UINT64_MAX);
        assert_batch(fixture, 0, "a");

        /* The remaining instance watches the time of the next ones. */
        start_ns = clock_now_ns();
        ticket_submit(&t[1]);
        ticket_submit(&t[2]);
        WAIT_FOR(fixture, fixture->n_batches == 2);
        assert_in_range(clock_now_ns() - start_ns, 30 * NS_PER_MS, UINT64_MAX);
        let_go(fixture, 0);
        let_go(fixture, 1);
        tickets_end(t, 3);
        fixture_close(fixture);
}

static void test_priorities_overtake(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC("preferred_batch_size: 1 priority_levels: 2 "
                                                       "default_priority_level: 2"),
                                               1, false);
        struct ticket  *t = tickets_new(fixture, 4);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        t[3].req->priority = 1;
        submit_all(t, 1, 4);
        let_go(fixture, 0);
        assert_batch(fixture, 1, "d");
        assert_batch(fixture, 2, "b");
        assert_batch(fixture, 3, "c");
        tickets_end(t, 4);
        fixture_close(fixture);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_timeout_fires_while_the_batch_before_runs(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC(TIMEOUT_20_MS FIRST_HAS_TIME), 1, false);
        struct ticket  *t = tickets_new(fixture, 3);
        struct model_stats_snapshot stats;
        uint64_t                    start_ns;

        (void)state;
        hold(fixture, 0);
        t[0].req->priority = 1;
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        start_ns = clock_now_ns();
        submit_all(t, 1, 3);
        assert_answer(&t[1], ERR_UNAVAILABLE, "Request timeout expired");
        assert_answer(&t[2], ERR_UNAVAILABLE, "Request timeout expired");
        assert_in_range(clock_now_ns() - start_ns, 20 * NS_PER_MS, UINT64_MAX);
        assert_int_equal(FIXTURE_GET(fixture, t[0].n_finals), 0); /* still executing */
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 1);
        let_go(fixture, 0);
        assert_success(&t[0]);
        model_stats_read(fixture->fake->model.stats, &stats);
        assert_int_equal(stats.fail.count, 2);
        model_stats_snapshot_done(&stats);
        tickets_end(t, 3);
        fixture_close(fixture);
}

static void test_delayed_run_after_those_in_time(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("preferred_batch_size: 1 " DELAY_IF_ASKED), 1, false);
        struct ticket *t = tickets_new(fixture, 3);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        t[1].req->timeout_us = 1;
        submit_all(t, 1, 3);
        let_go(fixture, 0);
        assert_batch(fixture, 1, "c");
        assert_batch(fixture, 2, "b");
        assert_success(&t[1]);
        tickets_end(t, 3);
        fixture_close(fixture);
}

static void test_full_queue_refuses_at_once(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("default_queue_policy { max_queue_size: 2 }"), 1, false);
        struct ticket *t = tickets_new(fixture, 4);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a"); /* running requests are not counted */
        submit_all(t, 1, 3);
        assert_error(ticket_try_submit(&t[3]), ERR_UNAVAILABLE,
                     "[request id: d] Exceeds maximum queue size");
        assert_int_equal(FIXTURE_GET(fixture, t[3].n_releases), 0); /* the caller still owns it */
        let_go(fixture, 0);
        assert_batch(fixture, 1, "bc");
        ticket_submit(&t[3]);
        tickets_end(t, 4);
        fixture_close(fixture);
}

static void test_cancel_of_a_queued_request(void **state) {
        struct fixture             *fixture = fixture_open(DYNAMIC(""), 1, false);
        struct ticket              *t = tickets_new(fixture, 4);
        struct model_stats_snapshot stats;

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        submit_all(t, 1, 4);
        request_cancel(t[2].req);
        /* it was answered before request_cancel() returned */
        assert_int_equal(FIXTURE_GET(fixture, t[2].n_releases), 1);
        assert_answer(&t[2], ERR_CANCELLED, "");
        request_cancel(t[2].req); /* a second call has no effect */

        /* For a running request, only the flag is set. */
        request_cancel(t[0].req);
        assert_true(request_is_cancelled(t[0].req));
        assert_int_equal(FIXTURE_GET(fixture, t[0].n_finals), 0);
        let_go(fixture, 0);
        assert_success(&t[0]);
        assert_batch(fixture, 1, "bd");
        model_stats_read(fixture->fake->model.stats, &stats);
        assert_int_equal(stats.fail.count, 1);
        model_stats_snapshot_done(&stats);
        tickets_end(t, 4);
        fixture_close(fixture);
}

/* A program uses a request again while another thread cancels it: the cancellation reaches an engine that the request
 * has left, for another model, or for another instance if it is of a sequence. */
static void test_cancel_of_a_request_in_another_queue(void **state) {
        const struct policy_slots_options slots = { .n_slots = 1 };
        struct fixture                   *fixture = fixture_open(DYNAMIC(""), 1, false);
        struct fixture                   *other = fixture_open(DYNAMIC(""), 1, false);
        struct ticket                    *t = tickets_new(fixture, 2);
        struct scheduler                 *engine;
        const struct pull_options         options = { .model = &fixture->fake->model,
                                                      .timers = fixture->timers,
                                                      .policy = policy_slots_new(&slots) };

        (void)state;
        assert_ok(pull_engine_new(&options, &engine), "engine");
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        ticket_submit(&t[1]);
        other->scheduler->ops->cancel(other->scheduler, t[1].req);
        t[1].req->has_sequence = true;
        engine->ops->cancel(engine, t[1].req);
        t[1].req->has_sequence = false;
        assert_int_equal(FIXTURE_GET(fixture, t[1].n_releases), 0);
        let_go(fixture, 0);
        assert_success(&t[0]);
        assert_success(&t[1]);
        tickets_end(t, 2);
        engine->ops->free(engine);
        fixture_close(other);
        fixture_close(fixture);
}

static void test_cancelled_before_it_is_queued(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC(""), 1, false);
        struct ticket  *t = tickets_new(fixture, 1);

        (void)state;
        request_cancel(t[0].req);
        ticket_submit(&t[0]);
        assert_answer(&t[0], ERR_CANCELLED, "");
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 0);
        tickets_end(t, 1);
        fixture_close(fixture);
}

/* A request whose rows prevent a preferred size is cancelled. The others run at once. */
static void test_cancel_lets_the_others_run(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC("preferred_batch_size: [4, 8] "
                                                       "max_queue_delay_microseconds: 3600000000"),
                                               1, false);
        struct ticket  *t = tickets_new(fixture, 3);

        (void)state;
        t[0].req->batch_size = 3;
        t[1].req->batch_size = 2;
        submit_all(t, 0, 3);         /* the sums are 3, 5, 6 rows: not 4, not 8 */
        fixture_spin(5 * NS_PER_MS); /* most likely the instance watches the time now */
        request_cancel(t[1].req);
        assert_batch(fixture, 0, "ac");
        tickets_end(t, 3);
        fixture_close(fixture);
}

static void test_drain_refuses_and_queued_ones_run(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC(""), 1, false);
        struct ticket  *t = tickets_new(fixture, 4);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        submit_all(t, 1, 3);
        fixture->scheduler->ops->drain(fixture->scheduler);
        assert_error(
                ticket_try_submit(&t[3]), ERR_UNAVAILABLE,
                "[request id: d] Server is stopping, scheduler for model has stopped accepting "
                "new inference requests");
        assert_ok(request_set_id(t[3].req, ""), "no id");
        assert_error(ticket_try_submit(&t[3]), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] Server is stopping, scheduler for model has "
                     "stopped accepting new inference requests");
        let_go(fixture, 0);
        assert_batch(fixture, 1, "bc");
        request_free(t[3].req);
        tickets_end(t, 3);
        fixture_close(fixture);
}

/* ---- watching the time ----------------------------------------------------------------------- */

static struct ticket *late;
static bool           timers_are_held; /* the fixture's lock */

/* Runs on the timer thread: no other timer fires until the test releases it. */
static void hold_timers(struct ticket *t) {
        mutex_lock(&t->fixture->lock);
        while (timers_are_held)
                cond_wait(&t->fixture->changed, &t->fixture->lock);
        mutex_unlock(&t->fixture->lock);
}

static void submit_late(struct ticket *t) {
        (void)t;
        error_free(ticket_try_submit(late)); /* the test waits for its answer */
}

/* An instance is about to watch the time when it first refuses a request. The receiver of that
 * refusal submits a request with a nearer time. The instance must still notice the request that
 * completes the batch. */
static void test_an_instance_that_refuses_watches_afterwards(void **state) {
        struct fixture *fixture =
                fixture_open(DYNAMIC("preferred_batch_size: 3 "
                                     "max_queue_delay_microseconds: 3600000000 "
                                     "default_queue_policy { allow_timeout_override: true "
                                     "default_timeout_microseconds: 36000000000 }"),
                             1, false);
        struct ticket *t = tickets_new(fixture, 6);

        (void)state;
        hold(fixture, 0);
        t[0].req->batch_size = 3;
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        timers_are_held = true;
        t[1].req->timeout_us = 1;
        t[1].after_response = hold_timers;
        ticket_submit(&t[1]);
        WAIT_FOR(fixture, t[1].n_finals == 1);
        t[2].req->timeout_us = 1;
        t[2].after_response = submit_late;
        late = &t[4];
        t[4].req->timeout_us = 1800000000;
        submit_all(t, 2, 4);
        fixture_spin(NS_PER_MS);
        let_go(fixture, 0); /* refuses "c", whose receiver submits "e" */
        assert_answer(&t[2], ERR_UNAVAILABLE, "Request timeout expired");
        fixture_spin(5 * NS_PER_MS); /* most likely the instance watches the time now */
        ticket_submit(&t[5]);
        assert_batch(fixture, 1, "def");
        FIXTURE_SET(fixture, timers_are_held, false);
        tickets_end(t, 6);
        fixture_close(fixture);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Batches "a" and "b" run on two instances; the one that got "b" ends first. */
static void end_in_reverse(const char *config, unsigned place_of_b) {
        struct fixture *fixture = fixture_open(config, 2, false);
        struct ticket  *t = tickets_new(fixture, 2);
        unsigned        with_a, with_b;

        hold(fixture, 0);
        hold(fixture, 1);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        ticket_submit(&t[1]);
        assert_batch(fixture, 1, "b");
        with_a = FIXTURE_GET(fixture, fixture->batches[0].executor);
        with_b = FIXTURE_GET(fixture, fixture->batches[1].executor);
        let_go(fixture, with_b);
        WAIT_FOR(fixture, fixture->executors[with_b].n_answered == 1 && t[1].n_releases == 1);
        if (place_of_b == 2) /* its response waits for that of "a" */
                assert_int_equal(FIXTURE_GET(fixture, t[1].n_finals), 0);
        else
                assert_int_equal(FIXTURE_GET(fixture, t[1].n_finals), 1);
        let_go(fixture, with_a);
        assert_success(&t[0]);
        assert_success(&t[1]);
        assert_int_equal(FIXTURE_GET(fixture, t[1].place), place_of_b);
        tickets_end(t, 2);
        fixture_close(fixture);
}

static void submit_at(struct ticket *t, uint64_t start_ns) {
        struct scheduler *s = t->fixture->scheduler;

        t->req->times.request_start_ns = start_ns;
        atomic_fetch_add(&t->fixture->fake->model.n_in_flight, 1);
        assert_ok(s->ops->submit(s, t->req), t->name);
}

/* A thread that read the clock a little before another one, which came first, does not make the queue
 * disordered. A request that began long before keeps its time. */
static void test_times_of_queueing(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC(""), 1, false);
        struct ticket  *t = tickets_new(fixture, 5);
        uint64_t        now_ns = clock_now_ns();

        (void)state;
        hold(fixture, 0);
        submit_at(&t[0], now_ns);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        submit_at(&t[1], now_ns + 50 * NS_PER_US);
        submit_at(&t[2], now_ns);
        submit_at(&t[3], now_ns - NS_PER_S);
        submit_at(&t[4], now_ns + 60 * NS_PER_US);
        assert_int_equal(t[1].req->times.queue_start_ns, now_ns + 50 * NS_PER_US);
        assert_int_equal(t[2].req->times.queue_start_ns, now_ns + 50 * NS_PER_US);
        assert_int_equal(t[3].req->times.queue_start_ns, now_ns - NS_PER_S);
        assert_int_equal(t[4].req->times.queue_start_ns, now_ns + 60 * NS_PER_US);
        let_go(fixture, 0);
        tickets_end(t, 5);
        fixture_close(fixture);
}

static void test_preserve_ordering(void **state) {
        (void)state;
        end_in_reverse(DYNAMIC("preserve_ordering: true"), 2);
        end_in_reverse(DYNAMIC(""), 1);
        end_in_reverse(DEFAULT, 1);
}

/* Requests that never reach an instance do not delay others. */
static void test_refused_ones_have_no_place_in_the_order(void **state) {
        struct fixture *fixture = fixture_open(DYNAMIC("preserve_ordering: true"), 1, false);
        struct ticket  *t = tickets_new(fixture, 3);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&t[0]);
        assert_batch(fixture, 0, "a");
        submit_all(t, 1, 3);
        request_cancel(t[1].req);
        assert_answer(&t[1], ERR_CANCELLED, "");
        assert_int_equal(FIXTURE_GET(fixture, t[0].n_finals), 0);
        let_go(fixture, 0);
        assert_success(&t[2]);
        tickets_end(t, 3);
        fixture_close(fixture);
}

/* ---- the end --------------------------------------------------------------------------------- */

static pthread_key_t    ended_key;
static _Atomic unsigned n_ended_threads;

static void on_thread_end(void *value) {
        (void)value;
        atomic_fetch_add(&n_ended_threads, 1);
}

static void mark_thread(struct ticket *t) {
        pthread_setspecific(ended_key, t);
}

/* free() returns after the instances' threads have ended. */
static void test_free_joins(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT, 3, false);
        struct ticket  *t = tickets_new(fixture, 3);

        (void)state;
        assert_int_equal(pthread_key_create(&ended_key, on_thread_end), 0);
        for (unsigned i = 0; i < 3; i++) {
                hold(fixture, i);
                t[i].after_response = mark_thread;
        }
        submit_all(t, 0, 3);
        WAIT_FOR(fixture, fixture->n_batches == 3); /* one for each thread */
        for (unsigned i = 0; i < 3; i++)
                let_go(fixture, i);
        tickets_end(t, 3);
        assert_int_equal(atomic_load(&n_ended_threads), 0);
        fixture->scheduler->ops->free(fixture->scheduler);
        assert_int_equal(atomic_load(&n_ended_threads), 3);
        pthread_key_delete(ended_key);

        /* fixture_close() frees a scheduler, so make another one. */
        struct executor   *executor = &fixture->executors[0].base;
        struct sched_setup setup = { .model = &fixture->fake->model,
                                     .executors = &executor,
                                     .n_executors = 1,
                                     .timers = fixture->timers };

        assert_ok(sched_new(&setup, &fixture->scheduler), "again");
        fixture_close(fixture);
}

static void test_passive_instances_are_never_used(void **state) {
        struct fixture  *fixture = fixture_open(DEFAULT, 2, false);
        struct executor *executors[] = { &fixture->executors[0].base, &fixture->executors[1].base };
        struct sched_setup setup = { .model = &fixture->fake->model,
                                     .executors = executors,
                                     .n_executors = 2,
                                     .timers = fixture->timers };
        struct ticket     *t;

        (void)state;
        fixture->scheduler->ops->free(fixture->scheduler);
        fixture->executors[0].base.is_passive = true;
        assert_ok(sched_new(&setup, &fixture->scheduler), "passive");
        fixture->fake->model.scheduler = fixture->scheduler;
        t = tickets_new(fixture, 20);
        submit_all(t, 0, 20);
        tickets_end(t, 20);
        assert_int_equal(fixture->executors[0].n_started, 0);
        assert_int_equal(fixture->executors[1].n_started, 20);
        fixture_close(fixture);
}

struct removal {
        struct thread         thread;
        struct fixture       *fixture;
        struct fake_executor *executor;
        bool                  has_ended; /* the fixture's lock */
};

static void removal_main(void *arg) {
        struct removal   *r = arg;
        struct scheduler *s = r->fixture->scheduler;

        s->ops->remove_executor(s, &r->executor->base);
        mutex_lock(&r->fixture->lock);
        r->has_ended = true;
        cond_broadcast(&r->fixture->changed);
        mutex_unlock(&r->fixture->lock);
}

/* An instance that leaves finishes its batch. The other instances run the waiting requests. */
static void test_removal_waits_for_the_batch(void **state) {
        struct fixture *fixture = fixture_open(DEFAULT, 1, false);
        struct removal  removal = { .fixture = fixture, .executor = &fixture->executors[0] };
        struct ticket  *tickets = tickets_new(fixture, 3);

        (void)state;
        hold(fixture, 0);
        ticket_submit(&tickets[0]);
        assert_batch(fixture, 0, "a");
        ticket_submit(&tickets[1]); /* waits, since no instance is idle */
        fixture->executors[1] =
                (struct fake_executor){ .base = fixture->executors[0].base, .fixture = fixture };
        assert_ok(thread_start(&removal.thread, "removal", removal_main, &removal), "thread");
        assert_ok(fixture->scheduler->ops->add_executor(fixture->scheduler,
                                                        &fixture->executors[1].base),
                  "add");
        assert_success(&tickets[1]);
        ticket_submit(&tickets[2]);
        assert_success(&tickets[2]);
        assert_int_equal(FIXTURE_GET(fixture, fixture->batches[1].executor), 1);
        assert_int_equal(FIXTURE_GET(fixture, fixture->batches[2].executor), 1);
        assert_false(FIXTURE_GET(fixture, removal.has_ended));
        let_go(fixture, 0);
        WAIT_FOR(fixture, removal.has_ended);
        thread_join(&removal.thread);
        assert_success(&tickets[0]);
        /* An executor that was removed, or never had an instance, cannot be removed. */
        fixture->scheduler->ops->remove_executor(fixture->scheduler, &fixture->executors[0].base);
        tickets_end(tickets, 3);
        fixture_close(fixture);
}

/* ---- the load, as the metrics page shows it --------------------------------------------------- */

static double load_line(struct fixture *fixture, const char *name) {
        AUTO_STRBUF out;
        char        line[128];
        const char *at;

        strbuf_init(&out, 0);
        metric_registry_print(fixture->fake->registry, &out);
        snprintf(line, sizeof(line), "\n%s{model=\"m\",version=\"1\"} ", name);
        at = strstr(strbuf_cstr(&out), line);
        assert_non_null(at);
        return strtod(at + strlen(line), NULL);
}

static void expect_load(struct fixture *fixture, uint64_t after_ns, double min_ratio,
                        double max_ratio, double min_age, double max_age) {
        double ratio, age;

        load_meter_measure(fixture->fake->metrics, clock_now_ns() + after_ns);
        ratio = load_line(fixture, "neso_load_ratio");
        age = load_line(fixture, "neso_oldest_request_age_seconds");
        if (ratio < min_ratio || ratio > max_ratio || age < min_age || age > max_age)
                fail_msg("ratio %g, age %g", ratio, age);
}

/* An hour passes for the meter only, so that what the test takes does not matter. */
static void test_load_of_running_and_waiting(void **state) {
        const uint64_t  hour_ns = 3600 * NS_PER_S;
        struct fixture *fixture = fixture_open(UNBATCHED, 2, false);
        struct ticket  *t = tickets_new(fixture, 3);

        (void)state;
        model_stats_show(fixture->fake->model.stats, 1);
        expect_load(fixture, 0, 0, 0, 0, 0);
        hold(fixture, 0);
        hold(fixture, 1);
        ticket_submit(&t[0]);
        WAIT_FOR(fixture, fixture->n_batches == 1);
        expect_load(fixture, hour_ns, 0.45, 0.5, 0, 0);
        submit_all(t, 1, 3);
        WAIT_FOR(fixture, fixture->n_batches == 2);
        expect_load(fixture, hour_ns, 0.9, 1, 3600, 3700);
        let_go(fixture, 0);
        let_go(fixture, 1);
        for (unsigned i = 0; i < 3; i++)
                assert_success(&t[i]);
        /* An instance is free a moment after its answer. */
        do
                load_meter_measure(fixture->fake->metrics, clock_now_ns() + hour_ns);
        while (load_line(fixture, "neso_load_ratio") > 0.1);
        assert_true(load_line(fixture, "neso_oldest_request_age_seconds") == 0);
        tickets_end(t, 3);
        model_stats_hide(fixture->fake->model.stats);
        fixture_close(fixture);
}

SUITE(pull_engine) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_removal_waits_for_the_batch),
                cmocka_unit_test(test_default_is_first_come_first_served),
                cmocka_unit_test(test_any_idle_instance_takes_the_next),
                cmocka_unit_test(test_batches_form_while_the_executor_is_busy),
                cmocka_unit_test(test_preferred_size_runs_without_the_delay),
                cmocka_unit_test(test_delay_runs_what_is_there),
                cmocka_unit_test(test_priorities_overtake),
                cmocka_unit_test(test_timeout_fires_while_the_batch_before_runs),
                cmocka_unit_test(test_delayed_run_after_those_in_time),
                cmocka_unit_test(test_full_queue_refuses_at_once),
                cmocka_unit_test(test_cancel_of_a_queued_request),
                cmocka_unit_test(test_cancel_of_a_request_in_another_queue),
                cmocka_unit_test(test_cancelled_before_it_is_queued),
                cmocka_unit_test(test_cancel_lets_the_others_run),
                cmocka_unit_test(test_drain_refuses_and_queued_ones_run),
                cmocka_unit_test(test_an_instance_that_refuses_watches_afterwards),
                cmocka_unit_test(test_times_of_queueing),
                cmocka_unit_test(test_preserve_ordering),
                cmocka_unit_test(test_refused_ones_have_no_place_in_the_order),
                cmocka_unit_test(test_free_joins),
                cmocka_unit_test(test_load_of_running_and_waiting),
                cmocka_unit_test(test_passive_instances_are_never_used),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
