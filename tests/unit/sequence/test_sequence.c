/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences through the whole scheduler: what each execution gets, control inputs included.
 *
 * An execution is written as one word per request: its name ("-" for a null request), its flags, and the
 * control inputs. "a1:s1e0r1c7" has START 1, END 0, READY 1, CORRID 7.
 */
#include "suite.h"

#include "base/mem.h"
#include "observe/load_meter.h"
#include "sched/rate_limiter.h"
#include "sequence/sequence_fixture.h"

#include <inttypes.h>
#include <stdlib.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define ANY_X "input { name: 'X' data_type: TYPE_FP32 dims: -1 } "
#define CONTROLS                                                                                   \
        "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START "                        \
        "int32_false_true: [ 0, 1 ] } } "                                                          \
        "control_input { name: 'E' control { kind: CONTROL_SEQUENCE_END "                          \
        "fp32_false_true: [ 0, 1 ] } } "                                                           \
        "control_input { name: 'R' control { kind: CONTROL_SEQUENCE_READY "                        \
        "bool_false_true: [ false, true ] } } "
#define CORRID(type)                                                                               \
        "control_input { name: 'C' control { kind: CONTROL_SEQUENCE_CORRID data_type: " type " } " \
        "} "
#define DIRECT(batch, more)                                                                        \
        "name: 'm' max_batch_size: " #batch " " X                                                  \
        "sequence_batching { " CONTROLS CORRID("TYPE_UINT64") more "} "

static const void *value_of(const struct request *req, const char *name) {
        const struct request_input *in = request_find_input(req, name);

        if (in == NULL)
                return NULL;
        return in->only_chunk.base;
}

static size_t print_corrid(char *to, size_t room, const struct request *req) {
        const struct request_input *in = request_find_input(req, "C");
        const char                 *bytes;
        uint64_t                    number = 0;
        uint32_t                    len = 0;

        if (in == NULL)
                return 0;
        bytes = in->only_chunk.base;
        if (in->type == DATA_TYPE_BYTES) {
                memcpy(&len, bytes, sizeof(len));
                return (size_t)snprintf(to, room, "c'%.*s'%s", (int)len, bytes + sizeof(len),
                                        in->byte_size == len + sizeof(len) ? "" : "?");
        }
        memcpy(&number, bytes, in->byte_size);
        return (size_t)snprintf(to, room, "c%" PRIu64 "%s", number,
                                in->byte_size == data_type_size(in->type) ? "" : "?");
}

static void see(struct fake_executor *e, struct request **requests, uint32_t n) {
        char  *to = seen[n_seen];
        size_t len = 0;

        (void)e;
        for (uint32_t i = 0; i < n; i++) {
                const struct request *req = requests[i];
                size_t                room = sizeof(seen[0]) - len;
                int32_t               start = -1;
                float                 end = -1;
                unsigned              ready = 9;

                if (value_of(req, "S") != NULL) {
                        memcpy(&start, value_of(req, "S"), sizeof(start));
                        memcpy(&end, value_of(req, "E"), sizeof(end));
                        ready = *(const unsigned char *)value_of(req, "R");
                }
                len += (size_t)snprintf(to + len, room, "%s%s", i > 0 ? " " : "",
                                        request_is_null(req) ? "-" : req->id);
                if (start >= 0)
                        len += (size_t)snprintf(to + len, sizeof(seen[0]) - len, ":s%de%dr%u",
                                                start, (int)end, ready);
                len += print_corrid(to + len, sizeof(seen[0]) - len, req);
        }
        n_seen = (n_seen + 1) % FIXTURE_MAX_SEEN;
}

static struct fixture *open_fixture(const char *config, unsigned n_executors) {
        return fixture_open_seeing(config, n_executors, see);
}

