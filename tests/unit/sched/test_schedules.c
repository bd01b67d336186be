/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that arrive, are put into a batch, cancelled and timed out while the model is unloaded, in every
 * order of the steps of the threads (explorer.h): each request is refused, or answered once and released
 * once; it is executed at most once; and the unload ends.
 *
 * NESO_EXPLORE=n allows n deviations more than each story has.
 */
#include "suite.h"

#include "infer/infer_thread.h"
#include "infer/request_memory.h"
#include "sched/explorer.h"
#include "sched/rate_limiter.h"
#include "sched/scheduler_fixture.h"

#include <stdio.h>
#include <string.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define NEVER "parameters { key: 'inline_execution' value { string_value: 'never' } } "
#define ALWAYS "parameters { key: 'inline_execution' value { string_value: 'always' } } "
#define PLAIN "name: 'm' " X
#define BATCHES "name: 'm' max_batch_size: 2 " X "dynamic_batching { "
#define DELAY "max_queue_delay_microseconds: 100 "
#define TIMEOUT                                                                                    \
        "default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 50 "          \
        "allow_timeout_override: true } "
#define ORDER "preserve_ordering: true "
/* One unit of R for all instances. */
#define NEEDS_R "rate_limiter { resources { name: 'R' count: 1 } } "
#define LIMITED PLAIN "instance_group [ { name: 'a' " NEEDS_R "}, { name: 'b' " NEEDS_R "} ] "
/* Members with ranges of batch sizes: a policy that assigns batches. */
#define ASSIGNED                                                                                   \
        "name: 'm' max_batch_size: 4 " X "instance_group [ { name: 'a' }, { name: 'b' } ] "        \
        "parameters { key: 'batch_ranges' value { string_value: 'a:1-1,b:1-4' } } "                \
        "dynamic_batching { "

enum { MAX_REQUESTS = 3 };

struct story {
        const char *config;
        unsigned    n_executors;
        bool        may_inline;
        unsigned    n_requests; /* each is submitted by a thread of its own */
        int64_t     n_rows;     /* of each; 0: one */
        bool        cancels;    /* a thread cancels the first one */
        bool        drains;  /* a thread begins the unload, else it begins after the last request */
        bool        removes; /* a thread removes the second executor */
        bool        is_limited, has_members;
        unsigned    deviations;
        unsigned    min_schedules; /* the story has more: it is no empty one */
};

struct run {
        const struct story  *story;
        struct fixture      *fixture;
        struct rate_limiter *limiter; /* NULL: nothing is limited */
        struct ticket        tickets[MAX_REQUESTS];
        bool                 is_refused[MAX_REQUESTS]; /* guarded by the fixture's lock */
        struct thread        submitters[MAX_REQUESTS], others[3];
        unsigned             n_outcomes[3]; /* answered, refused, failed: over all schedules */
        unsigned             n_next;        /* submitters that have begun */
};

static void submit(void *arg) {
        struct run   *r = arg;
        unsigned      i = r->n_next++;
        struct error *err;

        infer_thread_allow_inline(r->story->may_inline);
        err = ticket_try_submit(&r->tickets[i]);
        explorer_check(explorer_n_held_wakes() == 0,
                       "a thread is woken while the lock that it takes is held");
        if (err == NULL)
                return;
        mutex_lock(&r->fixture->lock);
        r->is_refused[i] = true;
        cond_broadcast(&r->fixture->changed);
        mutex_unlock(&r->fixture->lock);
        error_free(err);
}

static void cancel(void *arg) {
        request_cancel(((struct run *)arg)->tickets[0].req);
}

static void drain(void *arg) {
        struct scheduler *s = ((struct run *)arg)->fixture->scheduler;

        s->ops->drain(s);
}

static void remove_second(void *arg) {
        struct fixture *fixture = ((struct run *)arg)->fixture;

        fixture->scheduler->ops->remove_executor(fixture->scheduler, &fixture->executors[1].base);
}

