/* SPDX-License-Identifier: BSD-3-Clause */
/* An ensemble with a model for each step, and short ways to write their configurations.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "pipeline/ensemble_fixture.h"

#define TENSOR(what, name) what " { name: '" name "' data_type: TYPE_UINT32 dims: 1 } "
#define IN(name) TENSOR("input", name)
#define OUT(name) TENSOR("output", name)
#define OPTIONAL(name) "input { name: '" name "' data_type: TYPE_UINT32 dims: 1 optional: true } "
#define MAP(field, model, ensemble) field " { key: '" model "' value: '" ensemble "' } "
#define STEP(maps) "step { model_name: 's' model_version: -1 " maps "} "
#define I_TO_O(from, to) MAP("input_map", "I", from) MAP("output_map", "O", to)
#define IJ_TO_O(from1, from2, to) MAP("input_map", "J", from2) I_TO_O(from1, to)
#define ENSEMBLE(rest, steps)                                                                      \
        "name: 'e' platform: 'ensemble' " rest "ensemble_scheduling { " steps "}"
#define ONE IN("I") OUT("O")
#define TWO IN("I") IN("J") OUT("O")
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "
#define NEVER INLINE("never")
#define ALWAYS INLINE("always")
#define DECOUPLED "model_transaction_policy { decoupled: true } "

#define MAX_MODELS 6

/* An ensemble with a model for each step. */
struct ensemble_steps {
        struct fixture_model    models[MAX_MODELS];
        struct step_model       steps[MAX_MODELS];
        size_t                  n;
        struct fixture_ensemble ensemble;
};

static inline void ensemble_steps_open(struct ensemble_steps *b, const char *ensemble,
                                       const char *const *models, size_t n) {
        b->n = n;
        for (size_t i = 0; i < n; i++) {
                fixture_model_open(&b->models[i], "s", models[i], NULL);
                b->models[i].add = 1;
                b->steps[i] = (struct step_model){ &b->models[i].fake->model, NULL, 0 };
        }
        fixture_ensemble_open(&b->ensemble, "e", ensemble, b->steps, n);
}

#define ENSEMBLE_STEPS(b, ensemble, ...)                                                           \
        ensemble_steps_open(b, ensemble, (const char *[]){ __VA_ARGS__ },                          \
                            sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(const char *))

static inline void ensemble_steps_close(struct ensemble_steps *b) {
        fixture_ensemble_close(&b->ensemble);
        for (size_t i = 0; i < b->n; i++)
                fixture_model_close(&b->models[i]);
}

static inline void call_open(struct fixture_call *c, struct ensemble_steps *b) {
        fixture_call_open(c, b->ensemble.fake);
}
