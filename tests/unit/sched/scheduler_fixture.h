/* SPDX-License-Identifier: BSD-3-Clause */
/* A scheduler with real threads, and executors that do what a test tells them: answer at once, hold a
 * batch until the test releases it, or spin. The fixture records what happened.
 *
 * The fixture's lock has the lowest rank, and every callback takes it: builds with LOCK_CHECK abort at a
 * callback that is called with a lock held.
 *
 * Threads.  Callbacks only record. The test's own thread makes the assertions. WAIT_FOR() blocks on the
 * condition variable that every record signals.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/timer.h"
#include "infer/executor.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "repo/scheduler_choice.h"
#include "sched/sched_setup.h"

#include <pthread.h>
#include <stdio.h>

#define FIXTURE_MAX_EXECUTORS 4
#define FIXTURE_MAX_BATCH 16
#define FIXTURE_MAX_BATCHES 64
/* Normally an event occurs within microseconds. Sanitizers and a busy machine need more time. */
#define FIXTURE_PATIENCE_NS (60 * NS_PER_S)

struct fixture;

/* One request and its results; guarded by the fixture's lock. */
struct ticket {
        struct fixture *fixture;
        struct request *req;
        char            name[16];
        unsigned        n_responses;
        unsigned        n_finals;
        unsigned        n_releases;
        unsigned        n_executions;
        bool            has_error;
        enum error_code code;
        char            message[192];
        pthread_t       ran_on;
        unsigned        place; /* among all answered, 1 = the first; 0 = not yet */
        uint64_t sequence_id; /* of sequence_fixture.h: as it was submitted, and the next one too */
        unsigned sequence_flags;
        void (*after_response)(struct ticket *t); /* called in the completion, no lock held */
};

struct fake_executor {
        struct executor base;
        struct fixture *fixture;
        bool            is_held;    /* executions wait before they answer */
        uint64_t        spin_ns;    /* the next execution is busy for this long, once */
        unsigned        n_started;  /* number of executions */
        unsigned        n_answered; /* executions that have sent responses but hold requests */
        bool            is_running; /* detects concurrent calls */
        unsigned        n_overlaps;
};

struct fixture_batch {
        unsigned       executor;
        unsigned       n;
        struct ticket *tickets[FIXTURE_MAX_BATCH];
};

struct fixture {
        struct fake_model   *fake;
        struct timer_thread *timers;
        struct scheduler    *scheduler;
        struct fake_executor executors[FIXTURE_MAX_EXECUTORS];
        unsigned             n_executors;

        /* Called before each execution, with the fixture's lock; NULL: not called. */
        void (*before_batch)(struct fake_executor *e, struct request **requests, uint32_t n);

        struct mutex         lock; /* rank LOCK_SERVER; guards everything below, and tickets */
        struct cond          changed;
        struct fixture_batch batches[FIXTURE_MAX_BATCHES];
        unsigned             n_batches;
        unsigned             n_answered;
        unsigned             n_released;
};

