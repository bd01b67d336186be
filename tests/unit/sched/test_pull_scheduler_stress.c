/* SPDX-License-Identifier: BSD-3-Clause */
/* Many submitters, several instances, timeouts and cancellations at any moment: every request is
 * answered exactly once and released exactly once.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "sched/scheduler_lab.h"

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define DEFAULT "name: 'm' max_batch_size: 8 " X
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "

#define N_SUBMITTERS 4
#define N_EACH 600
#define N_AT_ONCE 24
#define MIN_CHANGES 8 /* also when the machine is busy elsewhere */

struct submitter {
        struct thread  thread;
        struct lab    *lab;
        struct ticket *tickets; /* N_EACH */
        unsigned       number;
        unsigned       n_refused; /* by submit(): still ours, no answer */
        bool           is_stuck;
};

/* Threads must not assert: false when it did not happen in time. */
static bool wait_released(struct submitter *s, struct ticket *t) {
        uint64_t give_up_ns = clock_now_ns() + LAB_PATIENCE_NS;

        mutex_lock(&s->lab->lock);
        while (t->n_releases == 0 && clock_now_ns() < give_up_ns)
                cond_wait_until(&s->lab->changed, &s->lab->lock, give_up_ns);
        s->is_stuck |= t->n_releases == 0;
        mutex_unlock(&s->lab->lock);
        return !s->is_stuck;
}

static void submit_one(struct submitter *s, struct ticket *t, unsigned i) {
        struct error *err;

        if (i % 29 == 0)
                request_cancel(t->req);
        err = ticket_try_submit(t);
        if (err != NULL) {
                s->n_refused++;
                mutex_lock(&s->lab->lock);
                t->n_finals = t->n_responses = t->n_releases = 1; /* nothing will come */
                mutex_unlock(&s->lab->lock);
                error_free(err);
        }
        if (i % 7 == 0)
                request_cancel(s->tickets[i - i % 3].req); /* it or one shortly before */
}

static void submitter_main(void *arg) {
        struct submitter *s = arg;

        for (unsigned i = 0; i < N_EACH; i++) {
                submit_one(s, &s->tickets[i], i);
                if (i >= N_AT_ONCE && !wait_released(s, &s->tickets[i - N_AT_ONCE]))
                        return;
        }
        for (unsigned i = 0; i < N_EACH; i++)
                if (!wait_released(s, &s->tickets[i]))
                        return;
}

static void submitter_open(struct submitter *s, struct lab *lab, unsigned number) {
        *s = (struct submitter){ .lab = lab, .number = number };
        s->tickets = calloc(N_EACH, sizeof(*s->tickets));
        assert_non_null(s->tickets);
        for (unsigned i = 0; i < N_EACH; i++) {
                struct ticket *t = &s->tickets[i];

                ticket_init(t, lab, "s");
                t->req->priority = i % 4;
                t->req->timeout_us = i % 3 == 0 ? 1 + i % 200 : 0;
                t->req->batch_size = 1 + i % 5;
        }
}

static unsigned count_executed(const struct submitter *s) {
        unsigned n = 0;

        for (unsigned i = 0; i < N_EACH; i++) {
                const struct ticket *t = &s->tickets[i];

                assert_int_equal(t->n_finals, 1);
                assert_int_equal(t->n_responses, 1);
                assert_int_equal(t->n_releases, 1);
                assert_in_range(t->n_executions, 0, 1);
                assert_true(t->n_executions == 0 || !t->has_error);
                n += t->n_executions;
        }
        return n;
}

/* Instances that come and go under the traffic; the first one stays. */
struct changer {
        struct thread thread;
        struct lab   *lab;
        atomic_bool   is_ending;
        unsigned      n_changes;
        unsigned      n_late; /* batches begun or unfinished after the removal had returned */
        bool          has_failed;
};

static void remove_one(struct changer *c, struct fake_executor *e) {
        struct scheduler *s = c->lab->scheduler;
        unsigned          n_started;

        s->ops->remove_executor(s, &e->base);
        mutex_lock(&c->lab->lock);
        c->n_late += e->is_running;
        n_started = e->n_started;
        mutex_unlock(&c->lab->lock);
        /* Others take the work: a little of it. */
        mutex_lock(&c->lab->lock);
        cond_wait_until(&c->lab->changed, &c->lab->lock, clock_now_ns() + NS_PER_MS);
        c->n_late += e->n_started != n_started;
        mutex_unlock(&c->lab->lock);
}

