/* SPDX-License-Identifier: BSD-3-Clause */
/* Iterative sequences that end before their backend has ended them: a closing execution shows the end.
 *
 * An execution is written as one word per request: its name ("-" for one that the server made), its
 * flags, its correlation id, and "!" when it is cancelled. "a:s0e1c7!" has START 0, END 1, CORRID 7.
 */
#include "suite.h"

#include "base/mem.h"
#include "infer/model_generations.h"
#include "sequence/sequence_fixture.h"

#include <inttypes.h>

#define NEVER_IDLE "max_sequence_idle_microseconds: 3600000000 "
#define MODEL(batch, dims, type, more)                                                             \
        "name: 'm' max_batch_size: " #batch " input { name: 'X' data_type: TYPE_FP32 dims: " dims  \
        " } sequence_batching { iterative_sequence: true "                                         \
        "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START "                        \
        "int32_false_true: [ 0, 1 ] } } "                                                          \
        "control_input { name: 'E' control { kind: CONTROL_SEQUENCE_END "                          \
        "int32_false_true: [ 0, 1 ] } } "                                                          \
        "control_input { name: 'C' control { kind: CONTROL_SEQUENCE_CORRID data_type: " type       \
        " } } " more "} " NEVER_INLINE
#define DIRECT(batch, more) MODEL(batch, "1", "TYPE_UINT64", more)
#define OLDEST "oldest { max_candidate_sequences: 4 } "

/* What the executor of this file does; guarded by the fixture's lock. */
static struct plan {
        unsigned n_steps;         /* executions of a request until it is answered */
        unsigned cancel_in;       /* a request is cancelled during this step; 0: never */
        unsigned cancel_after;    /* it is cancelled after this step, before the next one */
        bool     ignores_cancels; /* the backend reschedules a cancelled request as any other */
} plan;

static const struct request_input *input_of(const struct request *req, const char *name) {
        const struct request_input *in = request_find_input(req, name);

        assert_non_null(in);
        return in;
}

static int32_t flag_of(const struct request *req, const char *name) {
        int32_t value;

        memcpy(&value, input_of(req, name)->only_chunk.base, sizeof(value));
        return value;
}

static size_t print_corrid(char *to, size_t room, const struct request *req) {
        const struct request_input *in = input_of(req, "C");
        const char                 *bytes = in->only_chunk.base;
        uint64_t                    number = 0;
        uint32_t                    len = 0;

        if (in->type == DATA_TYPE_BYTES) {
                memcpy(&len, bytes, sizeof(len));
                return (size_t)snprintf(to, room, "c'%.*s'", (int)len, bytes + sizeof(len));
        }
        memcpy(&number, bytes, in->byte_size);
        return (size_t)snprintf(to, room, "c%" PRIu64, number);
}

static void see(struct fake_executor *e, struct request **requests, uint32_t n) {
        char  *to = seen[n_seen];
        size_t len = 0, room = sizeof(seen[0]);

        (void)e;
        for (uint32_t i = 0; i < n; i++) {
                const struct request *req = requests[i];

                len += (size_t)snprintf(to + len, room - len, "%s%s:s%de%d", i > 0 ? " " : "",
                                        request_is_null(req) ? "-" : req->id, flag_of(req, "S"),
                                        flag_of(req, "E"));
                len += print_corrid(to + len, room - len, req);
                if (request_is_cancelled(req))
                        len += (size_t)snprintf(to + len, room - len, "!");
        }
        n_seen = (n_seen + 1) % FIXTURE_MAX_SEEN;
}

static void answer(struct request *req, const struct error *why) {
        struct response *r;

        error_free(response_new(req, &r));
        error_free(response_send(r, RESPONSE_FINAL, why));
        request_release(req, REQUEST_RELEASE_ALL);
}

static void step(struct fixture *fixture, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "the backend heard");
        struct ticket            *t = req->on_release_userp;
        bool                      is_null = request_is_null(req);
        unsigned                  at = is_null ? 0 : FIXTURE_GET(fixture, t->n_executions);
        struct plan               p = FIXTURE_GET(fixture, plan);

        if (request_is_cancelled(req) && !p.ignores_cancels) {
                answer(req, &cancelled);
                return;
        }
        if (!is_null && at == p.cancel_in)
                request_cancel(req);
        if ((is_null && !p.ignores_cancels) || at == p.n_steps) {
                answer(req, NULL);
                return;
        }
        request_release(req, REQUEST_RELEASE_RESCHEDULE);
        /* The instance executes this batch, so the request waits for the next one. */
        if (!is_null && at == p.cancel_after)
                request_cancel(req);
}