static bool has_ended_locked(const struct run *r, unsigned i) {
        const struct ticket *t = &r->tickets[i];

        return r->is_refused[i] || (t->n_finals > 0 && t->n_releases > 0);
}

static void wait_for_all(struct run *r) {
        mutex_lock(&r->fixture->lock);
        for (unsigned i = 0; i < r->story->n_requests; i++)
                while (!has_ended_locked(r, i))
                        cond_wait(&r->fixture->changed, &r->fixture->lock);
        mutex_unlock(&r->fixture->lock);
}

static void check_ticket(struct run *r, unsigned i) {
        const struct ticket *t = &r->tickets[i];

        if (r->is_refused[i]) {
                explorer_check(t->n_responses == 0 && t->n_releases == 0 && t->n_executions == 0,
                               "a request that was refused is answered too");
                r->n_outcomes[1]++;
                return;
        }
        explorer_check(t->n_finals == 1 && t->n_responses == 1, "a request is answered twice");
        explorer_check(t->n_releases == 1, "a request is released twice");
        explorer_check(t->n_executions == (t->has_error || r->story->n_rows > 0 ? 0 : 1) ||
                               (t->code == ERR_CANCELLED && t->n_executions <= 1),
                       "a request is not executed, or twice");
        r->n_outcomes[t->has_error ? 2 : 0]++;
}

static void start(struct thread *t, const char *name, thread_fn fn, struct run *r, bool is_wanted) {
        if (is_wanted)
                error_free(thread_start(t, name, fn, r));
        else
                *t = (struct thread){ 0 };
}

/* The first member of ASSIGNED takes one row, the second one or two. */
static struct error *make_members(const struct sched_setup *setup, struct scheduler **ret) {
        setup->executors[0]->max_rows = 1;
        setup->executors[1]->max_rows = 2;
        return sched_new(setup, ret);
}

/* A thread that ends an execution gives the permit to another instance, which it wakes. */
static void check_wakes(struct fake_executor *e, struct request **requests, uint32_t n) {
        (void)e;
        (void)requests;
        (void)n;
        explorer_check(explorer_n_held_wakes() == 0,
                       "an instance gets its permit while the lock that it takes is held");
}

static void set_rows(struct request *req, int64_t n) {
        request_remove_all_inputs(req);
        add_zeroed_input(req, "X", DATA_TYPE_FP32, (int64_t[]){ n, 1 }, 2);
        assert_ok(request_prepare(req), "prepare");
}

static void play(void *arg) {
        struct run         *r = arg;
        const struct story *s = r->story;

        r->limiter = s->is_limited ? rate_limiter_new(NULL, 0) : NULL;
        r->fixture = fixture_open_made(s->config, s->n_executors, s->may_inline, r->limiter,
                                       s->has_members ? make_members : sched_new);
        r->fixture->before_batch = s->is_limited ? check_wakes : NULL;
        r->n_next = 0;
        for (unsigned i = 0; i < s->n_requests; i++) {
                r->is_refused[i] = false;
                ticket_init(&r->tickets[i], r->fixture, (char[]){ (char)('a' + i), '\0' });
                if (s->n_rows > 0)
                        set_rows(r->tickets[i].req, s->n_rows);
        }
        for (unsigned i = 0; i < s->n_requests; i++)
                start(&r->submitters[i], "submitter", submit, r, true);
        start(&r->others[0], "canceller", cancel, r, s->cancels);
        start(&r->others[1], "unload", drain, r, s->drains);
        start(&r->others[2], "remover", remove_second, r, s->removes);
        for (unsigned i = 0; i < s->n_requests; i++)
                thread_join(&r->submitters[i]);
        for (unsigned i = 0; i < 3; i++)
                thread_join(&r->others[i]);
        wait_for_all(r);
        for (unsigned i = 0; i < s->n_requests; i++) {
                check_ticket(r, i);
                request_free(r->tickets[i].req);
        }
        fixture_close(r->fixture);
        rate_limiter_free(r->limiter);
}