static void changer_main(void *arg) {
        struct changer   *c = arg;
        struct lab       *lab = c->lab;
        struct scheduler *s = lab->scheduler;
        bool              is_there[LAB_MAX_EXECUTORS];

        for (unsigned i = 0; i < lab->n_executors; i++)
                is_there[i] = true;
        while (!atomic_load(&c->is_ending) || c->n_changes < MIN_CHANGES) {
                unsigned              at = 1 + c->n_changes % (lab->n_executors - 1);
                struct fake_executor *e = &lab->executors[at];

                if (is_there[at]) {
                        remove_one(c, e);
                } else {
                        struct error *err = s->ops->add_executor(s, &e->base);

                        c->has_failed |= err != NULL;
                        error_free(err);
                }
                is_there[at] = !is_there[at];
                c->n_changes++;
        }
}

enum traffic { STEADY, CHANGING };

static void start_changer(struct changer *c, struct lab *lab) {
        *c = (struct changer){ .lab = lab };
        assert_ok(thread_start(&c->thread, "changer", changer_main, c), "thread");
}

static void end_changer(struct changer *c) {
        atomic_store(&c->is_ending, true);
        thread_join(&c->thread);
        assert_false(c->has_failed);
        assert_int_equal(c->n_late, 0);
}

static void run(const char *config, unsigned n_executors, enum traffic traffic) {
        struct lab      *lab = lab_open(config, n_executors, true);
        struct submitter submitters[N_SUBMITTERS];
        struct changer   changer;
        unsigned         n_executed = 0;

        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                submitter_open(&submitters[i], lab, i);
        if (traffic == CHANGING)
                start_changer(&changer, lab);
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                assert_ok(thread_start(&submitters[i].thread, "submitter", submitter_main,
                                       &submitters[i]),
                          "thread");
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                thread_join(&submitters[i].thread);
        if (traffic == CHANGING)
                end_changer(&changer);
        for (unsigned i = 0; i < N_SUBMITTERS; i++) {
                assert_false(submitters[i].is_stuck);
                n_executed += count_executed(&submitters[i]);
                for (unsigned j = 0; j < N_EACH; j++)
                        request_free(submitters[i].tickets[j].req);
                free(submitters[i].tickets);
        }
        assert_in_range(n_executed, 1, N_SUBMITTERS * N_EACH);
        lab_close(lab);
}

static void test_default(void **state) {
        (void)state;
        run(DEFAULT INLINE("never"), 3, STEADY);
        run(DEFAULT INLINE("always"), 3, STEADY);
        run(DEFAULT, 2, STEADY);
}

#define POLICIES                                                                                   \
        "priority_levels: 3 default_priority_level: 2 "                                            \
        "default_queue_policy { default_timeout_microseconds: 300 allow_timeout_override: true "   \
        "                       max_queue_size: 30 } "                                             \
        "priority_queue_policy { key: 3 value { timeout_action: DELAY "                            \
        "                                       default_timeout_microseconds: 100 } } "

#define BUSY                                                                                       \
        "dynamic_batching { preferred_batch_size: [3, 6] max_queue_delay_microseconds: "           \
        "200 " POLICIES "} "

static void test_dynamic(void **state) {
        (void)state;
        run(DEFAULT BUSY INLINE("never"), 3, STEADY);
        run(DEFAULT BUSY INLINE("always"), 3, STEADY);
        run(DEFAULT BUSY, 1, STEADY);
}

static void test_preserve_ordering(void **state) {
        (void)state;
        run(DEFAULT "dynamic_batching { preserve_ordering: true " POLICIES "}" INLINE("always"), 3, STEADY);
        run(DEFAULT "dynamic_batching { preserve_ordering: true }" INLINE("never"), 3, STEADY);
}

static void test_instances_come_and_go(void **state) {
        (void)state;
        run(DEFAULT INLINE("never"), 4, CHANGING);
        run(DEFAULT INLINE("always"), 4, CHANGING);
        run(DEFAULT BUSY INLINE("never"), 3, CHANGING);
        run(DEFAULT BUSY INLINE("always"), 2, CHANGING);
        run(DEFAULT "dynamic_batching { preserve_ordering: true }" INLINE("never"), 3, CHANGING);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_default),
                cmocka_unit_test(test_dynamic),
                cmocka_unit_test(test_preserve_ordering),
                cmocka_unit_test(test_instances_come_and_go),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
