/* SPDX-License-Identifier: BSD-3-Clause */
/* A policy on a clock of its own: requests arrive when a test says so, and an execution takes as long as
 * the test says. After each event the policy is asked as the engine asks it. The simulation records
 * when, where and with which requests each execution was started.
 *
 * Events at the same time happen in the order in which they were added.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/clock.h"
#include "infer/executor.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "sched/instance.h"
#include "sched/policy.h"
#include "sched/request_queue.h"

#include <stdio.h>

#define SIM_MAX_INSTANCES 12
#define SIM_MAX_REQUESTS 64
#define SIM_MAX_STARTS 128
#define SIM_MAX_BATCH 16
#define SIM_MAX_EVENTS 2048 /* a policy that waits sets a new timer at each event */
#define SIM_START_NS NS_PER_S

/* Returns the duration of an execution of so many rows, in microseconds. */
typedef uint64_t (*sim_cost_fn)(uint64_t rows);

struct sim_start {
        uint64_t at_us;
        unsigned instance;
        uint64_t rows;
        unsigned first; /* of a request: its number in order of arrival */
        unsigned n;     /* number of requests */
        unsigned all[SIM_MAX_BATCH];
};

enum sim_kind { SIM_ARRIVAL, SIM_END, SIM_TIMER, SIM_DRAIN };

struct sim_event {
        uint64_t      at_us;
        unsigned      order;
        enum sim_kind kind;
        unsigned      number; /* number of the request or instance */
};

struct sim {
        struct policy       *policy;
        struct request_queue queue;
        struct list          idle;
        struct executor      executors[SIM_MAX_INSTANCES];
        struct instance      instances[SIM_MAX_INSTANCES];
        uint64_t             running[SIM_MAX_INSTANCES]; /* running rows; 0: idle */
        uint64_t             took_us[SIM_MAX_INSTANCES];
        unsigned             n_instances;
        struct instance     *pointers[SIM_MAX_INSTANCES];
        uint64_t             rows_running;
        sim_cost_fn          cost;
        uint64_t             now_us;
        struct request      *requests[SIM_MAX_REQUESTS]; /* borrowed: in order of arrival */
        unsigned             n_requests;
        struct sim_event     events[SIM_MAX_EVENTS];
        unsigned             n_events;
        unsigned             n_ordered;
        struct sim_start     starts[SIM_MAX_STARTS];
        unsigned             n_starts;
        enum dispatch_reason reasons[SIM_MAX_STARTS]; /* one line for each start */
        unsigned             n_refused;               /* requests that the policy refused */
};

/* Instances with the same range form a group. */
static inline uint32_t sim_virtual_index(const uint32_t (*ranges)[2], unsigned i) {
        uint32_t index = 0;

        for (unsigned k = 0; k < i; k++)
                index += ranges[k][0] == ranges[i][0] && ranges[k][1] == ranges[i][1];
        return index;
}

static inline void sim_open(struct sim *s, struct policy *policy, const uint32_t (*ranges)[2],
                            unsigned n_instances, sim_cost_fn cost) {
        *s = (struct sim){ .policy = policy, .n_instances = n_instances, .cost = cost };
        assert_in_range(n_instances, 1, SIM_MAX_INSTANCES);
        list_init(&s->idle);
        request_queue_init(&s->queue, policy->limits);
        for (unsigned i = 0; i < n_instances; i++) {
                s->executors[i] = (struct executor){ .min_rows = ranges[i][0],
                                                     .max_rows = ranges[i][1],
                                                     .index = sim_virtual_index(ranges, i) };
                s->instances[i].executor = &s->executors[i];
                s->pointers[i] = &s->instances[i];
                list_append(&s->idle, &s->instances[i].idle_node);
        }
}

/* No request may be left. */
static inline void sim_close(struct sim *s) {
        assert_int_equal(s->queue.n_waiting, 0);
        assert_int_equal(s->queue.n_rows, 0);
        assert_int_equal(s->rows_running, 0);
        request_queue_done(&s->queue);
        policy_free(s->policy);
}

