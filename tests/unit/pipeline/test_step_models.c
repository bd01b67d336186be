/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/thread.h"
#include "infer/fake_model.h"
#include "pipeline/step_models.h"

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
        struct step_model         of_old[] = { { &old->model, NULL, 0 } };
        struct step_model         of_fresh[] = { { &fresh->model, NULL, 0 } };
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
        struct step_model         steps[] = { { &f->model, NULL, 0 }, { &f->model, NULL, 0 } };
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

static void test_sizes(void **state) {
        struct fake_model  *f = fake_model_new(CONFIG);
        struct model       *m = &f->model;
        struct step_models *inner =
                step_models_new((struct step_model[]){ { m, NULL, 0 }, { m, NULL, 5 } }, 2);
        struct step_models *outer = step_models_new(
                (struct step_model[]){ { m, inner, 0 }, { m, inner, 0 }, { m, NULL, 0 } }, 3);

        (void)state;
        assert_int_equal(inner->n_all, 2 + 5);
        assert_int_equal(outer->n_all, 3 + 2 * 7);
        step_models_unref(inner);
        step_models_unref(outer);
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
        of_inner = step_models_new((struct step_model[]){ { &leaf->model, NULL, 0 } }, 1);
        step_models_holder_set(&inner_holder, of_inner);
        step_models_holder_set(
                &outer_holder,
                step_models_new((struct step_model[]){ { &inner->model, of_inner, 0 } }, 1));
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

/* ---- live sequences -------------------------------------------------------------------------- */

/* A scheduler with up to two live sequences. */
struct fake_sequences {
        struct scheduler base;
        uint64_t         ids[2]; /* 0: none */
};

static bool knows(struct scheduler *s, const struct request *req) {
        const struct fake_sequences *q = CONTAINER_OF(s, struct fake_sequences, base);

        return req->correlation.number == q->ids[0] || req->correlation.number == q->ids[1];
}

static void give_sequences(struct fake_model *f, struct fake_sequences *q, uint64_t a, uint64_t b) {
        static const struct sequence_ops ops = { .knows = knows };

        *q = (struct fake_sequences){ .base = { .sequences = &ops }, .ids = { a, b } };
        f->model.scheduler = &q->base;
}

static void expect_first(struct step_models_holder *h, struct request *req, uint64_t id,
                         uint32_t flags, struct fake_model *expected) {
        struct step_models *taken;

        req->correlation.number = id;
        req->flags = flags;
        assert_ok(step_models_take(h, req, &taken), "take");
        assert_ptr_equal(taken->models[0], &expected->model);
        step_models_unref(taken);
}

static void set_two(struct step_models_holder *h, struct fake_model *a, struct fake_model *b) {
        struct step_model steps[] = { { &a->model, NULL, 0 }, { &b->model, NULL, 0 } };

        step_models_holder_set(h, step_models_new(steps, 2));
}

/* A sequence has the steps that were there with the load of its model, until its last one has ended. */
static void test_sequences_keep_their_steps(void **state) {
        struct fake_model        *old = fake_model_new(CONFIG), *fresh = fake_model_new(CONFIG);
        struct fake_model        *plain = fake_model_new(CONFIG), *other = fake_model_new(CONFIG);
        struct request           *req = fake_request(old);
        struct fake_sequences     of_old, of_fresh;
        struct step_models_holder holder;
        struct step_models       *none;

        (void)state;
        give_sequences(old, &of_old, 7, 9);
        give_sequences(fresh, &of_fresh, 8, 9);
        step_models_holder_init(&holder);
        set_two(&holder, old, plain);
        set_two(&holder, old, other); /* a step without sequences is replaced */
        assert_false(step_models_holder_has_older(&holder));
        assert_int_equal(references(plain), 1);
        atomic_store(&old->model.is_replaced, true);
        set_two(&holder, fresh, plain);
        assert_true(step_models_holder_has_older(&holder));
        assert_true(atomic_load(&old->model.is_kept));
        expect_first(&holder, req, 7, 0, old);
        expect_first(&holder, req, 7, REQUEST_SEQUENCE_START, fresh);
        expect_first(&holder, req, 8, REQUEST_SEQUENCE_END, fresh);
        expect_first(&holder, req, 5, 0, fresh); /* unknown */
        expect_first(&holder, req, 0, 0, fresh);
        expect_first(&holder, req, 9, 0, fresh); /* of both: the newest */
        step_models_holder_prune(&holder);
        assert_int_equal(references(other), 2);

        /* The others are refused meanwhile. */
        step_models_holder_block(&holder, error_new(ERR_UNAVAILABLE, "gone"));
        expect_first(&holder, req, 7, 0, old);
        req->flags = REQUEST_SEQUENCE_START;
        assert_error(step_models_take(&holder, req, &none), ERR_UNAVAILABLE, "gone");
        atomic_store(&old->model.has_left, true);
        step_models_holder_prune(&holder);
        assert_false(step_models_holder_has_older(&holder));
        assert_int_equal(references(other), 1);
        req->flags = 0;
        req->correlation.number = 7;
        assert_error(step_models_take(&holder, req, &none), ERR_UNAVAILABLE, "gone");
        step_models_holder_done(&holder);
        request_free(req);
        old->model.scheduler = fresh->model.scheduler = NULL;
        fake_model_free(old);
        fake_model_free(fresh);
        fake_model_free(plain);
        fake_model_free(other);
}

/* A model that is a step of two loads: the snapshot with most of the loads of a sequence is its own. */
static void test_two_steps_with_sequences(void **state) {
        struct fake_model        *a[2] = { fake_model_new(CONFIG), fake_model_new(CONFIG) };
        struct fake_model        *b[2] = { fake_model_new(CONFIG), fake_model_new(CONFIG) };
        struct request           *req = fake_request(a[0]);
        struct fake_sequences     of_a[2], of_b[2];
        struct step_models_holder holder;
        struct step_models       *taken;

        (void)state;
        give_sequences(a[0], &of_a[0], 1, 0); /* 1 began with a0 and b0 */
        give_sequences(a[1], &of_a[1], 2, 3); /* 2 with a1 and b0, 3 with a1 and b1 */
        give_sequences(b[0], &of_b[0], 1, 2);
        give_sequences(b[1], &of_b[1], 3, 0);
        step_models_holder_init(&holder);
        set_two(&holder, a[0], b[0]);
        atomic_store(&a[0]->model.is_replaced, true);
        set_two(&holder, a[1], b[0]);
        atomic_store(&b[0]->model.is_replaced, true);
        set_two(&holder, a[1], b[1]);
        for (uint64_t id = 1; id <= 3; id++) {
                req->correlation.number = id;
                assert_ok(step_models_take(&holder, req, &taken), "take");
                assert_ptr_equal(taken->models[0], &a[id > 1]->model);
                assert_ptr_equal(taken->models[1], &b[id > 2]->model);
                step_models_unref(taken);
        }
        step_models_holder_done(&holder);
        request_free(req);
        for (unsigned i = 0; i < 2; i++) {
                a[i]->model.scheduler = b[i]->model.scheduler = NULL;
                fake_model_free(a[i]);
                fake_model_free(b[i]);
        }
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
                struct step_model steps[] = { { m, NULL, 0 }, { m, NULL, 0 } };

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
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_nested_snapshots),
                cmocka_unit_test(test_sequences_keep_their_steps),
                cmocka_unit_test(test_two_steps_with_sequences),
                cmocka_unit_test(test_snapshots_are_whole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