static void test_controls_of_one_sequence(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, ""), 1);

        (void)state;
        run_one(fixture, "a1", 7, S);
        run_one(fixture, "a2", 7, 0);
        run_one(fixture, "a3", 7, E);
        run_one(fixture, "b1", UINT64_MAX, S | E);
        assert_seen(fixture, 0, "a1:s1e0r1c7");
        assert_seen(fixture, 1, "a2:s0e0r1c7");
        assert_seen(fixture, 2, "a3:s0e1r1c7");
        assert_seen(fixture, 3, "b1:s1e1r1c18446744073709551615");
        fixture_close(fixture);
}

static void test_types_of_corrid(void **state) {
        static const char *const types[] = { "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
                AUTO_CHARS      config = mem_printf("name: 'm' max_batch_size: 1 " X
                                                    "sequence_batching { control_input { name: 'C' "
                                                         "control { kind: CONTROL_SEQUENCE_CORRID data_type: "
                                                         "%s } } }",
                                                    types[i]);
                struct fixture *fixture = open_fixture(config, 1);

                run_one(fixture, "a", 4000000000u, S);
                assert_seen(fixture, 0, "ac4000000000");
                fixture_close(fixture);
        }
}

static void test_ids_that_are_texts(void **state) {
        struct fixture *fixture =
                open_fixture("name: 'm' max_batch_size: 2 " X
                             "sequence_batching { " CONTROLS CORRID("TYPE_STRING") "}",
                             1);
        struct ticket *a = call_new(fixture, &(struct call){ "a", 0, "x y", S });
        struct ticket *b = call_new(fixture, &(struct call){ "b", 0, "second", S | E });
        struct ticket *c = call_new(fixture, &(struct call){ "c", 5, NULL, S });

        (void)state;
        ticket_submit(a);
        assert_success(a);
        end_ticket(a);
        ticket_submit(b);
        assert_success(b);
        end_ticket(b);
        assert_seen(fixture, 0, "a:s1e0r1c'x y'");
        assert_seen(fixture, 1, "-:s0e0r0c'' b:s1e1r1c'second'");
        assert_error(ticket_try_submit(c), ERR_INVALID_ARG,
                     "[request id: c] sequence batching control 'C' data-type is 'UINT64', but "
                     "model 'm' expects 'BYTES'");
        request_free(c->req);
        free(c);
        fixture_close(fixture);
}

static void assert_refused(struct fixture *fixture, const struct call *c, uint64_t batch_size,
                           enum error_code code, const char *message) {
        struct ticket *t = call_new(fixture, c);

        if (batch_size > 0)
                t->req->batch_size = batch_size;
        assert_error(ticket_try_submit(t), code, message);
        request_free(t->req);
        free(t);
}

static void test_refusals(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(4, ""), 1);

        (void)state;
        assert_refused(fixture, &(struct call){ "a", 1, NULL, S }, 2, ERR_INVALID_ARG,
                       "inference request to model 'm' must specify batch-size 1 due to "
                       "requirements of sequence batcher");
        assert_refused(fixture, &(struct call){ "a", 0, NULL, S }, 0, ERR_INVALID_ARG,
                       "inference request to model 'm' must specify a non-zero or non-empty "
                       "correlation ID");
        assert_refused(fixture, &(struct call){ "a", 0, "", S }, 0, ERR_INVALID_ARG,
                       "inference request to model 'm' must specify a non-zero or non-empty "
                       "correlation ID");
        assert_refused(fixture, &(struct call){ "a", 3, NULL, E }, 0, ERR_INVALID_ARG,
                       "inference request for sequence 3 to model 'm' must specify the START flag "
                       "on the first request of the sequence");
        assert_refused(fixture, &(struct call){ "a", 0, "text", S }, 0, ERR_INVALID_ARG,
                       "[request id: a] sequence batching control 'C' data-type is 'BYTES', but "
                       "model 'm' expects 'UINT64'");
        run_one(fixture, "b", 3, S);
        fixture->scheduler->ops->drain(fixture->scheduler);
        assert_refused(fixture, &(struct call){ "c", 4, NULL, S }, 0, ERR_UNAVAILABLE,
                       "Server is stopping, scheduler for model has stopped accepting new "
                       "inference requests");
        run_one(fixture, "b", 3, 0); /* continues */
        fixture_close(fixture);
}

