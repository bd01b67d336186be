/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains of test models: each one computes 3 * x + add. tests/e2e/test_chains.py tests the rules
 * with a server. These tests check memory addresses and counters, or stop a stage at a certain
 * moment.
 */
#include "suite.h"

#include "base/mem.h"
#include "pipeline/line_fixture.h"

static void test_a_stage_fails(void **state) {
        static const struct {
                const char *text;
                const char *error;
                bool        is_silent;
        } rows[] = {
                { "in chain 'pipe' stage 'b' (2/3): broken arm", "broken arm", false },
                { "in chain 'pipe' stage 'b' (2/3): no response", NULL, true },
        };
        const uint32_t x = 5;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct fixture_chain l;
                struct fixture_call  c;

                chain_open(&l, plain, false);
                l.stages[1].error = rows[i].error;
                l.stages[1].is_silent = rows[i].is_silent;
                fixture_call_open(&c, l.fake);
                fixture_input(&c, "X", &x, 1, 1);
                fixture_run(&c);
                fixture_assert_error(&c, rows[i].error != NULL ? ERR_INVALID_ARG : ERR_INTERNAL,
                                     rows[i].text);
                assert_int_equal(fixture_count(&l.stages[2]), 0);
                assert_int_equal(atomic_load(&l.metrics->n_failure), 1);
                fixture_call_close(&c);
                chain_close(&l);
        }
}

static void test_refused_before_the_first(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG_4, CONFIG };
        static const uint32_t    x[6] = { 0 };
        struct fixture_chain     l;
        struct fixture_call      c;

        (void)state;
        chain_open(&l, configs, false);
        fixture_call_open(&c, l.fake);
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 6, 1 }, 2), "X");
        append_bytes(c.req, "X", x, sizeof(x));
        assert_error(model_submit(c.req), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] inference request batch-size must be <= 4 for "
                     "stage 'b' of chain 'pipe'");
        request_remove_all_inputs(c.req);
        fixture_input(&c, "X", x, 1, 1);
        step_models_holder_block(&l.holder, error_new(ERR_UNAVAILABLE, "stage 'c' is not ready"));
        assert_error(model_submit(c.req), ERR_UNAVAILABLE, "stage 'c' is not ready");
        l.fake->model.scheduler->ops->drain(l.fake->model.scheduler);
        assert_error(model_submit(c.req), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] Server is stopping, scheduler for model has "
                     "stopped accepting new inference requests");
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(fixture_count(&l.stages[i]), 0);
        fixture_call_close(&c);
        chain_close(&l);
}

static void test_many_responses_of_the_last(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG, CONFIG DECOUPLED };
        const uint32_t           x = 5;

        (void)state;
        for (unsigned late = 0; late < 2; late++) {
                struct fixture_chain l;
                struct fixture_call  c;

                chain_open(&l, configs, false);
                l.stages[2].n_responses = 3;
                l.stages[2].has_late_final = late == 1;
                fixture_call_open(&c, l.fake);
                fixture_input(&c, "X", &x, 1, 1);
                fixture_run(&c);
                assert_int_equal(c.n_got, 3);
                for (unsigned j = 0; j < 3; j++)
                        assert_int_equal(fixture_output(&c, j, "Y")->value, 274 + 101 * j);
                fixture_call_close(&c);
                chain_close(&l);
        }
}

static void test_a_decoupled_stage_is_the_last(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG, CONFIG };
        struct fixture_chain     l;
        struct step_models      *models;

        (void)state;
        chain_open(&l, configs, false);
        models = models_new(&l);
        l.stages[1].fake->model.is_decoupled = true;
        assert_error(plan_new(&l, models), ERR_INVALID_ARG,
                     "stage 'b' of chain 'pipe' is decoupled: only the last stage may be");
        l.stages[1].fake->model.is_decoupled = false;
        step_models_unref(models);
        chain_close(&l);
}

/* A batch waits until it has four rows. */
#define FOURS                                                                                      \
        "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 60000000 } "     \
        "parameters { key: 'adaptive_batching' value { string_value: 'off' } } "

