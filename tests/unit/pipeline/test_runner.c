/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that ensembles and chains have in common: each test runs a line of three models as both.
 * What one of the two alone has is in test_ensemble*.c and test_chain.c.
 */
#include "suite.h"

#include "base/mem.h"
#include "base/thread.h"
#include "infer/infer_thread.h"
#include "pipeline/line_fixture.h"

static const uint32_t five = 5;

static void call_begin(struct fixture_call *c, struct fixture_line *l) {
        fixture_call_open(c, l->fake);
        fixture_input(c, "X", &five, 1, 1);
        fixture_submit(c);
}

static void assert_answered(struct fixture_call *c, uint32_t value) {
        fixture_wait(c);
        assert_int_equal(fixture_output(c, 0, "Y")->value, value);
        fixture_call_close(c);
}

/* An ensemble adds its context to a cancellation, a chain does not. */
static void assert_cancelled(struct fixture_call *c, const struct fixture_line *l) {
        fixture_wait(c);
        fixture_assert_error(c, ERR_CANCELLED, l->is_chain ? "" : "in ensemble 'pipe', ");
}

static void assert_fails(struct fixture_call *c, const struct fixture_line *l, enum error_code code,
                         const char *stage, const char *text) {
        char expected[256];

        fixture_wait(c);
        snprintf(expected, sizeof(expected),
                 l->is_chain ? "in chain 'pipe' stage %s: %s" : "in ensemble 'pipe', %s%s",
                 l->is_chain ? stage : "", text);
        fixture_assert_error(c, code, expected);
}

#define FOR_BOTH(is_chain) for (int is_chain = 0; is_chain < 2; is_chain++)

/* ---- the path of the data -------------------------------------------------------------------- */

/* Nothing is copied: an output is the next input, and the last output is in the client's memory. */
static void test_one_after_the_other(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;

                line_open(&l, is_chain, plain);
                fixture_call_open(&c, l.fake);
                assert_ok(request_set_id(c.req, "seven"), "id");
                c.req->priority = 3;
                fixture_input(&c, "X", &five, 1, 1);
                fixture_run(&c);
                assert_int_equal(fixture_output(&c, 0, "Y")->value, 274);
                assert_ptr_equal(c.got[0].response->source.model, &l.fake->model);
                assert_string_equal(c.got[0].response->source.id, "seven");
                assert_ptr_equal(l.models[0].seen.output, l.models[1].seen.input);
                assert_ptr_equal(l.models[1].seen.output, l.models[2].seen.input);
                assert_ptr_equal(l.models[2].seen.output, fixture_output(&c, 0, "Y")->base);
                assert_ptr_equal(l.models[0].seen.input, &five);
                assert_int_equal(atomic_load(&c.n_allocated), 1);
                for (unsigned i = 0; i < 3; i++) {
                        assert_string_equal(l.models[i].seen.id, "seven");
                        assert_int_equal(l.models[i].seen.priority, 3);
                }
                fixture_call_close(&c);
                line_close(&l);
        }
}

#define ALWAYS "parameters { key: 'inline_execution' value { string_value: 'always' } } "
#define NEVER "parameters { key: 'inline_execution' value { string_value: 'never' } } "

static const char *const always[] = { CONFIG ALWAYS, CONFIG ALWAYS, CONFIG ALWAYS };

/* Requests of equal and of different sizes follow each other: what the steps keep for the next request
 * does not show. */
static void test_one_request_after_the_other(void **state) {
        static const uint32_t x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;

                line_open(&l, is_chain, always);
                for (unsigned i = 0; i < 200; i++) {
                        int64_t             rows = i % 5 == 0 ? 1 + (int64_t)i % 8 : 1;
                        struct fixture_call c;
                        uint32_t            y[8];

                        fixture_call_open(&c, l.fake);
                        c.req->priority = i;
                        if (i % 7 == 0)
                                assert_ok(request_set_id(c.req, "seventh"), "id");
                        if (i % 11 == 0)
                                assert_ok(request_add_output(c.req, "Y"), "output");
                        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32,
                                                    (int64_t[]){ rows, 1 }, 2),
                                  "X");
                        append_bytes(c.req, "X", x, (size_t)rows * sizeof(*x));
                        fixture_run(&c);
                        assert_int_equal(fixture_output(&c, 0, "Y")->dims[0], rows);
                        memcpy(y, fixture_output(&c, 0, "Y")->base, (size_t)rows * sizeof(*y));
                        for (int64_t k = 0; k < rows; k++)
                                assert_int_equal(y[k], 27 * x[k] + 139);
                        for (unsigned k = 0; k < 3; k++) {
                                assert_string_equal(l.models[k].seen.id,
                                                    i % 7 == 0 ? "seventh" : "");
                                assert_int_equal(l.models[k].seen.priority, i);
                                assert_int_equal(l.models[k].seen.dims[0], rows);
                        }
                        fixture_call_close(&c);
                }
                for (unsigned k = 0; k < 3; k++)
                        assert_int_equal(fixture_count(&l.models[k]), 200);
                line_close(&l);
        }
}