/* Four slots of one instance. The order in a batch is that of the slots, with null requests
 * between. */
static void test_null_requests(void **state) {
        struct fixture             *fixture = open_fixture(DIRECT(4, "") NEVER_INLINE, 1);
        struct ticket              *first, *t[4];
        struct model_stats_snapshot stats;

        (void)state;
        hold(fixture, 0);
        first = submit(fixture, "a1", 1, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        t[0] = submit(fixture, "b1", 2, S);
        t[1] = submit(fixture, "c1", 3, S);
        t[2] = submit(fixture, "d1", 4, S | E);
        let_go(fixture, 0);
        end_ticket(first);
        for (unsigned i = 0; i < 3; i++)
                end_ticket(t[i]);
        assert_seen(fixture, 0, "a1:s1e0r1c1");
        assert_seen(fixture, 1, "-:s0e0r0c0 b1:s1e0r1c2 c1:s1e0r1c3 d1:s1e1r1c4");
        /* Slot 3 is free again. */
        run_one(fixture, "a2", 1, 0);
        assert_seen(fixture, 2, "a2:s0e0r1c1 -:s0e0r0c0 -:s0e0r0c0");
        run_one(fixture, "c2", 3, E);
        assert_seen(fixture, 3, "-:s0e0r0c0 -:s0e0r0c0 c2:s0e1r1c3");
        run_one(fixture, "b2", 2, 0);
        assert_seen(fixture, 4, "-:s0e0r0c0 b2:s0e0r1c2");
        model_stats_read(fixture->fake->model.stats, &stats);
        assert_int_equal(stats.fail.count, 0);
        model_stats_snapshot_done(&stats);
        fixture_close(fixture);
}

static void set_shape(struct ticket *t, int64_t n) {
        request_remove_all_inputs(t->req);
        add_input(t->req, "X", DATA_TYPE_FP32, 1, n);
        assert_ok(request_prepare(t->req), "prepare");
}

/* A request with another shape than the first runs in a separate execution, with null requests in
 * the other slots. */
static void test_shapes(void **state) {
        struct fixture *fixture = open_fixture("name: 'm' max_batch_size: 3 " ANY_X
                                               "sequence_batching { " CONTROLS "} " NEVER_INLINE,
                                               1);
        struct ticket  *t[4];

        (void)state;
        hold(fixture, 0);
        t[0] = submit(fixture, "a1", 1, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        t[1] = call_new(fixture, &(struct call){ "b1", 2, NULL, S });
        t[2] = call_new(fixture, &(struct call){ "c1", 3, NULL, S });
        t[3] = call_new(fixture, &(struct call){ "a2", 1, NULL, 0 });
        set_shape(t[1], 5);
        for (unsigned i = 1; i < 4; i++)
                ticket_submit(t[i]);
        let_go(fixture, 0);
        for (unsigned i = 0; i < 4; i++)
                end_ticket(t[i]);
        assert_seen(fixture, 0, "a1:s1e0r1");
        assert_seen(fixture, 1, "a2:s0e0r1 -:s0e0r0 c1:s1e0r1");
        assert_seen(fixture, 2, "-:s0e0r0 b1:s1e0r1 -:s0e0r0");
        fixture_close(fixture);
}

/* Two instances with one slot each. A third sequence is in the backlog. */
static void test_slots_of_instances_and_backlog(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, "") NEVER_INLINE, 2);
        struct ticket  *a, *b, *c, *a2;

        (void)state;
        hold(fixture, 0);
        hold(fixture, 1);
        a = submit(fixture, "a1", 1, S);
        b = submit(fixture, "b1", 2, S);
        c = submit(fixture, "c1", 3, S | E);
        WAIT_FOR(fixture,
                 fixture->executors[0].n_started == 1 && fixture->executors[1].n_started == 1);
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 2);
        a2 = submit(fixture, "a2", 1, E);
        let_go(fixture, 0);
        end_ticket(a);
        end_ticket(a2);
        end_ticket(c);
        let_go(fixture, 1);
        end_ticket(b);
        assert_int_equal(fixture->executors[0].n_started, 3);
        assert_int_equal(fixture->executors[1].n_started, 1);
        fixture_close(fixture);
}