static void execute(struct executor *base, struct request **requests, uint32_t n) {
        struct fake_executor *e = CONTAINER_OF(base, struct fake_executor, base);
        struct fixture       *fixture = e->fixture;

        mutex_lock(&fixture->lock);
        fixture_note_batch(e, requests, n);
        while (e->is_held)
                cond_wait(&fixture->changed, &fixture->lock);
        e->is_running = false;
        mutex_unlock(&fixture->lock);
        for (uint32_t i = 0; i < n; i++)
                step(fixture, requests[i]);
}

static struct fixture *open_fixture(const char *config, unsigned n_steps) {
        static const struct executor_ops ops = { .execute = execute, .is_ready = fixture_is_ready };
        struct fixture                  *fixture = fixture_open_seeing(config, 1, see);

        plan = (struct plan){ .n_steps = n_steps };
        fixture->executors[0].base.ops = &ops;
        fixture->scheduler->ops->remove_executor(fixture->scheduler, &fixture->executors[0].base);
        assert_ok(fixture->scheduler->ops->add_executor(fixture->scheduler,
                                                        &fixture->executors[0].base),
                  "add");
        return fixture;
}

static uint64_t count_live(struct fixture *fixture) {
        struct sequence_count count = fixture->scheduler->sequences->count(fixture->scheduler);

        return count.n_active + count.n_backlog;
}

/* The next sequence gets the slot only after the one before has ended. */
static void assert_all_ended(struct fixture *fixture, unsigned at) {
        FIXTURE_SET(fixture, plan, (struct plan){ .n_steps = 1 });
        run_one(fixture, "z", 99, S | E);
        assert_seen(fixture, at, "z:s1e1c99");
        assert_int_equal(count_live(fixture), 0);
}

static void end_cancelled(struct ticket *t, const char *text) {
        assert_answer(t, ERR_CANCELLED, text);
        end_ticket(t);
}

/* An instance that leaves waits for the end of its sequences. */
static void wait_until_ended(struct fixture *fixture) {
        fixture->scheduler->ops->remove_executor(fixture->scheduler, &fixture->executors[0].base);
        assert_int_equal(count_live(fixture), 0);
}

#define HEARD "the backend heard"

/* ---- the cancelled request is the last one ---------------------------------------------------- */

static void check_between_steps(const char *config) {
        struct fixture *fixture = open_fixture(config, 9);

        FIXTURE_SET(fixture, plan.cancel_after, 2);
        end_cancelled(submit(fixture, "a", 0, 0), HEARD);
        assert_seen(fixture, 0, "a:s1e0c1");
        assert_seen(fixture, 1, "a:s0e0c1");
        assert_seen(fixture, 2, "a:s0e1c1!");
        assert_all_ended(fixture, 3);
        fixture_close(fixture);
}

static void test_cancelled_between_steps(void **state) {
        (void)state;
        check_between_steps(DIRECT(1, NEVER_IDLE));
        check_between_steps(DIRECT(4, NEVER_IDLE));
        check_between_steps(DIRECT(4, NEVER_IDLE OLDEST));
}

/* The backend has the request when it is cancelled, and reschedules it nevertheless. */
static void test_cancelled_in_a_step(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(4, NEVER_IDLE OLDEST), 9);

        (void)state;
        FIXTURE_SET(fixture, plan.cancel_in, 1);
        end_cancelled(submit(fixture, "a", 7, S | E), HEARD);
        assert_seen(fixture, 0, "a:s1e1c7");
        assert_seen(fixture, 1, "a:s0e1c7!");
        assert_all_ended(fixture, 2);
        fixture_close(fixture);
}

/* The backend ends the request itself in the step in which it is cancelled. */
static void test_cancelled_in_the_last_step(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);

        (void)state;
        FIXTURE_SET(fixture, plan.cancel_in, 1);
        run_one(fixture, "a", 0, 0);
        assert_seen(fixture, 0, "a:s1e0c1");
        assert_all_ended(fixture, 1);
        fixture_close(fixture);
}