/* A batch waits until it has four rows. */
#define FOURS                                                                                      \
        "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 60000000 } "     \
        "parameters { key: 'adaptive_batching' value { string_value: 'off' } } "

/* Runs whose steps end in one execution all begin their next steps, whether together (chain) or one after
 * the other. */
static void test_several_in_a_batch(void **state) {
        static const char *const configs[] = { CONFIG FOURS, CONFIG FOURS, CONFIG FOURS };
        static const uint32_t    x[] = { 5, 6, 7, 8 };

        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c[4];

                line_open(&l, is_chain, configs);
                for (unsigned i = 0; i < 4; i++) {
                        fixture_call_open(&c[i], l.fake);
                        fixture_input(&c[i], "X", &x[i], 1, 1);
                        fixture_submit(&c[i]);
                }
                for (unsigned i = 0; i < 4; i++)
                        assert_answered(&c[i], 274 + 27 * i);
                for (unsigned i = 0; i < 3; i++)
                        assert_int_equal(l.models[i].n_most, 4);
                line_close(&l);
        }
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_a_step_fails(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                for (unsigned at = 0; at < 3; at++) {
                        static const char *const stages[] = { "'a' (1/3)", "'b' (2/3)",
                                                              "'c' (3/3)" };
                        struct fixture_line      l;
                        struct fixture_call      c;

                        line_open(&l, is_chain, at == 1 ? always : plain);
                        l.models[at].error = "broken arm";
                        call_begin(&c, &l);
                        assert_fails(&c, &l, ERR_INVALID_ARG, stages[at], "broken arm");
                        for (unsigned i = at + 1; i < 3; i++)
                                assert_int_equal(fixture_count(&l.models[i]), 0);
                        fixture_call_close(&c);
                        line_close(&l);
                }
        }
}

static void test_the_client_has_no_memory(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;

                line_open(&l, is_chain, plain);
                fixture_call_open(&c, l.fake);
                c.refuses = "Y";
                fixture_input(&c, "X", &five, 1, 1);
                fixture_submit(&c);
                assert_fails(&c, &l, ERR_UNAVAILABLE, "'c' (3/3)", "no room for 'Y'");
                fixture_call_close(&c);
                line_close(&l);
        }
}

/* Each allocation of a request fails once. */
static void test_short_of_memory(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                bool was_hit = true;

                for (unsigned n = 1; was_hit; n++) {
                        struct fixture_line l;
                        struct fixture_call c;
                        struct error       *err;

                        line_open(&l, is_chain, n % 2 == 0 ? always : plain);
                        for (unsigned i = 0; i < 3; i++)
                                l.models[i].may_lack_memory = true;
                        fixture_call_open(&c, l.fake);
                        fixture_input(&c, "X", &five, 1, 1);
                        mem_fail_after(n);
                        err = model_submit(c.req);
                        was_hit = mem_fail_was_hit();
                        mem_fail_after(0);
                        if (err == NULL)
                                FIXTURE_WAIT_FOR(c.is_released && c.n_finals == 1);
                        error_free(err);
                        fixture_call_close(&c);
                        line_close(&l);
                }
        }
}

/* ---- cancellation and deadline --------------------------------------------------------------- */

static void test_cancelled_before(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;

                line_open(&l, is_chain, plain);
                fixture_call_open(&c, l.fake);
                fixture_input(&c, "X", &five, 1, 1);
                request_cancel(c.req);
                fixture_submit(&c);
                assert_cancelled(&c, &l);
                assert_int_equal(fixture_count(&l.models[0]), 0);
                fixture_call_close(&c);
                line_close(&l);
        }
}