/* Seconds for which the oldest request waits, as the metrics page has it an hour from now. */
static double oldest_age_in_an_hour(struct fixture *fixture) {
        static const char line[] = "\nneso_oldest_request_age_seconds{model=\"m\",version=\"1\"} ";
        AUTO_STRBUF       out;
        const char       *at;

        load_meter_measure(fixture->fake->metrics, clock_now_ns() + 3600 * NS_PER_S);
        strbuf_init(&out, 0);
        metric_registry_print(fixture->fake->registry, &out);
        at = strstr(strbuf_cstr(&out), line);
        assert_non_null(at);
        return strtod(at + strlen(line), NULL);
}

/* A request that waits for a slot is in no engine's queue. */
static void test_age_in_the_backlog(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, "") NEVER_INLINE, 1);
        struct ticket  *a, *b;

        (void)state;
        model_stats_show(fixture->fake->model.stats, 1);
        hold(fixture, 0);
        a = submit(fixture, "a1", 1, S | E);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        assert_true(oldest_age_in_an_hour(fixture) == 0);
        b = submit(fixture, "b1", 2, S | E);
        assert_true(oldest_age_in_an_hour(fixture) >= 3600);
        let_go(fixture, 0);
        end_ticket(a);
        end_ticket(b);
        assert_true(oldest_age_in_an_hour(fixture) == 0);
        model_stats_hide(fixture->fake->model.stats);
        fixture_close(fixture);
}

/* The timer ends an idle sequence. The backlog continues without another event. */
static void test_idle_time(void **state) {
        struct fixture *fixture =
                open_fixture(DIRECT(1, "max_sequence_idle_microseconds: 2000 "), 1);
        struct ticket *b;

        (void)state;
        run_one(fixture, "a1", 1, S);
        b = submit(fixture, "b1", 2, S | E);
        assert_success(b);
        end_ticket(b);
        assert_refused(fixture, &(struct call){ "a2", 1, NULL, 0 }, 0, ERR_INVALID_ARG,
                       "inference request for sequence 1 to model 'm' must specify the START flag "
                       "on the first request of the sequence");
        fixture_close(fixture);
}

static void test_timeout_in_the_backlog(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, ""), 1);
        struct ticket  *b, *b2;

        (void)state;
        run_one(fixture, "a1", 1, S);
        b = call_new(fixture, &(struct call){ "b1", 2, NULL, S });
        b2 = call_new(fixture, &(struct call){ "b2", 2, NULL, 0 });
        b2->req->timeout_us = 1000;
        ticket_submit(b);
        ticket_submit(b2);
        assert_answer(b, ERR_UNAVAILABLE, "timeout of the corresponding sequence has been expired");
        assert_answer(b2, ERR_UNAVAILABLE,
                      "timeout of the corresponding sequence has been expired");
        end_ticket(b);
        end_ticket(b2);
        run_one(fixture, "a2", 1, E);
        fixture_close(fixture);
}

