/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of three test models, as a chain or as an ensemble: each one computes 3 * x + add, so 5
 * becomes ((5 * 3 + 1) * 3 + 10) * 3 + 100 = 274.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "pipeline/chain.h"
#include "pipeline/chain_metrics.h"
#include "pipeline/chain_plan.h"
#include "pipeline/ensemble_fixture.h"

#define IO                                                                                         \
        "input { name: 'X' data_type: TYPE_UINT32 dims: 1 } "                                      \
        "output { name: 'Y' data_type: TYPE_UINT32 dims: 1 } "
#define CONFIG "name: 'm' max_batch_size: 8 " IO
#define CONFIG_4 "name: 'm' max_batch_size: 4 " IO
#define DECOUPLED "model_transaction_policy { decoupled: true } "
#define PIPE                                                                                       \
        "name: 'pipe' platform: 'chain' max_batch_size: 8 " IO                                     \
        "parameters { key: 'stages' value { string_value: 'a,b,c' } }"

struct fixture_chain {
        struct fixture_model      stages[3];
        struct fake_model        *fake;
        struct step_models_holder holder;
        struct chain_metrics     *metrics;
        struct timer_thread      *timers;
        struct byte_budget        budget;
        struct step_memory        memory;
};

static inline struct error *plan_new(struct fixture_chain *l, struct step_models *models) {
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

static inline struct step_models *models_new(struct fixture_chain *l) {
        struct step_model steps[3];

        for (unsigned i = 0; i < 3; i++)
                steps[i] = (struct step_model){ &l->stages[i].fake->model, NULL, 0 };
        return step_models_new(steps, 3);
}

static inline void chain_open(struct fixture_chain *l, const char *const configs[3], bool may_end) {
        static const char *const names[] = { "a", "b", "c" };
        static const uint32_t    adds[] = { 1, 10, 100 };
        struct step_models      *models;

        for (unsigned i = 0; i < 3; i++) {
                fixture_model_open(&l->stages[i], names[i], configs[i], NULL);
                l->stages[i].add = adds[i];
        }
        assert_ok(timer_thread_new(&l->timers), "timers");
        byte_budget_init(&l->budget, FIXTURE_BUDGET_BYTES);
        step_memory_init(&l->memory, &l->budget, l->timers);
        l->metrics = chain_metrics_new(NULL, "pipe", 1);
        l->fake = fixture_fake_new("pipe", PIPE);
        step_models_holder_init(&l->holder);
        models = models_new(l);
        assert_ok(plan_new(l, models), "plan");
        step_models_holder_set(&l->holder, models);
        l->fake->model.is_decoupled = l->stages[2].fake->model.is_decoupled;
        l->fake->model.scheduler = chain_new(&(struct chain_options){ .holder = &l->holder,
                                                                      .metrics = l->metrics,
                                                                      .memory = &l->memory,
                                                                      .may_end = may_end });
}

static const char *const plain[] UNUSED = { CONFIG, CONFIG, CONFIG };

static inline void chain_close(struct fixture_chain *l) {
        assert_int_equal(atomic_load(&l->fake->model.n_in_flight), 0);
        l->fake->model.scheduler->ops->free(l->fake->model.scheduler);
        step_models_holder_done(&l->holder);
        step_memory_done(&l->memory);
        assert_int_equal(byte_budget_used(&l->budget), 0);
        timer_thread_free(l->timers);
        chain_metrics_free(l->metrics);
        /* A thread that has sent a response may still hold any of the models for a moment. */
        for (unsigned i = 0; i < 3; i++)
                fixture_model_stop(&l->stages[i]);
        for (unsigned i = 0; i < 3; i++)
                fake_model_free(l->stages[i].fake);
        fake_model_free(l->fake);
}

/* ---- the same line as an ensemble ------------------------------------------------------------- */

#define LINE_STEP(from, to)                                                                        \
        "step { model_name: 'm' model_version: -1 input_map { key: 'X' value: '" from "' } "       \
        "output_map { key: 'Y' value: '" to "' } } "
#define LINE                                                                                       \
        "name: 'pipe' platform: 'ensemble' max_batch_size: 8 " IO                                  \
        "ensemble_scheduling { " LINE_STEP("X", "T") LINE_STEP("T", "U") LINE_STEP("U", "Y") "}"

struct fixture_line {
        bool                    is_chain;
        struct fixture_chain    chain;
        struct fixture_ensemble ensemble;
        struct fixture_model   *models; /* three: the steps */
        struct fake_model      *fake;   /* the composed model */
        struct fixture_model    steps[3];
};

static inline void line_open(struct fixture_line *l, bool is_chain, const char *const configs[3]) {
        static const uint32_t adds[] = { 1, 10, 100 };
        struct step_model     steps[3];

        l->is_chain = is_chain;
        if (is_chain) {
                chain_open(&l->chain, configs, false);
                l->models = l->chain.stages;
                l->fake = l->chain.fake;
                return;
        }
        for (unsigned i = 0; i < 3; i++) {
                fixture_model_open(&l->steps[i], "m", configs[i], NULL);
                l->steps[i].add = adds[i];
                steps[i] = (struct step_model){ &l->steps[i].fake->model, NULL, 0 };
        }
        fixture_ensemble_open(&l->ensemble, "pipe", LINE, steps, 3);
        l->models = l->steps;
        l->fake = l->ensemble.fake;
}

static inline void line_close(struct fixture_line *l) {
        if (l->is_chain) {
                chain_close(&l->chain);
                return;
        }
        fixture_ensemble_close(&l->ensemble);
        /* A thread that has sent a response may still hold any of the models for a moment. */
        for (unsigned i = 0; i < 3; i++)
                fixture_model_stop(&l->steps[i]);
        for (unsigned i = 0; i < 3; i++)
                fake_model_free(l->steps[i].fake);
}

static inline struct step_models_holder *line_holder(struct fixture_line *l) {
        return l->is_chain ? &l->chain.holder : &l->ensemble.holder;
}
