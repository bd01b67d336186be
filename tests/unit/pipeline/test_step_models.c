/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"
#include "infer/fake_model.h"
#include "pipeline/step_models.h"
#include "suite.h"

#include <stdatomic.h>

#define CONFIG                                                                                     \
        "name: 'm' input { name: 'X' data_type: TYPE_FP32 dims: 1 } "                              \
        "output { name: 'Y' data_type: TYPE_FP32 dims: 1 }"

static unsigned n_plans_freed;

static void count_plan(void *plan) {
        assert_string_equal(plan, "plan");
        n_plans_freed++;
}

static unsigned references(struct fake_model *f) {
        return atomic_load(&f->model.ref.count);
}

static void test_a_request_keeps_what_it_took(void **state) {
        struct fake_model        *old = fake_model_new(CONFIG), *fresh = fake_model_new(CONFIG);
        struct request           *req = fake_request(old);
        struct step_model         of_old[] = { { &old->model, NULL } };
        struct step_model         of_fresh[] = { { &fresh->model, NULL } };
        struct step_models_holder holder;
        struct step_models       *first, *taken, *later;

        (void)state;
        n_plans_freed = 0;
        step_models_holder_init(&holder);
        assert_null(step_models_holder_get(&holder));
        assert_error(step_models_take(&holder, req, &taken), ERR_UNAVAILABLE,
                     "the models of its steps are not loaded yet");
        first = step_models_new(of_old, 1);
        first->plan = (void *)"plan";
        first->free_plan = count_plan;
        step_models_holder_set(&holder, first);
        assert_ok(step_models_take(&holder, req, &taken), "take");
        assert_ptr_equal(taken->models[0], &old->model);
        step_models_holder_set(&holder, step_models_new(of_fresh, 1));
        assert_ok(step_models_take(&holder, req, &later), "take again");
        assert_ptr_equal(later->models[0], &fresh->model);
        /* The fake's own reference, the request's, that of the snapshot. */
        assert_int_equal(references(old), 3);
        assert_int_equal(n_plans_freed, 0);
        step_models_unref(taken);
        assert_int_equal(references(old), 2);
        assert_int_equal(n_plans_freed, 1);
        step_models_unref(later);
        assert_int_equal(references(fresh), 2);
        step_models_holder_done(&holder);
        request_free(req);
        fake_model_free(old);
        fake_model_free(fresh);
}

/* The model of a step that was unloaded is held by the requests that were admitted, by nothing else. */
static void test_a_block_lets_go_of_the_models(void **state) {
        struct fake_model        *f = fake_model_new(CONFIG);
        struct request           *req = fake_request(f);
        struct step_model         steps[] = { { &f->model, NULL }, { &f->model, NULL } };
        struct step_models_holder holder;
        struct step_models       *taken, *none;

        (void)state;
        step_models_holder_init(&holder);
        step_models_holder_set(&holder, step_models_new(steps, 2));
        assert_ok(step_models_take(&holder, req, &taken), "take");
        step_models_holder_block(&holder,
                                 error_new(ERR_UNAVAILABLE, "next model 'C' is not ready"));
        assert_int_equal(references(f), 4);
        for (unsigned i = 0; i < 2; i++)
                assert_error(step_models_take(&holder, req, &none), ERR_UNAVAILABLE,
                             "next model 'C' is not ready");
        step_models_unref(taken);
        assert_int_equal(references(f), 2);
        step_models_holder_set(&holder, step_models_new(steps, 2));
        assert_ok(step_models_take(&holder, req, &taken), "take after it came back");
        step_models_unref(taken);
        step_models_holder_done(&holder);
        assert_int_equal(references(f), 2);
        request_free(req);
        fake_model_free(f);
}

/* A step that is composed itself gets the snapshot of the outer request, whatever its own holder has
 * by now. */
static void test_nested_snapshots(void **state) {
        struct fake_model        *leaf = fake_model_new(CONFIG), *inner = fake_model_new(CONFIG);
        struct request           *req = fake_request(inner);
        struct step_models_holder outer_holder, inner_holder;
        struct step_models       *outer, *of_inner, *taken;

        (void)state;
        step_models_holder_init(&outer_holder);
        step_models_holder_init(&inner_holder);
        of_inner = step_models_new((struct step_model[]){ { &leaf->model, NULL } }, 1);
        step_models_holder_set(&inner_holder, of_inner);
        step_models_holder_set(&outer_holder,
                               step_models_new((struct step_model[]){ { &inner->model, of_inner } },
                                               1));
        assert_ok(step_models_take(&outer_holder, req, &outer), "outer");
        step_models_holder_block(&inner_holder, error_new(ERR_UNAVAILABLE, "gone"));
        step_models_holder_block(&outer_holder, error_new(ERR_UNAVAILABLE, "gone"));
        req->is_inner = true;
        req->steps = outer->nested[0];
        assert_ok(step_models_take(&inner_holder, req, &taken), "inner");
        assert_ptr_equal(taken->models[0], &leaf->model);
        step_models_unref(taken);
        assert_int_equal(references(leaf), 2);
        step_models_unref(outer);
        assert_int_equal(references(leaf), 1);
        req->steps = NULL;
        assert_error(step_models_take(&inner_holder, req, &taken), ERR_UNAVAILABLE, "gone");
        step_models_holder_done(&outer_holder);
        step_models_holder_done(&inner_holder);
        request_free(req);
        fake_model_free(inner);
        fake_model_free(leaf);
}

/* ---- many threads ---------------------------------------------------------------------------- */

#define N_TAKERS 3
#define N_ROUNDS 2000

struct taker {
        struct thread              thread;
        struct step_models_holder *holder;
        struct request            *req;
        unsigned                   n_mixed;
};

static void take_often(void *arg) {
        struct taker *t = arg;

        for (unsigned i = 0; i < N_ROUNDS; i++) {
                struct step_models *s;
                struct error       *err = step_models_take(t->holder, t->req, &s);

                if (err == NULL) {
                        t->n_mixed += s->models[0] != s->models[1];
                        step_models_unref(s);
                }
                error_free(err);
        }
}

static void test_snapshots_are_whole(void **state) {
        struct fake_model        *models[] = { fake_model_new(CONFIG), fake_model_new(CONFIG) };
        struct step_models_holder holder;
        struct taker              takers[N_TAKERS];

        (void)state;
        step_models_holder_init(&holder);
        for (unsigned i = 0; i < N_TAKERS; i++) {
                takers[i] = (struct taker){ .holder = &holder, .req = fake_request(models[0]) };
                assert_ok(thread_start(&takers[i].thread, "taker", take_often, &takers[i]),
                          "thread");
        }
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                struct model     *m = &models[i % 2]->model;
                struct step_model steps[] = { { m, NULL }, { m, NULL } };

                if (i % 5 == 0)
                        step_models_holder_block(&holder, error_new(ERR_UNAVAILABLE, "gone"));
                else
                        step_models_holder_set(&holder, step_models_new(steps, 2));
        }
        for (unsigned i = 0; i < N_TAKERS; i++) {
                thread_join(&takers[i].thread);
                assert_int_equal(takers[i].n_mixed, 0);
                request_free(takers[i].req);
        }
        step_models_holder_done(&holder);
        fake_model_free(models[0]);
        fake_model_free(models[1]);
}

SUITE(step_models) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_request_keeps_what_it_took),
                cmocka_unit_test(test_a_block_lets_go_of_the_models),
                cmocka_unit_test(test_nested_snapshots),
                cmocka_unit_test(test_snapshots_are_whole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