static void test_cancellation(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, "") NEVER_INLINE, 1);
        struct ticket  *t[5];

        (void)state;
        hold(fixture, 0);
        t[0] = submit(fixture, "a1", 1, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        t[1] = submit(fixture, "a2", 1, 0);
        t[2] = submit(fixture, "a3", 1, 0);
        t[3] = submit(fixture, "b1", 2, S);
        t[4] = submit(fixture, "b2", 2, E);
        request_cancel(t[1]->req); /* and the rest of its sequence */
        assert_answer(t[1], ERR_CANCELLED, "");
        assert_answer(t[2], ERR_CANCELLED, "");
        assert_refused(fixture, &(struct call){ "a4", 1, NULL, 0 }, 0, ERR_INVALID_ARG,
                       "inference request for sequence 1 to model 'm' must specify the START flag "
                       "on the first request of the sequence");
        let_go(fixture, 0);
        assert_success(t[0]);
        assert_success(t[3]);
        assert_success(t[4]);
        end_ticket(t[0]);
        end_ticket(t[1]);
        end_ticket(t[2]);
        end_ticket(t[3]);
        end_ticket(t[4]);
        fixture_close(fixture);
}

/* A request that waits in an instance's engine is cancelled there, with the rest of its sequence. */
static void test_cancellation_in_the_engine(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(2, "") NEVER_INLINE, 1);
        struct ticket  *t[4];

        (void)state;
        hold(fixture, 0);
        t[0] = submit(fixture, "a1", 1, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        t[1] = submit(fixture, "b1", 2, S);
        t[2] = submit(fixture, "b2", 2, 0);
        t[3] = submit(fixture, "c1", 3, S | E);
        request_cancel(t[1]->req);
        assert_answer(t[1], ERR_CANCELLED, "");
        assert_answer(t[2], ERR_CANCELLED, "");
        let_go(fixture, 0);
        assert_success(t[3]); /* in the slot of the cancelled one */
        assert_seen(fixture, 1, "-:s0e0r0c0 c1:s1e1r1c3");
        end_ticket(t[0]);
        end_ticket(t[1]);
        end_ticket(t[2]);
        end_ticket(t[3]);
        fixture_close(fixture);
}

/* Three of four slots, utilization 0.75: two requests wait, the third starts them all. */
static void test_minimum_slot_utilization(void **state) {
        struct fixture *fixture =
                open_fixture(DIRECT(4, "direct { max_queue_delay_microseconds: 3600000000 "
                                       "minimum_slot_utilization: 0.75 } ") NEVER_INLINE,
                             1);
        struct ticket *t[3];

        (void)state;
        t[0] = submit(fixture, "a1", 1, S);
        t[1] = submit(fixture, "b1", 2, S);
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 0);
        t[2] = submit(fixture, "c1", 3, S);
        for (unsigned i = 0; i < 3; i++)
                end_ticket(t[i]);
        assert_seen(fixture, 0, "a1:s1e0r1c1 b1:s1e0r1c2 c1:s1e0r1c3");
        fixture_close(fixture);
}

/* The delay ends the wait for more. */
static void test_queue_delay(void **state) {
        struct fixture *fixture =
                open_fixture(DIRECT(4, "direct { max_queue_delay_microseconds: 3000 "
                                       "minimum_slot_utilization: 1 } "),
                             1);
        uint64_t before_ns = clock_now_ns();

        (void)state;
        run_one(fixture, "a1", 1, S);
        assert_true(clock_now_ns() - before_ns >= 3000 * NS_PER_US);
        fixture_close(fixture);
}