/* The running step is cancelled, and no other one begins. */
static void test_cancelled_during_a_step(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;

                line_open(&l, is_chain, plain);
                fixture_hold(&l.models[1], true);
                call_begin(&c, &l);
                FIXTURE_WAIT_FOR(l.models[1].n_running == 1);
                request_cancel(c.req);
                request_cancel(c.req);
                fixture_hold(&l.models[1], false);
                assert_cancelled(&c, &l);
                assert_int_equal(l.models[1].n_cancelled, 1);
                assert_int_equal(fixture_count(&l.models[2]), 0);
                request_cancel(c.req); /* no effect after the end */
                fixture_call_close(&c);
                line_close(&l);
        }
}

static void submit_on_thread(void *call) {
        fixture_submit(call);
}

/* A step that runs where the request was submitted sees the cancellation as well, which comes from another
 * thread. */
static void test_cancelled_during_an_inline_step(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;
                struct thread       thread;

                line_open(&l, is_chain, always);
                fixture_hold(&l.models[1], true);
                fixture_call_open(&c, l.fake);
                fixture_input(&c, "X", &five, 1, 1);
                assert_ok(thread_start(&thread, "client", submit_on_thread, &c), "thread");
                FIXTURE_WAIT_FOR(l.models[1].n_running == 1);
                request_cancel(c.req);
                fixture_hold(&l.models[1], false);
                thread_join(&thread);
                assert_cancelled(&c, &l);
                assert_int_equal(l.models[1].n_cancelled, 1);
                assert_int_equal(fixture_count(&l.models[2]), 0);
                fixture_call_close(&c);
                line_close(&l);
        }
}

/* A cancelled request that waits for the only instance of a step ends at once. */
static void test_cancelled_in_a_queue(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call first, second;

                line_open(&l, is_chain, plain);
                fixture_hold(&l.models[0], true);
                call_begin(&first, &l);
                FIXTURE_WAIT_FOR(l.models[0].n_running == 1);
                call_begin(&second, &l);
                request_cancel(second.req);
                assert_cancelled(&second, &l);
                fixture_call_close(&second);
                fixture_hold(&l.models[0], false);
                assert_answered(&first, 274);
                line_close(&l);
        }
}

static void wait_until(uint64_t time_ns) {
        mutex_lock(&fixture_lock);
        while (clock_now_ns() <= time_ns)
                cond_wait_until(&fixture_changed, &fixture_lock, time_ns + 1);
        mutex_unlock(&fixture_lock);
}

/* All steps have one deadline. It passes while a step is held. */
static void test_the_deadline(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;

                line_open(&l, is_chain, plain);
                fixture_hold(&l.models[0], true);
                fixture_call_open(&c, l.fake);
                c.req->timeout_us = 2000000; /* long enough for the first step to start */
                fixture_input(&c, "X", &five, 1, 1);
                fixture_submit(&c);
                FIXTURE_WAIT_FOR(l.models[0].n_running == 1);
                assert_in_range(l.models[0].seen.timeout_us, 1, 2000000);
                wait_until(c.req->times.request_start_ns + c.req->timeout_us * NS_PER_US);
                fixture_hold(&l.models[0], false);
                assert_fails(&c, &l, ERR_UNAVAILABLE, "'b' (2/3)", "Request timeout expired");
                assert_int_equal(fixture_count(&l.models[1]), 0);
                fixture_call_close(&c);
                line_close(&l);
        }
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* A request keeps the models that it was admitted with. */
static void test_a_model_goes_meanwhile(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct fixture_call c;

                line_open(&l, is_chain, plain);
                fixture_hold(&l.models[0], true);
                call_begin(&c, &l);
                FIXTURE_WAIT_FOR(l.models[0].n_running == 1);
                step_models_holder_block(line_holder(&l), error_new(ERR_UNAVAILABLE, "gone"));
                /* References: the test model's own, and the one of the request's snapshot. */
                assert_int_equal(atomic_load(&l.models[2].fake->model.ref.count), 2);
                fixture_hold(&l.models[0], false);
                assert_answered(&c, 274);
                line_close(&l);
        }
}

static void free_response(struct response *response, uint32_t flags, void *userp) {
        (void)flags;
        (void)userp;
        response_free(response);
}