static void wait_until(uint64_t time_ns) {
        mutex_lock(&fixture_lock);
        while (clock_now_ns() <= time_ns)
                cond_wait_until(&fixture_changed, &fixture_lock, time_ns + 1);
        mutex_unlock(&fixture_lock);
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

/* Two requests leave a stage in one batch. The first one ends instead of entering the next stage, and
 * its client frees it at once. */
static void test_the_first_of_a_batch_ends(void **state) {
        static const char *const configs[] = { CONFIG "dynamic_batching { preferred_batch_size: 2 "
                                                      "max_queue_delay_microseconds: 60000000 }",
                                               CONFIG, CONFIG };
        const uint32_t           x = 5;
        struct fixture_chain     l;
        struct fixture_call      late, other;
        uint64_t                 over_ns;
        bool                     is_freed = false;

        (void)state;
        chain_open(&l, configs, false);
        fixture_hold(&l.stages[0], true);
        fixture_call_open(&late, l.fake);
        late.req->timeout_us = 2000000; /* long enough for the first stage to start */
        late.req->on_response = free_response;
        late.req->on_release = free_request;
        late.req->on_release_userp = &is_freed;
        fixture_input(&late, "X", &x, 1, 1);
        fixture_call_open(&other, l.fake);
        fixture_input(&other, "X", &x, 1, 1);
        fixture_submit(&late);
        fixture_submit(&other);
        FIXTURE_WAIT_FOR(l.stages[0].n_running == 2);
        over_ns = late.req->times.request_start_ns + late.req->timeout_us * NS_PER_US;
        wait_until(over_ns);
        fixture_hold(&l.stages[0], false);
        FIXTURE_WAIT_FOR(is_freed);
        fixture_wait(&other);
        assert_int_equal(fixture_output(&other, 0, "Y")->value, 274);
        assert_int_equal(fixture_count(&l.stages[1]), 1);
        assert_int_equal(atomic_load(&l.metrics->n_failure), 1);
        fixture_call_close(&other);
        chain_close(&l);
}

#define HOURS                                                                                      \
        "dynamic_batching { max_queue_delay_microseconds: 3600000000 } "                           \
        "parameters { key: 'adaptive_batching' value { string_value: 'off' } } "

/* What waits for a batch in the first model runs when the model is unloaded or replaced. */
static void test_the_first_model_retires(void **state) {
        const uint32_t            x = 5;
        struct step_models_holder holder;
        struct fixture_model      a;
        struct fixture_call       c;
        struct scheduler         *s;

        (void)state;
        fixture_model_open(&a, "a", CONFIG HOURS, NULL);
        step_models_holder_init(&holder);
        s = chain_new(&(struct chain_options){ .own = a.fake->model.scheduler, .holder = &holder });
        a.fake->model.scheduler = s;
        fixture_call_open(&c, a.fake);
        c.req->runs_alone = true;
        fixture_input(&c, "X", &x, 1, 1);
        fixture_submit(&c);
        assert_int_equal(fixture_count(&a), 0);
        assert_non_null(s->ops->retire);
        s->ops->retire(s);
        fixture_wait(&c);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 15);
        fixture_call_close(&c);
        fixture_model_stop(&a);
        step_models_holder_done(&holder);
        fake_model_free(a.fake);
}

static int open_all(void **state) {
        (void)state;
        fixture_open();
        return 0;
}

/* A request that the memory budget has no room for is refused; one that runs is charged for, and ends. */
static void test_budget_is_used_up(void **state) {
        const uint32_t       x = 5;
        struct fixture_chain l;
        struct fixture_call  c;

        (void)state;
        chain_open(&l, plain, false);
        fixture_call_open(&c, l.fake);
        fixture_input(&c, "X", &x, 1, 1);
        byte_budget_force(&l.budget, FIXTURE_BUDGET_BYTES);
        assert_error(model_submit(c.req), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] the server's memory budget (--memory-budget) is "
                     "used up");
        byte_budget_give(&l.budget, FIXTURE_BUDGET_BYTES);
        fixture_hold(&l.stages[1], true);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(l.stages[1].n_running == 1);
        assert_in_range(byte_budget_used(&l.budget), 4096, 32768);
        byte_budget_force(&l.budget, FIXTURE_BUDGET_BYTES);
        fixture_hold(&l.stages[1], false);
        fixture_wait(&c);
        assert_null(c.got[0].response->error);
        byte_budget_give(&l.budget, FIXTURE_BUDGET_BYTES);
        fixture_call_close(&c);
        chain_close(&l);
}

/* ---- the first model has sequences ------------------------------------------------------------ */

