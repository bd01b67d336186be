/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains of test models: each one computes 3 * x + add. tests/e2e/test_chains.py tests the rules
 * with a server. These tests check memory addresses and counters, or stop a stage at a certain
 * moment.
 */
#include "suite.h"

#include "base/mem.h"
#include "sched/chain.h"
#include "sched/chain_metrics.h"
#include "sched/chain_plan.h"
#include "sched/ensemble_lab.h"

#define IO                                                                                         \
        "input { name: 'X' data_type: TYPE_UINT32 dims: 1 } "                                      \
        "output { name: 'Y' data_type: TYPE_UINT32 dims: 1 } "
#define CONFIG "name: 'm' max_batch_size: 8 " IO
#define CONFIG_4 "name: 'm' max_batch_size: 4 " IO
#define DECOUPLED "model_transaction_policy { decoupled: true } "
#define PIPE                                                                                       \
        "name: 'pipe' platform: 'chain' max_batch_size: 8 " IO                                     \
        "parameters { key: 'stages' value { string_value: 'a,b,c' } }"

struct lab_chain {
        struct lab_model          stages[3];
        struct fake_model        *fake;
        struct step_models_holder holder;
        struct chain_metrics     *metrics;
        struct timer_thread      *timers;
        struct byte_budget        budget;
        struct step_memory        memory;
};

static struct error *plan_new(struct lab_chain *l, struct step_models *models) {
        struct chain_stage_model stages[3] = { 0 };
        struct chain_plan       *plan = NULL;
        struct error            *err;

        for (unsigned i = 0; i < 3; i++)
                stages[i].model = models->models[i];
        err = chain_plan_new("pipe", l->metrics, stages, 3, &plan);
        if (err == NULL) {
                models->plan = plan;
                models->free_plan = chain_plan_free;
        }
        return err;
}

static struct step_models *models_new(struct lab_chain *l) {
        struct step_model steps[3];

        for (unsigned i = 0; i < 3; i++)
                steps[i] = (struct step_model){ &l->stages[i].fake->model, NULL };
        return step_models_new(steps, 3);
}

static void chain_open(struct lab_chain *l, const char *const configs[3], bool may_end) {
        static const char *const names[] = { "a", "b", "c" };
        static const uint32_t    adds[] = { 1, 10, 100 };
        struct step_models      *models;

        for (unsigned i = 0; i < 3; i++) {
                lab_model_open(&l->stages[i], names[i], configs[i], NULL);
                l->stages[i].add = adds[i];
        }
        assert_ok(timer_thread_new(&l->timers), "timers");
        byte_budget_init(&l->budget, LAB_BUDGET_BYTES);
        step_memory_init(&l->memory, &l->budget, l->timers);
        l->metrics = chain_metrics_new(NULL, "pipe", 1);
        l->fake = lab_fake_new("pipe", PIPE);
        step_models_holder_init(&l->holder);
        models = models_new(l);
        assert_ok(plan_new(l, models), "plan");
        step_models_holder_set(&l->holder, models);
        l->fake->model.is_decoupled = l->stages[2].fake->model.is_decoupled;
        l->fake->model.scheduler = chain_new(&(struct chain_options){ .model = &l->fake->model,
                                                                      .holder = &l->holder,
                                                                      .metrics = l->metrics,
                                                                      .memory = &l->memory,
                                                                      .may_end = may_end });
}

static const char *const plain[] = { CONFIG, CONFIG, CONFIG };

static void chain_close(struct lab_chain *l) {
        assert_int_equal(atomic_load(&l->fake->model.n_in_flight), 0);
        l->fake->model.scheduler->ops->free(l->fake->model.scheduler);
        step_models_holder_done(&l->holder);
        step_memory_done(&l->memory);
        assert_int_equal(byte_budget_used(&l->budget), 0);
        timer_thread_free(l->timers);
        chain_metrics_free(l->metrics);
        /* A thread that has sent a response may still hold any of the models for a moment. */
        for (unsigned i = 0; i < 3; i++)
                lab_model_stop(&l->stages[i]);
        for (unsigned i = 0; i < 3; i++)
                fake_model_free(l->stages[i].fake);
        fake_model_free(l->fake);
}