/* The batcher has one request of a sequence at a time. */
static void test_oldest(void **state) {
        struct fixture *fixture = open_fixture(
                "name: 'm' max_batch_size: 4 " X "sequence_batching { " CONTROLS CORRID(
                        "TYPE_UINT64") "oldest { max_candidate_sequences: 3 "
                                       "preferred_batch_size: [ 3 ] "
                                       "max_queue_delay_microseconds: 3600000000 } } " NEVER_INLINE,
                1);
        struct ticket *t[5];

        (void)state;
        t[0] = submit(fixture, "a1", 1, S);
        t[1] = submit(fixture, "a2", 1, E);
        t[2] = submit(fixture, "b1", 2, S | E);
        t[3] = submit(fixture, "d1", 4, S);     /* the third candidate */
        t[4] = submit(fixture, "e1", 5, S | E); /* in the backlog */
        assert_success(t[0]);
        assert_success(t[2]);
        assert_success(t[3]);
        assert_seen(fixture, 0, "a1:s1e0r1c1 b1:s1e1r1c2 d1:s1e0r1c4");
        struct ticket *d2 = submit(fixture, "d2", 4, E);

        for (unsigned i = 0; i < 5; i++)
                assert_success(t[i]);
        WAIT_FOR(fixture, n_seen == 2);
        for (unsigned i = 0; i < 5; i++)
                end_ticket(t[i]);
        end_ticket(d2);
        fixture_close(fixture);
}

/* Nothing runs before this many requests have slots and this many wait in the backlog, once. */
static void test_held_back(void **state) {
        struct fixture *fixture;
        struct ticket  *t[5];

        (void)state;
        assert_int_equal(setenv("TRITONSERVER_DELAY_SCHEDULER", "3", 1), 0);
        assert_int_equal(setenv("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", "2", 1), 0);
        fixture = open_fixture(DIRECT(2, ""), 1);
        assert_int_equal(unsetenv("TRITONSERVER_DELAY_SCHEDULER"), 0);
        assert_int_equal(unsetenv("TRITONSERVER_BACKLOG_DELAY_SCHEDULER"), 0);
        t[0] = submit(fixture, "a1", 1, S);
        t[1] = submit(fixture, "b1", 2, S | E);
        t[2] = submit(fixture, "a2", 1, E);
        t[3] = submit(fixture, "c1", 3, S | E);
        assert_int_equal(FIXTURE_GET(fixture, fixture->n_batches), 0);
        t[4] = submit(fixture, "d1", 4, S | E);
        end_ticket(t[0]);
        end_ticket(t[1]);
        end_ticket(t[2]);
        end_ticket(t[3]);
        end_ticket(t[4]);
        assert_seen(fixture, 0, "a1:s1e0r1c1 b1:s1e1r1c2");
        run_one(fixture, "e1", 5, S | E);
        fixture_close(fixture);
}

static struct {
        struct fixture *fixture;
        uint32_t        n_holders; /* of the model, when the request has gone */
} freeing;

static void free_at_release(struct request *req, uint32_t flags, void *userp) {
        fixture_on_release(req, flags, userp);
        request_free(req);
        freeing.n_holders = atomic_load(&freeing.fixture->fake->model.ref.count);
}

/* The only request ends within its submission. The submitter still holds the model, and so the
 * scheduler, which it asks afterwards whether enough requests are there. */
static void test_held_back_without_requests(void **state) {
        struct fixture *fixture;
        struct ticket  *t;

        (void)state;
        assert_int_equal(setenv("TRITONSERVER_DELAY_SCHEDULER", "3", 1), 0);
        fixture = freeing.fixture = open_fixture(DIRECT(2, ""), 1);
        assert_int_equal(unsetenv("TRITONSERVER_DELAY_SCHEDULER"), 0);
        t = call_new(fixture, &(struct call){ "a1", 1, NULL, S });
        t->req->on_release = free_at_release;
        request_cancel(t->req);
        ticket_submit(t);
        assert_answer(t, ERR_CANCELLED, "");
        assert_int_equal(t->n_releases, 1);
        assert_int_equal(freeing.n_holders, 2); /* the fixture and the submitter */
        free(t);
        fixture_close(fixture);
}