/* The rest of the sequence is given up before the closing execution, and the id may start again. */
static void test_later_requests(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 9);
        struct ticket  *t[3];

        (void)state;
        FIXTURE_SET(fixture, plan.cancel_after, 1);
        hold(fixture, 0);
        t[0] = submit(fixture, "a", 7, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        t[1] = submit(fixture, "b", 7, 0);
        t[2] = submit(fixture, "c", 8, S | E);
        let_go(fixture, 0);
        end_cancelled(t[1], "");
        end_cancelled(t[0], HEARD);
        end_cancelled(t[2], HEARD);
        assert_seen(fixture, 0, "a:s1e0c7");
        assert_seen(fixture, 1, "a:s0e1c7!");
        assert_seen(fixture, 2, "c:s1e1c8");
        assert_seen(fixture, 3, "c:s0e1c8!");
        FIXTURE_SET(fixture, plan, (struct plan){ .n_steps = 1 });
        run_one(fixture, "d", 7, S | E);
        assert_seen(fixture, 4, "d:s1e1c7");
        assert_int_equal(count_live(fixture), 0);
        fixture_close(fixture);
}

/* Requests of other sequences are in the batch of a closing execution. */
static void test_closing_in_a_batch(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(2, NEVER_IDLE), 2);
        struct ticket  *a, *b;

        (void)state;
        FIXTURE_SET(fixture, plan.cancel_in, 1);
        hold(fixture, 0);
        a = submit(fixture, "a", 0, 0);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        b = submit(fixture, "b", 0, 0);
        let_go(fixture, 0);
        end_cancelled(a, HEARD);
        end_cancelled(b, HEARD);
        assert_seen(fixture, 1, "a:s0e1c1! b:s1e0c2");
        assert_seen(fixture, 2, "-:s0e0c0 b:s0e1c2!");
        assert_all_ended(fixture, 3);
        fixture_close(fixture);
}

/* A second release for another execution is not possible. */
static void test_closing_is_not_repeated(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 9);

        (void)state;
        FIXTURE_SET(fixture, plan.cancel_after, 1);
        FIXTURE_SET(fixture, plan.ignores_cancels, true);
        end_cancelled(submit(fixture, "a", 0, 0), "");
        assert_seen(fixture, 1, "a:s0e1c1!");
        assert_all_ended(fixture, 2);
        fixture_close(fixture);
}

/* The backend knows no sequence that it has not executed. */
static void test_never_executed(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(2, NEVER_IDLE), 1);
        struct ticket  *a, *b;

        (void)state;
        hold(fixture, 0);
        a = submit(fixture, "a", 0, 0);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        b = submit(fixture, "b", 0, 0);
        request_cancel(b->req);
        assert_int_equal(FIXTURE_GET(fixture, b->n_releases), 1);
        end_cancelled(b, "");
        let_go(fixture, 0);
        end_ticket(a);
        assert_all_ended(fixture, 1);
        fixture_close(fixture);
}

/* A request that was not executed yet, of a sequence that the backend knows. */
static void test_second_request(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(2, NEVER_IDLE), 1);
        struct ticket  *a, *b;

        (void)state;
        run_one(fixture, "a1", 7, S);
        hold(fixture, 0);
        b = submit(fixture, "b1", 8, S | E);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 2);
        a = submit(fixture, "a2", 7, 0);
        request_cancel(a->req);
        request_cancel(a->req);
        let_go(fixture, 0);
        end_cancelled(a, HEARD);
        end_ticket(b);
        assert_seen(fixture, 0, "a1:s1e0c7");
        assert_seen(fixture, 2, "a2:s0e1c7!");
        assert_all_ended(fixture, 3);
        fixture_close(fixture);
}

/* ---- the server makes the last request -------------------------------------------------------- */

static void check_idle_end(const char *config, const char *text, const char *first,
                           const char *last) {
        struct fixture *fixture = open_fixture(config, 1);
        struct ticket  *t = call_new(fixture, &(struct call){ "a", text != NULL ? 0 : 7, text, S });

        ticket_submit(t);
        assert_success(t);
        end_ticket(t);
        assert_seen(fixture, 0, first);
        assert_seen(fixture, 1, last); /* the idle time has passed */
        wait_until_ended(fixture);
        assert_int_equal(FIXTURE_GET(fixture, n_seen), 2);
        fixture_close(fixture);
}

#define SOON_IDLE "max_sequence_idle_microseconds: 2000 "