static void test_one_after_the_other(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;

        (void)state;
        chain_open(&l, plain, false);
        lab_call_open(&c, l.fake);
        assert_ok(request_set_id(c.req, "seven"), "id");
        c.req->priority = 3;
        lab_input(&c, "X", &x, 1, 1);
        lab_run(&c);
        /* ((5 * 3 + 1) * 3 + 10) * 3 + 100 */
        assert_int_equal(lab_output(&c, 0, "Y")->value, 274);
        assert_ptr_equal(c.got[0].response->source.model, &l.fake->model);
        assert_string_equal(c.got[0].response->source.id, "seven");
        /* Nothing is copied: an output is the next input, and the last output is in the client's
         * memory. */
        assert_ptr_equal(l.stages[0].seen.output, l.stages[1].seen.input);
        assert_ptr_equal(l.stages[1].seen.output, l.stages[2].seen.input);
        assert_ptr_equal(l.stages[2].seen.output, lab_output(&c, 0, "Y")->base);
        assert_ptr_equal(l.stages[0].seen.input, &x);
        assert_int_equal(atomic_load(&c.n_allocated), 1);
        for (unsigned i = 0; i < 3; i++) {
                assert_string_equal(l.stages[i].seen.id, "seven");
                assert_int_equal(l.stages[i].seen.priority, 3);
        }
        assert_int_equal(atomic_load(&l.metrics->n_success), 1);
        assert_int_equal(atomic_load(&l.metrics->n_failure), 0);
        lab_call_close(&c);
        chain_close(&l);
}

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
                struct lab_chain l;
                struct lab_call  c;

                chain_open(&l, plain, false);
                l.stages[1].error = rows[i].error;
                l.stages[1].is_silent = rows[i].is_silent;
                lab_call_open(&c, l.fake);
                lab_input(&c, "X", &x, 1, 1);
                lab_run(&c);
                lab_assert_error(&c, rows[i].error != NULL ? ERR_INVALID_ARG : ERR_INTERNAL,
                                 rows[i].text);
                assert_int_equal(lab_count(&l.stages[2]), 0);
                assert_int_equal(atomic_load(&l.metrics->n_failure), 1);
                lab_call_close(&c);
                chain_close(&l);
        }
}

static void test_the_client_has_no_memory(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;

        (void)state;
        chain_open(&l, plain, false);
        lab_call_open(&c, l.fake);
        c.refuses = "Y";
        lab_input(&c, "X", &x, 1, 1);
        lab_run(&c);
        lab_assert_error(&c, ERR_UNAVAILABLE, "in chain 'pipe' stage 'c' (3/3): no room for 'Y'");
        lab_call_close(&c);
        chain_close(&l);
}

static void test_refused_before_the_first(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG_4, CONFIG };
        static const uint32_t    x[6] = { 0 };
        struct lab_chain         l;
        struct lab_call          c;

        (void)state;
        chain_open(&l, configs, false);
        lab_call_open(&c, l.fake);
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 6, 1 }, 2), "X");
        append_bytes(c.req, "X", x, sizeof(x));
        assert_error(model_submit(c.req), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] inference request batch-size must be <= 4 for "
                     "stage 'b' of chain 'pipe'");
        request_remove_all_inputs(c.req);
        lab_input(&c, "X", x, 1, 1);
        step_models_holder_block(&l.holder, error_new(ERR_UNAVAILABLE, "stage 'c' is not ready"));
        assert_error(model_submit(c.req), ERR_UNAVAILABLE, "stage 'c' is not ready");
        l.fake->model.scheduler->ops->drain(l.fake->model.scheduler);
        assert_error(model_submit(c.req), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] Server is stopping, scheduler for model has "
                     "stopped accepting new inference requests");
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(lab_count(&l.stages[i]), 0);
        lab_call_close(&c);
        chain_close(&l);
}