static void free_request(struct request *req, uint32_t flags, void *userp) {
        bool *is_freed = userp;

        (void)flags;
        request_free(req);
        mutex_lock(&fixture_lock);
        *is_freed = true;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

/* A step has memory of the client, or of the run, for a response that it does not send. It is given back,
 * although the run has ended. */
static void test_a_response_outlives_the_run(void **state) {
        (void)state;
        FOR_BOTH(is_chain) {
                for (unsigned at = 0; at < 4; at++) {
                        struct fixture_line l;
                        struct fixture_call c[2];
                        bool                is_freed[2] = { false, false };

                        line_open(&l, is_chain, at == 3 ? always : plain);
                        l.models[MIN(at, 2)].executor.ops = &fixture_ops_that_delete;
                        for (unsigned i = 0; i < 2; i++) {
                                fixture_call_open(&c[i], l.fake);
                                c[i].req->on_response = free_response;
                                c[i].req->on_release = free_request;
                                c[i].req->on_release_userp = &is_freed[i];
                                fixture_input(&c[i], "X", &five, 1, 1);
                                fixture_submit(&c[i]);
                                FIXTURE_WAIT_FOR(is_freed[i]);
                        }
                        line_close(&l);
                        for (unsigned i = 0; i < 2; i++) {
                                assert_int_equal(atomic_load(&c[i].n_allocated), at >= 2 ? 2 : 1);
                                assert_int_equal(atomic_load(&c[i].n_buffers), 0);
                        }
                }
        }
}

/* Threads submit while another one cancels what it finds: each request is answered once. */
enum { N_THREADS = 4, N_EACH = 150 };

struct many {
        struct thread        thread;
        struct fixture_line *line;
        bool                 allows_inline;
        unsigned             n_answered, n_cancelled;
};

static void submit_many(void *arg) {
        struct many *m = arg;

        infer_thread_allow_inline(m->allows_inline);
        for (unsigned i = 0; i < N_EACH; i++) {
                struct fixture_call c;

                call_begin(&c, m->line);
                if (i % 3 == 0)
                        request_cancel(c.req);
                fixture_wait(&c);
                assert_int_equal(c.n_got, 1);
                if (c.got[0].response->error == NULL)
                        m->n_answered += fixture_output(&c, 0, "Y")->value == 274;
                else
                        m->n_cancelled += c.got[0].response->error->code == ERR_CANCELLED;
                fixture_call_close(&c);
        }
}

static void test_many_threads(void **state) {
        static const char *const mixed[] = { CONFIG, CONFIG "dynamic_batching { } ", CONFIG NEVER };

        (void)state;
        FOR_BOTH(is_chain) {
                struct fixture_line l;
                struct many         m[N_THREADS];

                line_open(&l, is_chain, mixed);
                for (unsigned i = 0; i < N_THREADS; i++) {
                        m[i] = (struct many){ .line = &l, .allows_inline = i % 2 == 0 };
                        assert_ok(thread_start(&m[i].thread, "client", submit_many, &m[i]),
                                  "thread");
                }
                for (unsigned i = 0; i < N_THREADS; i++) {
                        thread_join(&m[i].thread);
                        assert_int_equal(m[i].n_answered + m[i].n_cancelled, N_EACH);
                        assert_true(m[i].n_answered >= N_EACH - N_EACH / 3);
                }
                line_close(&l);
        }
}

static int open_all(void **state) {
        (void)state;
        fixture_open();
        return 0;
}

SUITE(runner) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_after_the_other),
                cmocka_unit_test(test_one_request_after_the_other),
                cmocka_unit_test(test_several_in_a_batch),
                cmocka_unit_test(test_a_step_fails),
                cmocka_unit_test(test_the_client_has_no_memory),
                cmocka_unit_test(test_short_of_memory),
                cmocka_unit_test(test_cancelled_before),
                cmocka_unit_test(test_cancelled_during_a_step),
                cmocka_unit_test(test_cancelled_during_an_inline_step),
                cmocka_unit_test(test_cancelled_in_a_queue),
                cmocka_unit_test(test_the_deadline),
                cmocka_unit_test(test_a_model_goes_meanwhile),
                cmocka_unit_test(test_a_response_outlives_the_run),
                cmocka_unit_test(test_many_threads),
        };

        return cmocka_run_group_tests(tests, open_all, NULL);
}
