/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoupled steps, and the limit max_inflight_requests. */
#include "suite.h"

#include "infer/infer_thread.h"
#include "infer/response_stream.h"
#include "pipeline/ensemble_steps.h"

/* ---- decoupled steps ------------------------------------------------------------------------- */

static void assert_values(const struct fixture_call *c, const uint32_t *values, unsigned n) {
        assert_int_equal(c->n_got, n);
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(fixture_output(c, i, "Y")->value, values[i]);
}

/* Each response of the decoupled step passes the later steps, and the ensemble's responses are in
 * order. */
static void test_decoupled_step(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "U"))
                                                          STEP(I_TO_O("U", "Y"))),
                       ONE, ONE DECOUPLED NEVER, ONE NEVER);
        assert_true(b.ensemble.fake->model.is_decoupled);
        b.models[1].n_responses = 3;
        for (int late = 0; late < 2; late++) {
                const uint32_t u = 3 * 16 + 1;

                b.models[1].has_late_final = late == 1;
                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                assert_values(&c, (uint32_t[]){ 3 * u + 1, 3 * (u + 101) + 1, 3 * (u + 202) + 1 },
                              3);
                assert_int_equal(c.got[0].flags, 0);
                assert_int_equal(c.got[1].flags, 0);
                fixture_call_close(&c);
        }
        assert_int_equal(fixture_count(&b.models[2]), 6);
        ensemble_steps_close(&b);
}

/* The decoupled step is the last one: its FINAL is the ensemble's FINAL, and it writes into the
 * client's memory. */
static void test_decoupled_last_step(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE DECOUPLED);
        b.models[1].n_responses = 2;
        for (int late = 0; late < 2; late++) {
                b.models[1].has_late_final = late == 1;
                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                assert_values(&c, (uint32_t[]){ 49, 150 }, 2);
                assert_int_equal(c.got[1].flags, late == 1 ? 0 : RESPONSE_FINAL);
                assert_ptr_equal(fixture_output(&c, 1, "Y")->base, b.models[1].seen.output);
                assert_int_equal(atomic_load(&c.n_allocated), 2);
                fixture_call_close(&c);
        }
        /* No responses: the client gets FINAL alone. */
        b.models[1].n_responses = 0;
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.n_got, 0);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* A branch and a join within the stream: the join reads tensors of the same response number. */
static void test_join_of_decoupled_responses(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;
        uint32_t              expected[5];

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"),
                                STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "U")) STEP(I_TO_O("T", "V"))
                                        STEP(IJ_TO_O("U", "V", "Y"))),
                       ONE DECOUPLED NEVER, ONE NEVER, ONE NEVER, TWO NEVER);
        b.models[0].n_responses = 5;
        b.models[2].add = 1000;
        for (uint32_t j = 0; j < 5; j++) {
                uint32_t t = 16 + 101 * j;

                expected[j] = 3 * ((3 * t + 1) + (3 * t + 1000)) + 1;
        }
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_values(&c, expected, 5);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* Two decoupled steps: each response of the first one starts a run of the second one. */
static void test_decoupled_over_decoupled(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5, sum = 0, expected = 0;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE DECOUPLED NEVER, ONE DECOUPLED NEVER);
        b.models[0].n_responses = 3;
        b.models[1].n_responses = 4;
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.n_got, 12);
        for (uint32_t j = 0; j < 3; j++)
                for (uint32_t k = 0; k < 4; k++)
                        expected += 3 * (16 + 101 * j) + 1 + 101 * k;
        for (unsigned i = 0; i < 12; i++)
                sum += fixture_output(&c, i, "Y")->value;
        assert_int_equal(sum, expected);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

static void test_failure_in_a_stream(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE DECOUPLED NEVER, ONE NEVER);
        b.models[0].n_responses = 3;
        b.models[1].error = "boom";
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        fixture_assert_error(&c, ERR_INVALID_ARG, "in ensemble 'e', boom");
        fixture_call_close(&c);

        /* A step without a response: the client gets no response for this element of the stream. */
        b.models[1].error = NULL;
        b.models[1].is_silent = true;
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.n_got, 0);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* A stream that is longer than max_inflight_requests: the decoupled step waits for the next
 * step. */