static void test_cancelled_between_stages(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;

        (void)state;
        chain_open(&l, plain, false);
        lab_hold(&l.stages[1], true);
        lab_call_open(&c, l.fake);
        lab_input(&c, "X", &x, 1, 1);
        lab_submit(&c);
        LAB_WAIT_FOR(l.stages[1].n_running == 1);
        request_cancel(c.req);
        lab_hold(&l.stages[1], false);
        lab_wait(&c);
        lab_assert_error(&c, ERR_CANCELLED, "");
        /* The running stage was cancelled. */
        assert_int_equal(l.stages[1].n_cancelled, 1);
        assert_int_equal(lab_count(&l.stages[2]), 0);
        lab_call_close(&c);
        chain_close(&l);
}

/* A cancelled request that waits for the only instance of a stage ends at once. */
static void test_cancelled_in_a_queue(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  first, second;

        (void)state;
        chain_open(&l, plain, false);
        lab_hold(&l.stages[0], true);
        lab_call_open(&first, l.fake);
        lab_call_open(&second, l.fake);
        lab_input(&first, "X", &x, 1, 1);
        lab_input(&second, "X", &x, 1, 1);
        lab_submit(&first);
        LAB_WAIT_FOR(l.stages[0].n_running == 1);
        lab_submit(&second);
        request_cancel(second.req);
        lab_wait(&second);
        lab_assert_error(&second, ERR_CANCELLED, "");
        lab_hold(&l.stages[0], false);
        lab_wait(&first);
        assert_int_equal(lab_output(&first, 0, "Y")->value, 274);
        lab_call_close(&first);
        lab_call_close(&second);
        chain_close(&l);
}

/* A request keeps the models that it was admitted with. */
static void test_a_stage_goes_meanwhile(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;

        (void)state;
        chain_open(&l, plain, false);
        lab_hold(&l.stages[0], true);
        lab_call_open(&c, l.fake);
        lab_input(&c, "X", &x, 1, 1);
        lab_submit(&c);
        LAB_WAIT_FOR(l.stages[0].n_running == 1);
        step_models_holder_block(&l.holder, error_new(ERR_UNAVAILABLE, "gone"));
        /* References: the test model's own, and the one of the request's snapshot. */
        assert_int_equal(atomic_load(&l.stages[2].fake->model.ref.count), 2);
        lab_hold(&l.stages[0], false);
        lab_wait(&c);
        assert_int_equal(lab_output(&c, 0, "Y")->value, 274);
        lab_call_close(&c);
        chain_close(&l);
}

static void test_many_responses_of_the_last(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG, CONFIG DECOUPLED };
        const uint32_t           x = 5;

        (void)state;
        for (unsigned late = 0; late < 2; late++) {
                struct lab_chain l;
                struct lab_call  c;

                chain_open(&l, configs, false);
                l.stages[2].n_responses = 3;
                l.stages[2].has_late_final = late == 1;
                lab_call_open(&c, l.fake);
                lab_input(&c, "X", &x, 1, 1);
                lab_run(&c);
                assert_int_equal(c.n_got, 3);
                for (unsigned j = 0; j < 3; j++)
                        assert_int_equal(lab_output(&c, j, "Y")->value, 274 + 101 * j);
                lab_call_close(&c);
                chain_close(&l);
        }
}

static void test_a_decoupled_stage_is_the_last(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG, CONFIG };
        struct lab_chain         l;
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

static void wait_until(uint64_t time_ns) {
        mutex_lock(&lab_lock);
        while (clock_now_ns() <= time_ns)
                cond_wait_until(&lab_changed, &lab_lock, time_ns + 1);
        mutex_unlock(&lab_lock);
}