#define WAIT_FOR(fixture, condition)                                                               \
        do {                                                                                       \
                uint64_t give_up_ns_ = clock_now_ns() + FIXTURE_PATIENCE_NS;                       \
                bool     is_met_;                                                                  \
                mutex_lock(&(fixture)->lock);                                                      \
                while (!(condition) && clock_now_ns() < give_up_ns_)                               \
                        cond_wait_until(&(fixture)->changed, &(fixture)->lock, give_up_ns_);       \
                is_met_ = (condition);                                                             \
                mutex_unlock(&(fixture)->lock);                                                    \
                if (!is_met_)                                                                      \
                        fail_msg("did not happen: %s", #condition);                                \
        } while (0)

/* Value of an expression over state that the fixture's lock guards. */
#define FIXTURE_GET(fixture, expression)                                                           \
        __extension__({                                                                            \
                mutex_lock(&(fixture)->lock);                                                      \
                __typeof__(expression) got_ = (expression);                                        \
                mutex_unlock(&(fixture)->lock);                                                    \
                got_;                                                                              \
        })

#define FIXTURE_SET(fixture, place, value)                                                         \
        do {                                                                                       \
                mutex_lock(&(fixture)->lock);                                                      \
                (place) = (value);                                                                 \
                cond_broadcast(&(fixture)->changed);                                               \
                mutex_unlock(&(fixture)->lock);                                                    \
        } while (0)

/* ---- callbacks ------------------------------------------------------------------------------- */

static inline void fixture_on_response(struct response *r, uint32_t flags, void *userp) {
        struct ticket  *t = userp;
        struct fixture *fixture = t->fixture;

        mutex_lock(&fixture->lock);
        t->n_responses += r != NULL;
        t->n_finals += (flags & RESPONSE_FINAL) != 0;
        t->place = ++fixture->n_answered;
        if (r != NULL && r->error != NULL) {
                t->has_error = true;
                t->code = r->error->code;
                snprintf(t->message, sizeof(t->message), "%s", r->error->message);
        }
        cond_broadcast(&fixture->changed);
        mutex_unlock(&fixture->lock);
        response_free(r);
        if (t->after_response != NULL)
                t->after_response(t);
}

static inline void fixture_on_release(struct request *req, uint32_t flags, void *userp) {
        struct ticket  *t = userp;
        struct fixture *fixture = t->fixture;

        (void)req;
        (void)flags;
        mutex_lock(&fixture->lock);
        t->n_releases++;
        fixture->n_released++;
        cond_broadcast(&fixture->changed);
        mutex_unlock(&fixture->lock);
}

static inline void fixture_note_batch(struct fake_executor *e, struct request **requests,
                                      uint32_t n) {
        struct fixture *fixture = e->fixture;
        unsigned        at = fixture->n_batches++;

        if (fixture->before_batch != NULL)
                fixture->before_batch(e, requests, n);
        for (uint32_t i = 0; i < n; i++) {
                struct ticket *t = requests[i]->on_release_userp;

                if (request_is_null(requests[i]) || requests[i]->is_part)
                        continue;
                t->ran_on = pthread_self();
                t->n_executions++;
                if (at < FIXTURE_MAX_BATCHES && i < FIXTURE_MAX_BATCH)
                        fixture->batches[at].tickets[i] = t;
        }
        if (at < FIXTURE_MAX_BATCHES) {
                fixture->batches[at].executor = (unsigned)(e - fixture->executors);
                fixture->batches[at].n = n;
        }
        e->n_started++;
        e->n_overlaps += e->is_running;
        e->is_running = true;
        cond_broadcast(&fixture->changed);
}

static inline void fixture_spin(uint64_t spin_ns) {
        uint64_t until_ns = clock_now_ns() + spin_ns;

        while (clock_now_ns() < until_ns)
                continue;
}

static inline void fixture_execute(struct executor *base, struct request **requests, uint32_t n) {
        struct fake_executor *e = CONTAINER_OF(base, struct fake_executor, base);
        struct fixture       *fixture = e->fixture;
        uint64_t              spin_ns;

        mutex_lock(&fixture->lock);
        fixture_note_batch(e, requests, n);
        while (e->is_held)
                cond_wait(&fixture->changed, &fixture->lock);
        spin_ns = e->spin_ns;
        e->spin_ns = 0;
        mutex_unlock(&fixture->lock);
        fixture_spin(spin_ns);

        for (uint32_t i = 0; i < n; i++) {
                struct response *r;

                error_free(response_new(requests[i], &r)); /* there is none when memory is short */
                error_free(response_send(r, RESPONSE_FINAL, NULL));
        }
        mutex_lock(&fixture->lock);
        e->n_answered++;
        e->is_running = false;
        cond_broadcast(&fixture->changed);
        mutex_unlock(&fixture->lock);
        for (uint32_t i = 0; i < n; i++)
                request_release(requests[i], REQUEST_RELEASE_ALL);
}

static inline bool fixture_is_ready(struct executor *e) {
        (void)e;
        return true;
}

static const struct executor_ops fixture_executor_ops = { .execute = fixture_execute,
                                                          .is_ready = fixture_is_ready };

/* ---- for tests ------------------------------------------------------------------------------- */

typedef struct error *(*fixture_make_fn)(const struct sched_setup *setup, struct scheduler **ret);

/* `config` is a whole model configuration with one input X of dims [1]. With a limiter, executor i
 * has the limits of instance group i. `make` is sched_new() or a function of the test. */
static inline struct fixture *fixture_open_made(const char *config, unsigned n_executors,
                                                bool may_inline, struct rate_limiter *limiter,
                                                fixture_make_fn make) {
        struct fixture    *fixture = calloc(1, sizeof(*fixture));
        struct executor   *executors[FIXTURE_MAX_EXECUTORS];
        struct sched_setup setup = { .executors = executors,
                                     .n_executors = n_executors,
                                     .limiter = limiter };

        assert_non_null(fixture);
        assert_in_range(n_executors, 1, FIXTURE_MAX_EXECUTORS);
        mutex_init(&fixture->lock, LOCK_SERVER);
        cond_init(&fixture->changed);
        fixture->fake = fake_model_new(config);
        fixture->n_executors = n_executors;
        for (unsigned i = 0; i < n_executors; i++) {
                const Inference__ModelConfig *pb = fixture->fake->model.config->pb;

                fixture->executors[i] = (struct fake_executor){
                        .base = { .ops = &fixture_executor_ops,
                                  .name = "i",
                                  .may_inline = may_inline,
                                  .min_rows = 1,
                                  .max_rows = (uint32_t)MAX(pb->max_batch_size, 1) },
                        .fixture = fixture,
                };
                if (i < pb->n_instance_group)
                        fixture->executors[i].base.limits = pb->instance_group[i]->rate_limiter;
                executors[i] = &fixture->executors[i].base;
        }
        assert_ok(timer_thread_new(&fixture->timers), "timers");
        setup.model = &fixture->fake->model;
        setup.timers = fixture->timers;
        assert_ok(make(&setup, &fixture->scheduler), "scheduler");
        fixture->fake->model.scheduler = fixture->scheduler;
        return fixture;
}

static inline struct fixture *fixture_open_limited(const char *config, unsigned n_executors,
                                                   bool may_inline, struct rate_limiter *limiter) {
        return fixture_open_made(config, n_executors, may_inline, limiter, sched_new);
}

static inline struct fixture *fixture_open(const char *config, unsigned n_executors,
                                           bool may_inline) {
        return fixture_open_limited(config, n_executors, may_inline, NULL);
}

/* All requests must have been released. The scheduler is NULL when the test has freed it. */
static inline void fixture_close(struct fixture *fixture) {
        if (fixture->scheduler != NULL) {
                fixture->scheduler->ops->drain(fixture->scheduler);
                fixture->scheduler->ops->free(fixture->scheduler);
        }
        for (unsigned i = 0; i < fixture->n_executors; i++)
                assert_int_equal(fixture->executors[i].n_overlaps, 0);
        assert_int_equal(atomic_load(&fixture->fake->model.n_in_flight), 0);
        timer_thread_free(fixture->timers);
        fake_model_free(fixture->fake);
        cond_done(&fixture->changed);
        mutex_done(&fixture->lock);
        free(fixture);
}

static inline struct request *fixture_request(struct fixture *fixture, struct ticket *t) {
        static const struct response_allocator no_outputs;
        struct request                        *req = fake_request(fixture->fake);
        bool has_batch = fixture->fake->model.io->max_batch_size > 0;

        add_zeroed_input(req, "X", DATA_TYPE_FP32, (int64_t[]){ 1, 1 }, has_batch ? 2 : 1);
        assert_ok(request_set_id(req, t->name), t->name);
        assert_ok(request_prepare(req), "prepare");
        req->allocator = &no_outputs;
        req->on_response = fixture_on_response;
        req->on_response_userp = t;
        req->on_release = fixture_on_release;
        req->on_release_userp = t;
        return req;
}

static inline void ticket_init(struct ticket *t, struct fixture *fixture, const char *name) {
        *t = (struct ticket){ .fixture = fixture };
        snprintf(t->name, sizeof(t->name), "%s", name);
        t->req = fixture_request(fixture, t);
}

/* Submits as the server does. */
static inline struct error *ticket_try_submit(struct ticket *t) {
        struct fixture   *fixture = t->fixture;
        _Atomic uint64_t *n_in_flight = &fixture->fake->model.n_in_flight;
        struct error     *err;

        t->req->times.request_start_ns = clock_now_ns();
        atomic_fetch_add(n_in_flight, 1);
        err = fixture->scheduler->ops->submit(fixture->scheduler, t->req);
        if (err != NULL)
                atomic_fetch_sub(n_in_flight, 1);
        return err;
}

static inline void ticket_submit(struct ticket *t) {
        assert_ok(ticket_try_submit(t), t->name);
}

/* Makes n tickets "a", "b", …, not yet submitted. */
static inline struct ticket *tickets_new(struct fixture *fixture, unsigned n) {
        struct ticket *tickets = calloc(n, sizeof(*tickets));
        char           name[2] = "a";

        assert_non_null(tickets);
        for (unsigned i = 0; i < n; i++, name[0]++)
                ticket_init(&tickets[i], fixture, name);
        return tickets;
}

/* Waits until each ticket has its one final answer and its one release, and frees the requests. */
static inline void tickets_end(struct ticket *tickets, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                struct ticket *t = &tickets[i];

                WAIT_FOR(t->fixture, t->n_finals > 0 && t->n_releases > 0);
                assert_int_equal(FIXTURE_GET(t->fixture, t->n_finals), 1);
                assert_int_equal(FIXTURE_GET(t->fixture, t->n_responses), 1);
                assert_int_equal(FIXTURE_GET(t->fixture, t->n_releases), 1);
        }
        for (unsigned i = 0; i < n; i++)
                request_free(tickets[i].req);
        free(tickets);
}

