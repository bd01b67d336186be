/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of sequences in a fixture (scheduler_fixture.h), what their executions saw, and a model that asks for more
 * executions.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "sched/scheduler_fixture.h"

#define NEVER_INLINE "parameters { key: 'inline_execution' value { string_value: 'never' } } "

#define S REQUEST_SEQUENCE_START
#define E REQUEST_SEQUENCE_END

/* ---- requests -------------------------------------------------------------------------------- */

struct call {
        const char *name;
        uint64_t    id;
        const char *text; /* instead of the id; NULL: the id */
        unsigned    flags;
};

static inline struct ticket *call_new(struct fixture *fixture, const struct call *c) {
        struct ticket *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        ticket_init(t, fixture, c->name);
        t->req->correlation.number = t->sequence_id = c->id;
        if (c->text != NULL)
                assert_ok(request_set_correlation_text(t->req, c->text), c->text);
        t->req->flags = t->sequence_flags = c->flags;
        return t;
}

static inline struct ticket *submit(struct fixture *fixture, const char *name, uint64_t id,
                                    unsigned flags) {
        struct ticket *t = call_new(fixture, &(struct call){ name, id, NULL, flags });

        ticket_submit(t);
        return t;
}

/* Answered and released once; its request is as it was. */
static inline void end_ticket(struct ticket *t) {
        WAIT_FOR(t->fixture, t->n_finals > 0 && t->n_releases > 0);
        assert_int_equal(FIXTURE_GET(t->fixture, t->n_finals), 1);
        assert_int_equal(FIXTURE_GET(t->fixture, t->n_releases), 1);
        assert_int_equal(t->req->n_inputs, 1);
        assert_null(t->req->first_input->next);
        assert_false(t->req->has_states);
        assert_int_equal(t->req->flags, t->sequence_flags);
        assert_int_equal(t->req->correlation.number, t->sequence_id);
        request_free(t->req);
        free(t);
}

static inline void run_one(struct fixture *fixture, const char *name, uint64_t id, unsigned flags) {
        struct ticket *t = submit(fixture, name, id, flags);

        assert_success(t);
        end_ticket(t);
}

/* ---- what the executions saw ----------------------------------------------------------------- */

#define FIXTURE_MAX_SEEN 32

/* A line for each execution, which the fixture's before_batch writes; guarded by the fixture's lock. */
static char     seen[FIXTURE_MAX_SEEN][256] UNUSED;
static unsigned n_seen UNUSED;

/* The fixture calls `see` before each execution. */
static inline struct fixture *fixture_open_seeing(const char *config, unsigned n_executors,
                                                  void (*see)(struct fake_executor *,
                                                              struct request **, uint32_t)) {
        struct fixture *fixture = fixture_open(config, n_executors, true);

        n_seen = 0;
        fixture->before_batch = see;
        return fixture;
}

#define assert_seen(fixture, at, text)                                                             \
        do {                                                                                       \
                char got_[sizeof(seen[0])];                                                        \
                WAIT_FOR(fixture, n_seen > (at));                                                  \
                mutex_lock(&(fixture)->lock);                                                      \
                memcpy(got_, seen[at], sizeof(got_));                                              \
                mutex_unlock(&(fixture)->lock);                                                    \
                assert_string_equal(got_, text);                                                   \
        } while (0)

/* ---- a model that reschedules ---------------------------------------------------------------- */

/* Each request is executed three times; it is answered in the last one. */
static inline void fixture_execute_thrice(struct executor *base, struct request **requests,
                                          uint32_t n) {
        struct fake_executor *e = CONTAINER_OF(base, struct fake_executor, base);
        struct fixture       *fixture = e->fixture;
        struct ticket        *t = requests[0]->on_release_userp;
        unsigned              n_executions;
        struct response      *r;

        assert_int_equal(n, 1);
        mutex_lock(&fixture->lock);
        fixture_note_batch(e, requests, n);
        e->is_running = false;
        n_executions = t->n_executions;
        mutex_unlock(&fixture->lock);
        if (n_executions < 3) {
                request_release(requests[0], REQUEST_RELEASE_RESCHEDULE);
                return;
        }
        error_free(response_new(requests[0], &r));
        error_free(response_send(r, RESPONSE_FINAL, NULL));
        request_release(requests[0], REQUEST_RELEASE_ALL);
}

static const struct executor_ops fixture_thrice_ops UNUSED = { .execute = fixture_execute_thrice,
                                                               .is_ready = fixture_is_ready };

/* The fixture's only executor has these functions from now on. */
static inline void fixture_reschedules(struct fixture *fixture, const struct executor_ops *ops) {
        fixture->executors[0].base.ops = ops;
        fixture->scheduler->ops->remove_executor(fixture->scheduler, &fixture->executors[0].base);
        assert_ok(fixture->scheduler->ops->add_executor(fixture->scheduler,
                                                        &fixture->executors[0].base),
                  "add");
}