/* All stages have one deadline. It passes while a stage is held. */
static void test_the_deadline(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;
        uint64_t         over_ns;

        (void)state;
        chain_open(&l, plain, false);
        lab_hold(&l.stages[0], true);
        lab_call_open(&c, l.fake);
        c.req->timeout_us = 2000000; /* long enough for the first stage to start */
        lab_input(&c, "X", &x, 1, 1);
        lab_submit(&c);
        LAB_WAIT_FOR(l.stages[0].n_running == 1);
        over_ns = c.req->times.request_start_ns + c.req->timeout_us * NS_PER_US;
        wait_until(over_ns);
        lab_hold(&l.stages[0], false);
        lab_wait(&c);
        lab_assert_error(&c, ERR_UNAVAILABLE,
                         "in chain 'pipe' stage 'b' (2/3): Request timeout expired");
        assert_int_equal(lab_count(&l.stages[1]), 0);
        lab_call_close(&c);
        chain_close(&l);
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
        mutex_lock(&lab_lock);
        *is_freed = true;
        cond_broadcast(&lab_changed);
        mutex_unlock(&lab_lock);
}

/* Two requests leave a stage in one batch. The first one ends instead of entering the next stage, and
 * its client frees it at once. */
static void test_the_first_of_a_batch_ends(void **state) {
        static const char *const configs[] = { CONFIG "dynamic_batching { preferred_batch_size: 2 "
                                                      "max_queue_delay_microseconds: 60000000 }",
                                               CONFIG, CONFIG };
        const uint32_t           x = 5;
        struct lab_chain         l;
        struct lab_call          late, other;
        uint64_t                 over_ns;
        bool                     is_freed = false;

        (void)state;
        chain_open(&l, configs, false);
        lab_hold(&l.stages[0], true);
        lab_call_open(&late, l.fake);
        late.req->timeout_us = 2000000; /* long enough for the first stage to start */
        late.req->on_response = free_response;
        late.req->on_release = free_request;
        late.req->on_release_userp = &is_freed;
        lab_input(&late, "X", &x, 1, 1);
        lab_call_open(&other, l.fake);
        lab_input(&other, "X", &x, 1, 1);
        lab_submit(&late);
        lab_submit(&other);
        LAB_WAIT_FOR(l.stages[0].n_running == 2);
        over_ns = late.req->times.request_start_ns + late.req->timeout_us * NS_PER_US;
        wait_until(over_ns);
        lab_hold(&l.stages[0], false);
        LAB_WAIT_FOR(is_freed);
        lab_wait(&other);
        assert_int_equal(lab_output(&other, 0, "Y")->value, 274);
        assert_int_equal(lab_count(&l.stages[1]), 1);
        assert_int_equal(atomic_load(&l.metrics->n_failure), 1);
        lab_call_close(&other);
        chain_close(&l);
}

/* The last stage has memory of the client for a response that it does not send. The client gets it
 * back, although the run has ended. */
static void test_a_response_outlives_the_run(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;
        bool             is_freed = false;

        (void)state;
        chain_open(&l, plain, false);
        l.stages[2].executor.ops = &lab_ops_that_delete;
        lab_call_open(&c, l.fake);
        c.req->on_response = free_response;
        c.req->on_release = free_request;
        c.req->on_release_userp = &is_freed;
        lab_input(&c, "X", &x, 1, 1);
        lab_submit(&c);
        LAB_WAIT_FOR(is_freed);
        chain_close(&l);
        assert_int_equal(atomic_load(&c.n_allocated), 2);
        assert_int_equal(atomic_load(&c.n_buffers), 0);
}

#define HOURS                                                                                      \
        "dynamic_batching { max_queue_delay_microseconds: 3600000000 } "                           \
        "parameters { key: 'adaptive_batching' value { string_value: 'off' } } "