static void test_idle_end(void **state) {
        (void)state;
        check_idle_end(DIRECT(1, SOON_IDLE), NULL, "a:s1e0c7", "-:s0e1c7!");
        check_idle_end(DIRECT(4, SOON_IDLE OLDEST), NULL, "a:s1e0c7", "-:s0e1c7!");
        check_idle_end(MODEL(4, "-1", "TYPE_STRING", SOON_IDLE), "anna", "a:s1e0c'anna'",
                       "-:s0e1c'anna'!");
        check_idle_end(MODEL(0, "1", "TYPE_STRING", SOON_IDLE), "anna", "a:s1e0c'anna'",
                       "-:s0e1c'anna'!");
}

/* A server that stops, a second unload. */
static void test_end_of_idle_sequences(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(4, NEVER_IDLE), 1);

        (void)state;
        run_one(fixture, "a", 7, S);
        run_one(fixture, "b", 8, S);
        run_one(fixture, "c", 9, S | E);
        fixture->scheduler->sequences->end_idle(fixture->scheduler);
        wait_until_ended(fixture);
        assert_null(strstr(seen[3], "c9"));
        assert_non_null(strstr(seen[3], "!"));
        fixture_close(fixture);
}

/* A replaced model is kept until its backend has seen the end of the last sequence. */
static void test_retired(void **state) {
        struct fixture           *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);
        struct model_generations *line = model_generations_new();
        struct ticket            *probe = call_new(fixture, &(struct call){ "p", 7, NULL, S });
        struct model             *kept;

        (void)state;
        model_generations_join(line, &fixture->fake->model);
        run_one(fixture, "a", 7, S);
        model_generations_retire(&fixture->fake->model);
        hold(fixture, 0);
        fixture->scheduler->sequences->forget(fixture->scheduler, probe->req);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 2);
        assert_false(fixture->scheduler->sequences->knows(fixture->scheduler, probe->req));
        assert_int_equal(count_live(fixture), 1);
        kept = model_generations_find_retired(line, -1);
        assert_ptr_equal(kept, &fixture->fake->model);
        model_unref(kept);
        let_go(fixture, 0);
        wait_until_ended(fixture);
        assert_seen(fixture, 1, "-:s0e1c7!");
        request_free(probe->req);
        free(probe);
        fixture->scheduler->ops->free(fixture->scheduler); /* waits for the instance's thread */
        fixture->scheduler = fixture->fake->model.scheduler = NULL;
        assert_null(model_generations_find_retired(line, -1));
        model_generations_unref(STEAL(fixture->fake->model.generations));
        model_generations_unref(line);
        fixture_close(fixture);
}

/* A request behind the one that runs was cancelled: the sequence gets no END from its client. */
static void test_waiting_request(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);
        struct ticket  *a, *b;

        (void)state;
        hold(fixture, 0);
        a = submit(fixture, "a", 7, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        b = submit(fixture, "b", 7, E);
        request_cancel(b->req);
        end_cancelled(b, "");
        let_go(fixture, 0);
        assert_success(a);
        end_ticket(a);
        assert_seen(fixture, 1, "-:s0e1c7!");
        assert_all_ended(fixture, 2);
        fixture_close(fixture);
}

/* The backend reschedules the server's request. */
static void test_own_request_is_not_repeated(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);

        (void)state;
        FIXTURE_SET(fixture, plan.ignores_cancels, true);
        run_one(fixture, "a", 7, S);
        fixture->scheduler->sequences->end_idle(fixture->scheduler);
        wait_until_ended(fixture);
        assert_seen(fixture, 1, "-:s0e1c7!");
        assert_int_equal(FIXTURE_GET(fixture, n_seen), 2);
        fixture_close(fixture);
}

/* Only iterative models have closing executions. */
static void test_not_iterative(void **state) {
        struct fixture *fixture = open_fixture("name: 'm' max_batch_size: 2 "
                                               "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
                                               "sequence_batching { " NEVER_IDLE "} " NEVER_INLINE,
                                               1);
        struct ticket  *a, *b;

        (void)state;
        fixture->before_batch = NULL;
        run_one(fixture, "a1", 7, S);
        hold(fixture, 0);
        b = submit(fixture, "b1", 8, S | E);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 2);
        a = submit(fixture, "a2", 7, 0);
        request_cancel(a->req);
        end_cancelled(a, "");
        let_go(fixture, 0);
        end_ticket(b);
        run_one(fixture, "c1", 9, S);
        fixture->scheduler->sequences->end_idle(fixture->scheduler);
        assert_int_equal(count_live(fixture), 0);
        assert_int_equal(FIXTURE_GET(fixture, fixture->executors[0].n_started), 3);
        fixture_close(fixture);
}