static void test_long_stream(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"),
                                STEP(I_TO_O("X", "T"))
                                        STEP(I_TO_O("T", "Y")) "max_inflight_requests: 2 "),
                       ONE DECOUPLED NEVER, ONE NEVER);
        b.models[0].n_responses = FIXTURE_MAX_RESPONSES;
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.n_got, FIXTURE_MAX_RESPONSES);
        for (unsigned i = 0; i < FIXTURE_MAX_RESPONSES; i++)
                assert_int_equal(fixture_output(&c, i, "Y")->value, 3 * (16 + 101 * i) + 1);
        assert_in_range(b.models[1].n_most, 1, 2);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* ---- a reader that does not read -------------------------------------------------------------- */

static struct request *kept_request; /* guarded by fixture_lock */

/* Keeps the request: the test makes its responses. */
static void keep_request(struct executor *e, struct request **requests, uint32_t n) {
        MUTEX_GUARD(&fixture_lock);

        (void)e;
        assert_int_equal(n, 1);
        kept_request = requests[0];
        cond_broadcast(&fixture_changed);
}

static const struct executor_ops ops_that_keep = { .execute = keep_request,
                                                   .is_ready = fixture_is_ready };

/* Two decoupled steps. The test makes the responses of the first one; the second one answers each with
 * two. The client takes one at a time. */
static void prepare_unread(struct ensemble_steps *b, struct fixture_call *c, uint32_t *x) {
        const struct response_limits one = { .max_responses = 1, .max_bytes = 1 << 20 };

        ENSEMBLE_STEPS(b, ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE DECOUPLED NEVER, ONE DECOUPLED NEVER);
        b->models[0].executor.ops = &ops_that_keep;
        b->models[1].n_responses = 2;
        kept_request = NULL;
        call_open(c, b);
        fixture_input(c, "X", x, 1);
        assert_ok(request_limit_responses(c->req, &one), "limit");
}

static void begin_unread(struct fixture_call *c) {
        fixture_submit(c);
        FIXTURE_WAIT_FOR(kept_request != NULL);
}

static void open_unread(struct ensemble_steps *b, struct fixture_call *c, uint32_t *x) {
        prepare_unread(b, c, x);
        begin_unread(c);
}

/* Waits for room, if there is none. */
static void respond(struct ensemble_steps *b) {
        assert_ok(response_send(fixture_response(&b->models[0], kept_request, 0), 0, NULL), "send");
}

/* Responds while there is room. Returns the number of responses. */
static unsigned fill_room(struct ensemble_steps *b, unsigned max) {
        unsigned n = 0;

        for (; n < max && response_stream_room(kept_request->stream) > 0; n++)
                respond(b);
        FIXTURE_WAIT_FOR(b->models[1].n_executed == n && b->models[1].n_running == 0);
        return n;
}

static void end_responses(void) {
        assert_ok(request_send_flags(kept_request, RESPONSE_FINAL), "flags");
        request_release(kept_request, REQUEST_RELEASE_ALL);
}

static void read_response(struct fixture_call *c, unsigned i) {
        FIXTURE_WAIT_FOR(c->n_got > i);
        response_free(STEAL(c->got[i].response));
}

/* The second step ends each of its requests at once. The first one waits nevertheless, until the client
 * has taken what was made of its responses. Who waits is woken for a quarter of the window of 8: so two
 * elements are read before the first wait, and one before each other. */