static inline void sim_at(struct sim *s, uint64_t at_us, enum sim_kind kind, unsigned number) {
        assert_true(s->n_events < ARRAY_LEN(s->events));
        s->events[s->n_events++] = (struct sim_event){ at_us, s->n_ordered++, kind, number };
}

/* The request is reused, so only the fields that policies read are set. */
static inline void sim_arrives(struct sim *s, uint64_t at_us, struct request *req, uint64_t rows) {
        assert_true(s->n_requests < SIM_MAX_REQUESTS);
        req->batch_size = rows;
        s->requests[s->n_requests] = req;
        sim_at(s, at_us, SIM_ARRIVAL, s->n_requests++);
}

static inline uint64_t sim_ns(uint64_t us) {
        return SIM_START_NS + us * NS_PER_US;
}

static inline struct sched_view sim_view(struct sim *s) {
        return (struct sched_view){ .queue = &s->queue,
                                    .idle = &s->idle,
                                    .rows_running = s->rows_running,
                                    .instances = s->pointers,
                                    .n_instances = s->n_instances };
}

static inline unsigned sim_number(const struct sim *s, const struct request *req) {
        for (unsigned i = 0; i < s->n_requests; i++)
                if (s->requests[i] == req)
                        return i;
        fail_msg("a request that never came");
        return 0;
}

/* Takes what a policy picked, as the engine does. Requests of other policies were taken already. */
static inline uint64_t sim_take_rows(struct sim *s, const struct dispatch *d, struct request *req,
                                     bool is_last) {
        uint64_t rows = request_rows(req);

        if (!s->policy->assigns_batches)
                return rows;
        if (is_last && d->part_rows > 0)
                rows = d->part_rows;
        if (rows == request_rows(req)) {
                assert_true(request_queue_remove(&s->queue, req));
        } else {
                request_queue_begin_parts(&s->queue, req, rows);
                req->batch_size -= rows;
        }
        return rows;
}

static inline void sim_start(struct sim *s, const struct dispatch *d) {
        unsigned         at = (unsigned)(d->on - s->instances);
        struct request  *first = s->policy->assigns_batches
                                         ? d->requests
                                         : request_queue_take(&s->queue, d->n_requests);
        struct sim_start start = { .at_us = s->now_us, .instance = at, .n = d->n_requests };

        assert_true(at < s->n_instances && s->running[at] == 0);
        start.first = sim_number(s, first);
        start.n = 0;
        for (struct request *req = first, *next; req != NULL; req = next) {
                next = req->queued.next;
                assert_true(start.n < SIM_MAX_BATCH);
                start.all[start.n++] = sim_number(s, req);
                start.rows += sim_take_rows(s, d, req, next == NULL);
        }
        assert_in_range(start.rows, s->executors[at].min_rows, s->executors[at].max_rows);
        list_remove(&d->on->idle_node);
        s->running[at] = start.rows;
        instance_set_state_locked(&s->instances[at], INSTANCE_RUNNING);
        s->rows_running += start.rows;
        s->took_us[at] = s->cost(start.rows);
        sim_at(s, s->now_us + s->took_us[at], SIM_END, at);
        assert_true(s->n_starts < SIM_MAX_STARTS);
        s->reasons[s->n_starts] = d->reason;
        s->starts[s->n_starts++] = start;
}

static inline void sim_take_refused(struct sim *s) {
        for (struct refusal *r = s->policy->refused, *next; r != NULL; r = next) {
                next = r->next;
                assert_false(list_is_linked(&r->req->queued.node));
                error_free(r->why);
                free(r);
                s->n_refused++;
        }
        s->policy->refused = NULL;
}

static inline void sim_pump(struct sim *s) {
        while (!list_is_empty(&s->idle)) {
                struct sched_view view = sim_view(s);
                struct dispatch   d = s->policy->ops->decide(s->policy, &view, sim_ns(s->now_us));

                if (d.verdict == BATCH_WAIT) {
                        assert_true(d.wait_until_ns > sim_ns(s->now_us));
                        sim_at(s, (d.wait_until_ns - SIM_START_NS + NS_PER_US - 1) / NS_PER_US,
                               SIM_TIMER, 0);
                }
                if (d.verdict != BATCH_RUN)
                        return;
                assert_non_null(d.on);
                sim_start(s, &d);
        }
}