/* Without memory for the server's request the sequence ends nevertheless. */
static void test_without_memory(void **state) {
        (void)state;
        for (unsigned nth = 1;; nth++) {
                struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);
                bool            has_failed;

                run_one(fixture, "a", 7, S);
                mem_fail_after(nth);
                fixture->scheduler->sequences->end_idle(fixture->scheduler);
                has_failed = mem_fail_was_hit();
                mem_fail_after(0);
                wait_until_ended(fixture);
                fixture_close(fixture);
                if (!has_failed)
                        break;
        }
}

/* ---- many threads ----------------------------------------------------------------------------- */

#define N_THREADS 4
#define N_EACH 400
#define N_IDS (N_EACH / 5)
#define FIRST_ID 1000000 /* above all ids that the server gives */
#define N_AT_ONCE 12

/* What a backend keeps of its sequences; guarded by the fixture's lock. */
static struct {
        bool     is_open[N_THREADS * N_IDS];
        bool     is_own_open[N_THREADS * N_EACH + 1]; /* of requests without an id */
        unsigned n_open, n_closed;
} kept;

static bool *kept_of(const struct request *req) {
        uint64_t id;

        memcpy(&id, input_of(req, "C")->only_chunk.base, sizeof(id));
        return id >= FIRST_ID ? &kept.is_open[id - FIRST_ID] : &kept.is_own_open[id];
}

static void keep(struct fake_executor *e, struct request **requests, uint32_t n) {
        (void)e;
        for (uint32_t i = 0; i < n; i++) {
                bool *is_open = kept_of(requests[i]);

                if (flag_of(requests[i], "R") == 0)
                        continue; /* it fills a slot */
                kept.n_open += !*is_open;
                *is_open = true;
        }
}

static void forget(struct fixture *fixture, const struct request *req, bool is_closing) {
        mutex_lock(&fixture->lock);
        *kept_of(req) = false;
        kept.n_open--;
        kept.n_closed += is_closing;
        mutex_unlock(&fixture->lock);
}

/* A request takes as many steps as its id tells. The backend forgets a sequence with the last step of
 * a request that has END or no id of a client, and with a closing execution. */
static void generate(struct fixture *fixture, struct request *req) {
        struct ticket *t = req->on_release_userp;
        bool           ends = flag_of(req, "E") != 0;

        if (flag_of(req, "R") == 0) {
                answer(req, NULL);
        } else if (ends && request_is_cancelled(req)) {
                forget(fixture, req, true);
                answer(req, NULL);
        } else if (FIXTURE_GET(fixture, t->n_executions) < 1 + t->sequence_id % 3) {
                request_release(req, REQUEST_RELEASE_RESCHEDULE);
        } else {
                if (t->sequence_id < FIRST_ID || (t->sequence_flags & E) != 0)
                        forget(fixture, req, false);
                answer(req, NULL);
        }
}

static void execute_all(struct executor *base, struct request **requests, uint32_t n) {
        struct fake_executor *e = CONTAINER_OF(base, struct fake_executor, base);

        mutex_lock(&e->fixture->lock);
        fixture_note_batch(e, requests, n);
        e->is_running = false;
        mutex_unlock(&e->fixture->lock);
        for (uint32_t i = 0; i < n; i++)
                generate(e->fixture, requests[i]);
}

struct client {
        struct thread   thread;
        struct fixture *fixture;
        unsigned        number;
        struct ticket  *tickets[N_EACH];
        unsigned        n_refused;
        bool            is_stuck;
};