static void test_bad_environment(void **state) {
        struct fake_model *fake = fake_model_new(DIRECT(2, ""));
        struct sched_setup setup = { .model = &fake->model };
        struct scheduler  *s;

        (void)state;
        assert_ok(timer_thread_new(&setup.timers), "timers");
        assert_int_equal(setenv("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", "soon", 1), 0);
        assert_error(
                sched_new(&setup, &s), ERR_INVALID_ARG,
                "environment variable TRITONSERVER_BACKLOG_DELAY_SCHEDULER must be a number of "
                "requests, got 'soon'");
        assert_int_equal(unsetenv("TRITONSERVER_BACKLOG_DELAY_SCHEDULER"), 0);
        timer_thread_free(setup.timers);
        fake_model_free(fake);
}

/* An input of the model cannot be a control input. */
static void test_bad_control(void **state) {
        struct fake_model *fake = fake_model_new(
                "name: 'm' " X "sequence_batching { control_input { name: 'X' control { kind: "
                "CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } }");
        struct sched_setup setup = { .model = &fake->model };
        struct scheduler  *s;

        (void)state;
        assert_ok(timer_thread_new(&setup.timers), "timers");
        assert_error(sched_new(&setup, &s), ERR_INVALID_ARG,
                     "model 'm': 'X' is an input and a control input of sequence_batching");
        timer_thread_free(setup.timers);
        fake_model_free(fake);
}

/* One resource for two instances: their sequences take turns. */
static void test_rate_limiter(void **state) {
        struct rate_limiter *limiter = rate_limiter_new(NULL, 0);
        struct fixture      *fixture;
        struct ticket       *a, *b;

        (void)state;
        fixture = fixture_open_limited(
                DIRECT(1, "") "instance_group { rate_limiter { resources { name: "
                              "'R' count: 1 } } } instance_group { rate_limiter { "
                              "resources { name: 'R' count: 1 } } } " NEVER_INLINE,
                2, true, limiter);
        n_seen = 0;
        fixture->before_batch = see;
        hold(fixture, 0);
        hold(fixture, 1);
        a = submit(fixture, "a1", 1, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        b = submit(fixture, "b1", 2, S); /* its instance is idle but has no turn */
        assert_int_equal(FIXTURE_GET(fixture, fixture->executors[1].n_started), 0);
        let_go(fixture, 0);
        assert_success(a);
        WAIT_FOR(fixture, fixture->executors[1].n_started == 1);
        let_go(fixture, 1);
        end_ticket(a);
        end_ticket(b);
        run_one(fixture, "a2", 1, E);
        run_one(fixture, "b2", 2, E);
        fixture_close(fixture);
        rate_limiter_free(limiter);
}

/* ---- iterative ------------------------------------------------------------------------------- */

/* Released with RESCHEDULE it runs again, without flags; the id of the server's own is the same. */
static void test_iterative(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, "iterative_sequence: true "), 1);

        (void)state;
        fixture_reschedules(fixture, &fixture_thrice_ops);
        assert_true(fixture->scheduler->may_reschedule);
        run_one(fixture, "a", 0, 0);
        assert_seen(fixture, 0, "a:s1e0r1c1");
        assert_seen(fixture, 1, "a:s0e0r1c1");
        assert_seen(fixture, 2, "a:s0e0r1c1");
        run_one(fixture, "b", 0, 0);
        assert_seen(fixture, 3, "b:s1e0r1c2");
        run_one(fixture, "c", 77, S | E); /* with the client's id */
        assert_seen(fixture, 6, "c:s1e1r1c77");
        assert_seen(fixture, 8, "c:s0e0r1c77");
        fixture_close(fixture);
}

/* Reschedules all requests, null requests included, and answers a request in its third execution. */
static void execute_all_thrice(struct executor *base, struct request **requests, uint32_t n) {
        struct fake_executor *e = CONTAINER_OF(base, struct fake_executor, base);

        mutex_lock(&e->fixture->lock);
        fixture_note_batch(e, requests, n);
        e->is_running = false;
        mutex_unlock(&e->fixture->lock);
        for (uint32_t i = 0; i < n; i++) {
                struct ticket   *t = requests[i]->on_release_userp;
                struct response *r;

                if (request_is_null(requests[i]) || FIXTURE_GET(e->fixture, t->n_executions) < 3) {
                        request_release(requests[i], REQUEST_RELEASE_RESCHEDULE);
                        continue;
                }
                assert_ok(response_new(requests[i], &r), "response");
                assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
                request_release(requests[i], REQUEST_RELEASE_ALL);
        }
}