static void test_unread_responses_hold_the_first_step(void **state) {
        const unsigned        n_elements = 20;
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;
        unsigned              n_made, n_read = 0;

        (void)state;
        open_unread(&b, &c, &x);
        n_made = fill_room(&b, n_elements);
        assert_int_equal(n_made, 8);
        assert_int_equal(response_stream_room(kept_request->stream), 0);
        read_response(&c, n_read++);
        read_response(&c, n_read++);
        while (n_made < n_elements) {
                read_response(&c, n_read++);
                read_response(&c, n_read++);
                respond(&b);
                n_made++;
                assert_in_range(response_stream_room(kept_request->stream), 0, 1);
        }
        end_responses();
        while (n_read < 2 * n_elements)
                read_response(&c, n_read++);
        fixture_wait(&c);
        assert_int_equal(c.n_got, 2 * n_elements);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* The client leaves: the first step learns of it at once, and need not wait any more. */
static void test_reader_leaves(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        open_unread(&b, &c, &x);
        assert_int_equal(fill_room(&b, 20), 8);
        request_cancel(c.req);
        assert_true(request_is_cancelled(kept_request));
        respond(&b);
        end_responses();
        fixture_wait(&c);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* A step fails while the client has room for one response, which the run has: the error is sent at once,
 * and no thread waits with it. */
static void test_failure_does_not_wait_for_the_reader(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        open_unread(&b, &c, &x);
        respond(&b);
        FIXTURE_WAIT_FOR(c.n_got == 1 && b.models[1].n_executed == 1 && b.models[1].n_running == 0);
        b.models[1].error = "boom";
        respond(&b);
        FIXTURE_WAIT_FOR(b.models[1].n_executed == 2 && b.models[1].n_running == 0);
        assert_true(request_is_cancelled(kept_request));
        end_responses();
        read_response(&c, 0); /* sends the next one, and ends the run */
        fixture_wait(&c);
        assert_int_equal(c.n_got, 3);
        assert_string_equal(c.got[2].response->error->message, "in ensemble 'e', boom");
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

static pthread_t        loop;
static _Atomic unsigned n_on_loop;

static void note_thread(struct response *response, uint32_t flags, void *userp) {
        if (pthread_equal(loop, pthread_self()))
                atomic_fetch_add(&n_on_loop, 1);
        fixture_on_response(response, flags, userp);
}

/* A thread that may run models, as an event loop does, makes room for the next response, whose output goes to
 * memory of a device: another thread sends it, since the copy takes time. */
static void test_a_loop_sends_nothing_to_devices(void **state) {
        const unsigned        n_responses = 4;
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        loop = pthread_self();
        atomic_store(&n_on_loop, 0);
        assert_false(infer_thread_allow_inline(true));
        prepare_unread(&b, &c, &x);
        c.req->has_device_outputs = true;
        c.req->on_response = note_thread;
        begin_unread(&c);
        for (unsigned i = 0; i < n_responses / 2; i++)
                respond(&b);
        end_responses();
        for (unsigned i = 0; i < n_responses; i++)
                read_response(&c, i);
        fixture_wait(&c);
        assert_int_equal(c.n_got, n_responses);
        assert_int_equal(atomic_load(&n_on_loop), 0);
        assert_true(infer_thread_allow_inline(false));
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* ---- max_inflight_requests ------------------------------------------------------------------- */

enum { N_CALLS = 12 };

static void test_max_inflight_requests(void **state) {
        struct ensemble_steps b;
        struct fixture_call   calls[N_CALLS];
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE("max_batch_size: 1 " IN("X") OUT("Y"),
                                STEP(I_TO_O("X", "T"))
                                        STEP(I_TO_O("T", "Y")) "max_inflight_requests: 2 "),
                       "max_batch_size: 16 dynamic_batching { } " ONE NEVER,
                       "max_batch_size: 16 dynamic_batching { } " ONE NEVER);
        fixture_hold(&b.models[0], true);
        for (int i = 0; i < N_CALLS; i++) {
                call_open(&calls[i], &b);
                fixture_input(&calls[i], "X", &x, 1, 1);
                fixture_submit(&calls[i]);
        }
        FIXTURE_WAIT_FOR(b.models[0].n_running >= 1);
        fixture_hold(&b.models[0], false);
        for (int i = 0; i < N_CALLS; i++) {
                fixture_wait(&calls[i]);
                assert_int_equal(fixture_output(&calls[i], 0, "Y")->value, 49);
                fixture_call_close(&calls[i]);
        }
        assert_int_equal(fixture_count(&b.models[0]), N_CALLS);
        assert_in_range(b.models[0].n_most, 1, 2);
        assert_in_range(b.models[1].n_most, 1, 2);
        ensemble_steps_close(&b);
}

SUITE(ensemble_streams) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_decoupled_step),
                cmocka_unit_test(test_decoupled_last_step),
                cmocka_unit_test(test_join_of_decoupled_responses),
                cmocka_unit_test(test_decoupled_over_decoupled),
                cmocka_unit_test(test_failure_in_a_stream),
                cmocka_unit_test(test_long_stream),
                cmocka_unit_test(test_unread_responses_hold_the_first_step),
                cmocka_unit_test(test_reader_leaves),
                cmocka_unit_test(test_failure_does_not_wait_for_the_reader),
                cmocka_unit_test(test_a_loop_sends_nothing_to_devices),
                cmocka_unit_test(test_max_inflight_requests),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