static inline void sim_arrive(struct sim *s, struct request *req) {
        struct sched_view view;

        req->times.request_start_ns = req->times.queue_start_ns = sim_ns(s->now_us);
        assert_ok(request_queue_push(&s->queue, req, sim_ns(s->now_us)), "push");
        view = sim_view(s);
        if (s->policy->ops->arrived != NULL)
                s->policy->ops->arrived(s->policy, &view, req);
}

static inline void sim_end(struct sim *s, unsigned at) {
        struct execution done = { .on = &s->instances[at],
                                  .rows = s->running[at],
                                  .took_ns = s->took_us[at] * NS_PER_US,
                                  .end_ns = sim_ns(s->now_us) };

        s->rows_running -= s->running[at];
        s->running[at] = 0;
        instance_set_state_locked(&s->instances[at], INSTANCE_FREE);
        s->instances[at].free_ns = done.end_ns;
        if (s->policy->ops->executed != NULL)
                s->policy->ops->executed(s->policy, &done);
        list_prepend(&s->idle, &s->instances[at].idle_node);
}

static inline struct sim_event sim_take_event(struct sim *s) {
        unsigned         best = 0;
        struct sim_event event;

        for (unsigned i = 1; i < s->n_events; i++) {
                const struct sim_event *a = &s->events[i], *b = &s->events[best];

                if (a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order))
                        best = i;
        }
        event = s->events[best];
        s->events[best] = s->events[--s->n_events];
        return event;
}

/* Runs the next event. Returns false when there is none. */
static inline bool sim_step(struct sim *s) {
        struct sim_event event;

        if (s->n_events == 0)
                return false;
        event = sim_take_event(s);
        s->now_us = event.at_us;
        if (event.kind == SIM_ARRIVAL)
                sim_arrive(s, s->requests[event.number]);
        else if (event.kind == SIM_END)
                sim_end(s, event.number);
        else if (event.kind == SIM_DRAIN)
                s->policy->ops->drain(s->policy, sim_ns(s->now_us));
        sim_pump(s);
        sim_take_refused(s);
        return true;
}

static inline void sim_run(struct sim *s) {
        while (sim_step(s))
                continue;
}

/* "0 r0+1 i0, 250 r1+2 i0": time, first request and number of rows, instance. */
static inline void assert_starts(const struct sim *s, const char *expected) {
        char   got[1024] = "";
        size_t len = 0;

        for (unsigned i = 0; i < s->n_starts; i++) {
                const struct sim_start *start = &s->starts[i];

                len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%llu r%u+%llu i%u",
                                        i > 0 ? ", " : "", (unsigned long long)start->at_us,
                                        start->first, (unsigned long long)start->rows,
                                        start->instance);
                assert_true(len < sizeof(got));
        }
        assert_string_equal(got, expected);
}

/* Requests of one row for a model with input X of dims [1], reused by one simulation after the
 * other. */
struct sim_pool {
        struct fake_model *fake;
        struct request    *requests[SIM_MAX_REQUESTS];
};

static inline void sim_pool_open(struct sim_pool *p, const char *config) {
        p->fake = fake_model_new(config);
        for (unsigned i = 0; i < SIM_MAX_REQUESTS; i++) {
                p->requests[i] = fake_request(p->fake);
                add_zeroed_input(p->requests[i], "X", DATA_TYPE_FP32, (int64_t[]){ 1, 1 }, 2);
                assert_ok(request_prepare(p->requests[i]), "prepare");
        }
}

static inline void sim_pool_close(struct sim_pool *p) {
        for (unsigned i = 0; i < SIM_MAX_REQUESTS; i++)
                request_free(p->requests[i]);
        fake_model_free(p->fake);
}