/* What waits for a batch in the first model runs when the model is unloaded or replaced. */
static void test_the_first_model_retires(void **state) {
        const uint32_t            x = 5;
        struct step_models_holder holder;
        struct lab_model          a;
        struct lab_call           c;
        struct scheduler         *s;

        (void)state;
        lab_model_open(&a, "a", CONFIG HOURS, NULL);
        step_models_holder_init(&holder);
        s = chain_new(&(struct chain_options){ .model = &a.fake->model,
                                               .own = a.fake->model.scheduler,
                                               .holder = &holder });
        a.fake->model.scheduler = s;
        lab_call_open(&c, a.fake);
        c.req->runs_alone = true;
        lab_input(&c, "X", &x, 1, 1);
        lab_submit(&c);
        assert_int_equal(lab_count(&a), 0);
        assert_non_null(s->ops->retire);
        s->ops->retire(s);
        lab_wait(&c);
        assert_int_equal(lab_output(&c, 0, "Y")->value, 15);
        lab_call_close(&c);
        lab_model_stop(&a);
        step_models_holder_done(&holder);
        fake_model_free(a.fake);
}

/* A request that the memory budget has no room for is refused; one that runs is charged for, and ends. */
static void test_budget_is_used_up(void **state) {
        const uint32_t   x = 5;
        struct lab_chain l;
        struct lab_call  c;

        (void)state;
        chain_open(&l, plain, false);
        lab_call_open(&c, l.fake);
        lab_input(&c, "X", &x, 1, 1);
        byte_budget_force(&l.budget, LAB_BUDGET_BYTES);
        assert_error(model_submit(c.req), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] the server's memory budget (--memory-budget) is "
                     "used up");
        byte_budget_give(&l.budget, LAB_BUDGET_BYTES);
        lab_hold(&l.stages[1], true);
        lab_submit(&c);
        LAB_WAIT_FOR(l.stages[1].n_running == 1);
        assert_in_range(byte_budget_used(&l.budget), 4096, 32768);
        byte_budget_force(&l.budget, LAB_BUDGET_BYTES);
        lab_hold(&l.stages[1], false);
        lab_wait(&c);
        assert_null(c.got[0].response->error);
        byte_budget_give(&l.budget, LAB_BUDGET_BYTES);
        lab_call_close(&c);
        chain_close(&l);
}

static void test_short_of_memory(void **state) {
        const uint32_t x = 5;
        bool           was_hit = true;

        (void)state;
        for (unsigned n = 1; was_hit; n++) {
                struct lab_chain l;
                struct lab_call  c;
                struct error    *err;

                chain_open(&l, plain, false);
                for (unsigned i = 0; i < 3; i++)
                        l.stages[i].may_lack_memory = true;
                lab_call_open(&c, l.fake);
                lab_input(&c, "X", &x, 1, 1);
                mem_fail_after(n);
                err = model_submit(c.req);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (err == NULL)
                        LAB_WAIT_FOR(c.is_released && c.n_finals == 1);
                error_free(err);
                lab_call_close(&c);
                chain_close(&l);
        }
}

static int open_all(void **state) {
        (void)state;
        lab_open();
        return 0;
}

SUITE(chain) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_after_the_other),
                cmocka_unit_test(test_a_stage_fails),
                cmocka_unit_test(test_the_client_has_no_memory),
                cmocka_unit_test(test_refused_before_the_first),
                cmocka_unit_test(test_cancelled_between_stages),
                cmocka_unit_test(test_cancelled_in_a_queue),
                cmocka_unit_test(test_a_stage_goes_meanwhile),
                cmocka_unit_test(test_many_responses_of_the_last),
                cmocka_unit_test(test_a_decoupled_stage_is_the_last),
                cmocka_unit_test(test_the_deadline),
                cmocka_unit_test(test_the_first_of_a_batch_ends),
                cmocka_unit_test(test_a_response_outlives_the_run),
                cmocka_unit_test(test_the_first_model_retires),
                cmocka_unit_test(test_budget_is_used_up),
                cmocka_unit_test(test_short_of_memory),
        };

        return cmocka_run_group_tests(tests, open_all, NULL);
}