struct own_scheduler {
        struct scheduler base;
        bool             has_retired, has_ended_idle, is_freed;
        const void      *closed;          /* executor */
        uint64_t         forgotten, live; /* ids */
};

static struct own_scheduler *own_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct own_scheduler, base);
}

static bool own_knows(struct scheduler *s, const struct request *req) {
        return req->correlation.number == own_of(s)->live;
}

static void own_forget(struct scheduler *s, const struct request *req) {
        own_of(s)->forgotten = req->correlation.number;
}

static void own_retire(struct scheduler *s) {
        own_of(s)->has_retired = true;
}

static void own_end_idle(struct scheduler *s) {
        own_of(s)->has_ended_idle = true;
}

static void own_close_executor(struct scheduler *s, const struct executor *e) {
        own_of(s)->closed = e;
}

static struct sequence_count own_count(struct scheduler *s) {
        (void)s;
        return (struct sequence_count){ 3, 4 };
}

static size_t own_list(struct scheduler *s, struct sequence_cursor *at, struct sequence_row *rows,
                       size_t n_rows) {
        (void)s;
        at->has_ended = true;
        rows[0].number = n_rows;
        return 1;
}

static void own_drain(struct scheduler *s) {
        (void)s;
}

static void own_free(struct scheduler *s) {
        own_of(s)->is_freed = true;
}

/* The sequences of a chain are those of its first model. Live ones may continue while it drains. */
static void test_sequences_of_the_first(void **state) {
        static const struct scheduler_ops ops = { .drain = own_drain, .free = own_free };
        static const struct sequence_ops  sequences = { .knows = own_knows,
                                                        .forget = own_forget,
                                                        .retire = own_retire,
                                                        .end_idle = own_end_idle,
                                                        .close_executor = own_close_executor,
                                                        .count = own_count,
                                                        .list = own_list };
        struct own_scheduler own = { .base = { .ops = &ops, .sequences = &sequences }, .live = 7 };
        struct fixture_chain l;
        struct fixture_call  c;
        struct scheduler    *chain;
        struct sequence_cursor at = { 0 };
        struct sequence_row    row;

        (void)state;
        chain_open(&l, plain, false);
        assert_null(l.fake->model.scheduler->sequences);
        l.fake->model.has_next = true;
        chain = chain_new(&(struct chain_options){
                .own = &own.base, .holder = &l.holder, .metrics = l.metrics, .memory = &l.memory });
        fixture_call_open(&c, l.fake);
        c.req->correlation.number = 7;
        assert_true(chain->sequences->knows(chain, c.req));
        chain->sequences->forget(chain, c.req);
        assert_int_equal(own.forgotten, 7);
        chain->sequences->retire(chain);
        assert_true(own.has_retired);
        chain->sequences->end_idle(chain);
        assert_true(own.has_ended_idle);
        chain->sequences->close_executor(chain, (const struct executor *)(const void *)&row);
        assert_ptr_equal(own.closed, &row);
        assert_int_equal(chain->sequences->count(chain).n_backlog, 4);
        assert_int_equal(chain->sequences->list(chain, &at, &row, 5), 1);
        assert_int_equal(row.number, 5);
        assert_true(at.has_ended);

        step_models_holder_block(&l.holder, error_new(ERR_UNAVAILABLE, "it got here"));
        chain->ops->drain(chain);
        assert_error(chain->ops->submit(chain, c.req), ERR_UNAVAILABLE, "it got here");
        c.req->flags = REQUEST_SEQUENCE_START;
        assert_error(chain->ops->submit(chain, c.req), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] Server is stopping, scheduler for model has "
                     "stopped accepting new inference requests");
        fixture_call_close(&c);
        chain->ops->free(chain);
        assert_true(own.is_freed);
        chain_close(&l);
}

SUITE(chain) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_stage_fails),
                cmocka_unit_test(test_refused_before_the_first),
                cmocka_unit_test(test_many_responses_of_the_last),
                cmocka_unit_test(test_a_decoupled_stage_is_the_last),
                cmocka_unit_test(test_the_first_of_a_batch_ends),
                cmocka_unit_test(test_the_first_model_retires),
                cmocka_unit_test(test_budget_is_used_up),
                cmocka_unit_test(test_sequences_of_the_first),
        };

        return cmocka_run_group_tests(tests, open_all, NULL);
}