/* A backend reschedules the null request of a slot. The scheduler ends it all the same, and the model has no
 * reference of it left. */
static void test_iterative_null_requests(void **state) {
        static const struct executor_ops ops = { .execute = execute_all_thrice,
                                                 .is_ready = fixture_is_ready };
        struct fixture   *fixture = open_fixture(DIRECT(2, "iterative_sequence: true "), 1);
        _Atomic uint32_t *n_refs = &fixture->fake->model.ref.count;
        uint32_t          n_before = atomic_load(n_refs);

        (void)state;
        fixture_reschedules(fixture, &ops);
        run_one(fixture, "a1", 7, S);
        assert_seen(fixture, 2, "a1:s0e0r1c7");
        run_one(fixture, "b", 8, S | E);
        assert_seen(fixture, 3, "-:s0e0r0c0 b:s1e1r1c8");
        assert_seen(fixture, 5, "-:s0e0r0c0 b:s0e0r1c8");
        run_one(fixture, "a2", 7, E);
        assert_int_equal(atomic_load(n_refs), n_before);
        fixture_close(fixture);
}

/* ---- instances come and go ------------------------------------------------------------------- */

struct removal {
        struct thread   thread;
        struct fixture *fixture;
        bool            has_ended;
};

static void removal_main(void *arg) {
        struct removal *r = arg;

        r->fixture->scheduler->ops->remove_executor(r->fixture->scheduler,
                                                    &r->fixture->executors[0].base);
        FIXTURE_SET(r->fixture, r->has_ended, true);
}

/* An instance that leaves keeps its sequences until they end. */
static void test_removal_waits_for_sequences(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, ""), 2);
        struct removal  removal = { .fixture = fixture };
        struct ticket  *c;

        (void)state;
        run_one(fixture, "a1", 1, S);
        run_one(fixture, "b1", 2, S);
        assert_null(thread_start(&removal.thread, "removal", removal_main, &removal));
        run_one(fixture, "a2", 1, 0);
        assert_false(FIXTURE_GET(fixture, removal.has_ended));
        c = submit(fixture, "c1", 3, S | E);
        run_one(fixture, "a3", 1, E);
        WAIT_FOR(fixture, removal.has_ended);
        thread_join(&removal.thread);
        run_one(fixture, "b2", 2, E);
        end_ticket(c);
        fixture_close(fixture);
}

SUITE(sequence) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_controls_of_one_sequence),
                cmocka_unit_test(test_types_of_corrid),
                cmocka_unit_test(test_ids_that_are_texts),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_null_requests),
                cmocka_unit_test(test_shapes),
                cmocka_unit_test(test_slots_of_instances_and_backlog),
                cmocka_unit_test(test_idle_time),
                cmocka_unit_test(test_age_in_the_backlog),
                cmocka_unit_test(test_timeout_in_the_backlog),
                cmocka_unit_test(test_cancellation),
                cmocka_unit_test(test_cancellation_in_the_engine),
                cmocka_unit_test(test_minimum_slot_utilization),
                cmocka_unit_test(test_queue_delay),
                cmocka_unit_test(test_oldest),
                cmocka_unit_test(test_rate_limiter),
                cmocka_unit_test(test_held_back),
                cmocka_unit_test(test_held_back_without_requests),
                cmocka_unit_test(test_bad_environment),
                cmocka_unit_test(test_bad_control),
                cmocka_unit_test(test_iterative),
                cmocka_unit_test(test_iterative_null_requests),
                cmocka_unit_test(test_removal_waits_for_sequences),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
