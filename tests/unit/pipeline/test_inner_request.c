/* SPDX-License-Identifier: BSD-3-Clause */
/* inner_request_run(): whether the inference has ended by the time of its return, and who hears of the
 * end. */
#include "suite.h"

#include "infer/infer_thread.h"
#include "infer/inner_request.h"
#include "sched/fixture_model.h"

#define MODEL                                                                                      \
        "name: 'm' input { name: 'X' data_type: TYPE_UINT32 dims: 1 } "                            \
        "output { name: 'Y' data_type: TYPE_UINT32 dims: 1 } "
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "

struct heard {
        unsigned n_responses, n_ends; /* guarded by fixture_lock */
};

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        struct heard *h = r->owner;

        (void)flags;
        response_free(response);
        MUTEX_GUARD(&fixture_lock);
        h->n_responses++;
}

static void on_end(struct inner_request *r) {
        struct heard *h = r->owner;

        MUTEX_GUARD(&fixture_lock);
        h->n_ends++;
        cond_broadcast(&fixture_changed);
}

static const struct inner_request_ops ops = { .on_response = on_response, .on_end = on_end };
static const uint32_t                 five = 5;

static struct inner_request *new_inner(struct fixture_model *m, struct heard *h) {
        struct inner_request *r = inner_request_new(&m->fake->model, &ops, h);

        assert_ok(request_add_input(r->request, "X", DATA_TYPE_UINT32, (int64_t[]){ 1 }, 1), "X");
        append_bytes(r->request, "X", &five, sizeof(five));
        return r;
}

/* Sometimes the instance's own thread is awake and runs it; then the test tries again. The request is used
 * again each time. */
static void test_on_this_thread(void **state) {
        struct fixture_model  m;
        struct heard          h = { 0 };
        struct inner_request *r;
        unsigned              n_here = 0, n_runs = 0, n_before;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("always"), NULL);
        r = new_inner(&m, &h);
        while (n_here < 3 && n_runs++ < 200) {
                bool has_ended = false;

                assert_ok(inner_request_run(r, &has_ended), "run");
                n_here += has_ended;
                FIXTURE_WAIT_FOR(h.n_ends + n_here == n_runs);
                assert_int_equal(h.n_responses, n_runs);
        }
        assert_int_equal(n_here, 3);
        /* The same with inner_request_submit(), which calls on_end(). */
        n_before = h.n_ends;
        assert_ok(inner_request_submit(r), "submit");
        FIXTURE_WAIT_FOR(h.n_ends == n_before + 1);
        inner_request_free(r);
        fixture_model_close(&m);
}

static void test_on_another_thread(void **state) {
        struct fixture_model  m;
        struct heard          h = { 0 };
        struct inner_request *r;
        bool                  has_ended = true;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("never"), NULL);
        fixture_hold(&m, true);
        r = new_inner(&m, &h);
        assert_ok(inner_request_run(r, &has_ended), "run");
        assert_false(has_ended);
        fixture_hold(&m, false);
        FIXTURE_WAIT_FOR(h.n_ends == 1);
        assert_int_equal(h.n_responses, 1);
        inner_request_free(r);
        fixture_model_close(&m);
}

/* The other thread may be faster than the return: exactly one of the two learns of each end. */
static void test_a_race(void **state) {
        struct fixture_model m;
        struct heard         h = { 0 };
        unsigned             n_here = 0;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("never"), NULL);
        for (unsigned i = 0; i < 2000; i++) {
                struct inner_request *r = new_inner(&m, &h);
                unsigned              n_before;
                bool                  has_ended;

                mutex_lock(&fixture_lock);
                n_before = h.n_ends;
                mutex_unlock(&fixture_lock);
                assert_ok(inner_request_run(r, &has_ended), "run");
                n_here += has_ended;
                if (!has_ended)
                        FIXTURE_WAIT_FOR(h.n_ends == n_before + 1);
                inner_request_free(r);
        }
        assert_int_equal(h.n_responses, 2000);
        assert_int_equal(h.n_ends + n_here, 2000);
        fixture_model_close(&m);
}

static void test_refused(void **state) {
        struct fixture_model  m;
        struct heard          h = { 0 };
        struct inner_request *r;
        bool                  has_ended = false;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("always"), NULL);
        r = new_inner(&m, &h);
        request_remove_all_inputs(r->request);
        assert_error(inner_request_run(r, &has_ended), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'm'. "
                     "Got input(s) [], but missing required input(s) ['X']. Please provide all "
                     "required input(s).");
        assert_int_equal(h.n_responses + h.n_ends, 0);
        inner_request_free(r);
        fixture_model_close(&m);
}

static int open_all(void **state) {
        (void)state;
        fixture_open();
        return 0;
}

SUITE(inner_request) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_on_this_thread),
                cmocka_unit_test(test_on_another_thread),
                cmocka_unit_test(test_a_race),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, open_all, NULL);
}