static void free_kept(void) {
        while (request_memory_count_kept() > 0)
                free(request_memory_take());
}

static void tell(struct story s, unsigned ret_outcomes[3]) {
        const char *more = getenv("NESO_EXPLORE");
        struct run  r = { .story = &s };
        bool        is_complete;
        unsigned    n;

        s.deviations += more != NULL ? (unsigned)atoi(more) : 0;
        n = explore(&(struct exploration){ .run = play,
                                           .arg = &r,
                                           .max_deviations = s.deviations,
                                           .at_thread_end = free_kept },
                    &is_complete);
        print_message("%u schedules: %u answers, %u refusals, %u errors\n", n, r.n_outcomes[0],
                      r.n_outcomes[1], r.n_outcomes[2]);
        assert_true(is_complete);
        assert_true(n >= s.min_schedules);
        memcpy(ret_outcomes, r.n_outcomes, sizeof(r.n_outcomes));
}

static void test_cancel_against_unload(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = PLAIN NEVER,
                             .n_executors = 1,
                             .n_requests = 1,
                             .cancels = true,
                             .drains = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0);
}

static void test_batch_against_cancel(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = BATCHES DELAY "}",
                             .n_executors = 1,
                             .n_requests = 2,
                             .cancels = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] == 0 && n[2] > 0);
}

static void test_timeout_against_unload(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = BATCHES DELAY TIMEOUT "}",
                             .n_executors = 1,
                             .n_requests = 2,
                             .drains = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0);
}

static void test_run_to_completion(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = PLAIN ALWAYS,
                             .n_executors = 1,
                             .may_inline = true,
                             .n_requests = 2,
                             .cancels = true,
                             .drains = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] > 0);
}

static void test_executor_that_leaves(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = PLAIN NEVER,
                             .n_executors = 2,
                             .n_requests = 2,
                             .removes = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] == 0 && n[2] == 0);
}

static void test_order(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = BATCHES ORDER "}",
                             .n_executors = 2,
                             .n_requests = 2,
                             .cancels = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] == 0);
}

static void test_permits_against_unload(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = LIMITED NEVER,
                             .n_executors = 2,
                             .n_requests = 2,
                             .drains = true,
                             .is_limited = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] > 0 && n[2] == 0);
}

static void test_executor_that_leaves_with_a_permit(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = LIMITED NEVER,
                             .n_executors = 2,
                             .n_requests = 2,
                             .removes = true,
                             .is_limited = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] == 0 && n[2] == 0);
}

static void test_assigned_batches(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = ASSIGNED DELAY "} " NEVER,
                             .n_executors = 2,
                             .n_requests = 2,
                             .cancels = true,
                             .removes = true,
                             .has_members = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] == 0 && n[2] > 0);
}

/* A request of three rows is for both members: its submission wakes two instances. */
static void test_two_members_at_once(void **state) {
        unsigned n[3];

        (void)state;
        tell((struct story){ .config = ASSIGNED "} " NEVER,
                             .n_executors = 2,
                             .n_requests = 2,
                             .n_rows = 3,
                             .has_members = true,
                             .deviations = 2,
                             .min_schedules = 1000 },
             n);
        assert_true(n[0] > 0 && n[1] == 0 && n[2] == 0);
}

SUITE(schedules) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cancel_against_unload),
                cmocka_unit_test(test_batch_against_cancel),
                cmocka_unit_test(test_timeout_against_unload),
                cmocka_unit_test(test_run_to_completion),
                cmocka_unit_test(test_executor_that_leaves),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_permits_against_unload),
                cmocka_unit_test(test_executor_that_leaves_with_a_permit),
                cmocka_unit_test(test_assigned_batches),
                cmocka_unit_test(test_two_members_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