static void submit_one(struct client *c, unsigned i) {
        struct ticket *t = c->tickets[i];
        struct error  *err;

        if (i % 5 == 4) { /* a sequence of its own */
                t->sequence_id = i;
        } else { /* one of four requests of a sequence, which may lack END */
                t->sequence_id = t->req->correlation.number = FIRST_ID + c->number * N_IDS + i / 5;
                t->sequence_flags = (i % 5 == 0 ? S : 0) | (i % 5 == 3 && i % 2 == 0 ? E : 0);
        }
        t->req->flags = t->sequence_flags;
        err = ticket_try_submit(t);
        if (err != NULL) { /* the sequence has ended */
                c->n_refused++;
                error_free(err);
                FIXTURE_SET(c->fixture, t->n_releases, 1);
        }
        if (i % 4 == 3)
                request_cancel(c->tickets[i - i % 5 / 2]->req);
}

static void client_main(void *arg) {
        struct client *c = arg;

        for (unsigned i = 0; i < N_EACH && !c->is_stuck; i++) {
                submit_one(c, i);
                if (i >= N_AT_ONCE)
                        c->is_stuck = !ticket_wait_released(c->tickets[i - N_AT_ONCE]);
        }
        for (unsigned i = 0; i < N_EACH && !c->is_stuck; i++)
                c->is_stuck = !ticket_wait_released(c->tickets[i]);
}

static void begin_client(struct client *c, struct fixture *fixture, unsigned number) {
        *c = (struct client){ .fixture = fixture, .number = number };
        for (unsigned i = 0; i < N_EACH; i++)
                c->tickets[i] = call_new(fixture, &(struct call){ "s", 0, NULL, 0 });
        assert_ok(thread_start(&c->thread, "client", client_main, c), "thread");
}

static void end_client(struct client *c) {
        assert_false(c->is_stuck);
        for (unsigned i = 0; i < N_EACH; i++) {
                assert_int_equal(c->tickets[i]->n_releases, 1);
                request_free(c->tickets[i]->req);
                free(c->tickets[i]);
        }
}

/* Whatever is cancelled when: in the end the backend keeps nothing. */
static void check_stress(const char *config) {
        static const struct executor_ops ops = { .execute = execute_all,
                                                 .is_ready = fixture_is_ready };
        static struct client             clients[N_THREADS];
        struct fixture                  *fixture = open_fixture(config, 0);

        memset(&kept, 0, sizeof(kept));
        fixture->before_batch = keep;
        wait_until_ended(fixture);
        fixture->executors[0].base.ops = &ops;
        assert_ok(fixture->scheduler->ops->add_executor(fixture->scheduler,
                                                        &fixture->executors[0].base),
                  "add");
        for (unsigned i = 0; i < N_THREADS; i++)
                begin_client(&clients[i], fixture, i);
        for (unsigned i = 0; i < N_THREADS; i++)
                thread_join(&clients[i].thread);
        for (unsigned i = 0; i < N_THREADS; i++)
                end_client(&clients[i]);
        fixture->scheduler->sequences->end_idle(fixture->scheduler);
        wait_until_ended(fixture);
        assert_int_equal(FIXTURE_GET(fixture, kept.n_open), 0);
        assert_in_range(kept.n_closed, 10, N_THREADS * N_EACH);
        fixture_close(fixture);
}

#define READY                                                                                      \
        "control_input { name: 'R' control { kind: CONTROL_SEQUENCE_READY "                        \
        "int32_false_true: [ 0, 1 ] } } "

static void test_stress(void **state) {
        (void)state;
        check_stress(DIRECT(1, READY "max_sequence_idle_microseconds: 300 "));
        check_stress(DIRECT(4, READY "max_sequence_idle_microseconds: 300 "));
        check_stress(DIRECT(4, READY NEVER_IDLE "oldest { max_candidate_sequences: 64 "
                                                "max_queue_delay_microseconds: 50 } "));
}

SUITE(sequence_closing) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cancelled_between_steps),
                cmocka_unit_test(test_cancelled_in_a_step),
                cmocka_unit_test(test_cancelled_in_the_last_step),
                cmocka_unit_test(test_later_requests),
                cmocka_unit_test(test_closing_in_a_batch),
                cmocka_unit_test(test_closing_is_not_repeated),
                cmocka_unit_test(test_never_executed),
                cmocka_unit_test(test_second_request),
                cmocka_unit_test(test_idle_end),
                cmocka_unit_test(test_end_of_idle_sequences),
                cmocka_unit_test(test_retired),
                cmocka_unit_test(test_waiting_request),
                cmocka_unit_test(test_own_request_is_not_repeated),
                cmocka_unit_test(test_not_iterative),
                cmocka_unit_test(test_without_memory),
                cmocka_unit_test(test_stress),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