/* For threads that must not assert: returns false when the event did not occur in time. */
static inline bool ticket_wait_released(struct ticket *t) {
        uint64_t give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;
        bool     is_released;

        mutex_lock(&t->fixture->lock);
        while (t->n_releases == 0 && clock_now_ns() < give_up_ns)
                cond_wait_until(&t->fixture->changed, &t->fixture->lock, give_up_ns);
        is_released = t->n_releases > 0;
        mutex_unlock(&t->fixture->lock);
        return is_released;
}

static inline void assert_answer(struct ticket *t, enum error_code code, const char *message) {
        WAIT_FOR(t->fixture, t->n_finals > 0);
        assert_true(FIXTURE_GET(t->fixture, t->has_error));
        assert_int_equal(FIXTURE_GET(t->fixture, t->code), code);
        assert_string_equal(t->message, message);
}

static inline void assert_success(struct ticket *t) {
        WAIT_FOR(t->fixture, t->n_finals > 0);
        assert_false(FIXTURE_GET(t->fixture, t->has_error));
}

/* Names of the requests in the batch, without blanks: "abc"; "-" is a null request. */
static inline void assert_batch(struct fixture *fixture, unsigned at, const char *names) {
        char     got[FIXTURE_MAX_BATCH + 1] = "";
        unsigned n;

        WAIT_FOR(fixture, fixture->n_batches > at);
        n = FIXTURE_GET(fixture, fixture->batches[at].n);
        assert_in_range(n, 1, FIXTURE_MAX_BATCH);
        for (unsigned i = 0; i < n; i++)
                got[i] = fixture->batches[at].tickets[i] != NULL
                                 ? fixture->batches[at].tickets[i]->name[0]
                                 : '-';
        assert_string_equal(got, names);
}

static inline void hold(struct fixture *fixture, unsigned executor) {
        FIXTURE_SET(fixture, fixture->executors[executor].is_held, true);
}

static inline void let_go(struct fixture *fixture, unsigned executor) {
        FIXTURE_SET(fixture, fixture->executors[executor].is_held, false);
}
