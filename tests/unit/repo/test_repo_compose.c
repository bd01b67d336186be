/* SPDX-License-Identifier: BSD-3-Clause */
/* Models that need others, by `next`: in which order they are loaded, and what becomes of them when one
 * comes, changes or goes. Over the network: tests/e2e/test_chains.py, test_ensemble_life.py.
 */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/byte_budget.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/response_stream.h"
#include "pipeline/step_memory.h"
#include "pipeline/step_models.h"
#include "repo/composed_model.h"
#include "repo/load_parameters.h"
#include "repo/load_user.h"
#include "repo/loaded_model.h"
#include "repo/model_graph.h"
#include "repo/model_kind.h"
#include "repo/override.h"
#include "repo/repo_compose.h"
#include "repo/repo_place.h"
#include "shortage.h"

#define NEXT(model) "parameters { key: 'next' value { string_value: '" model "' } } "
#define WAITS "next model 'c' is not ready"

static const char *const folder[] = { "models" };

/* a -> b -> c, and d by itself. */
static void open_line(struct repo_place *p) {
        repo_place_begin(p);
        repo_place_add(p, "a", NEXT("b"));
        repo_place_add(p, "b", NEXT("c"));
        repo_place_add(p, "c", "");
        repo_place_add(p, "d", "");
        p->is_followed = true;
        repo_place_open(p, folder, 1);
}

static void expect_index(struct repo_place *p, const char *expected) {
        AUTO_CHARS text = repo_place_index(p);

        assert_string_equal(text, expected);
}

static struct model *get(struct repo_place *p, const char *name) {
        struct model *model = NULL;

        assert_ok(repo_get(p->repo, name, -1, &model), name);
        return model;
}

/* The models of its snapshot; an empty text when it has none. */
static char *bound_names(struct repo_place *p, const char *name) {
        struct model       *model = get(p, name);
        struct step_models *s = composed_model_get(loaded_model_of(model)->composed);
        char               *text = mem_strdup("");

        for (size_t i = 0; s != NULL && i < s->n; i++) {
                char *longer = mem_printf("%s%s ", text, s->models[i]->name);

                free(text);
                text = longer;
        }
        step_models_unref(s);
        model_unref(model);
        return text;
}

static void expect_bound(struct repo_place *p, const char *name, const char *expected) {
        AUTO_CHARS text = bound_names(p, name);

        assert_string_equal(text, expected);
}

static void test_a_load_brings_what_it_needs(void **state) {
        struct repo_place p;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        expect_index(&p, "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\nd:-1:UNKNOWN:-\n");
        expect_bound(&p, "a", "b c ");
        expect_bound(&p, "b", "c ");
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_all_at_the_start(void **state) {
        struct repo_place p;

        (void)state;
        open_line(&p);
        assert_ok(repo_load_all(p.repo), "all");
        expect_index(&p, "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\nd:1:READY:-\n");
        assert_true(repo_all_ready(p.repo));
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_a_stage_goes_and_comes(void **state) {
        struct repo_place p;
        struct model     *a, *again;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        a = get(&p, "a");
        assert_ok(repo_unload(p.repo, "c"), "unload");
        repo_place_await_index(&p, "a:1:UNAVAILABLE:" WAITS "\nb:1:UNAVAILABLE:" WAITS
                                   "\nc:1:UNAVAILABLE:unloaded\nd:-1:UNKNOWN:-\n");
        /* c has ended although a is held: nothing holds it but requests. */
        expect_bound(&p, "a", "");
        assert_false(model_is_ready(a));
        assert_false(repo_version_is_ready(p.repo, "a", -1));
        assert_false(model_readiness(a).is_ready);
        assert_true(repo_all_ready(p.repo)); /* somebody wanted it to go */
        assert_ok(repo_load(p.repo, "c", NULL), "load");
        expect_index(&p, "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\nd:-1:UNKNOWN:-\n");
        again = get(&p, "a");
        assert_ptr_equal(again, a);
        assert_true(model_readiness(a).is_ready && model_readiness(a).asks_backends); /* b's */
        expect_bound(&p, "a", "b c ");
        model_unref(again);
        model_unref(a);
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_a_reload_is_bound(void **state) {
        struct repo_place   p;
        struct model       *a, *c;
        struct step_models *before, *after;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        a = get(&p, "a");
        before = composed_model_get(loaded_model_of(a)->composed);
        repo_place_add(&p, "c", "parameters { key: 'x' value { string_value: 'y' } }");
        assert_ok(repo_load(p.repo, "c", NULL), "c");
        c = get(&p, "c");
        after = composed_model_get(loaded_model_of(a)->composed);
        assert_ptr_equal(after->models[1], c);
        assert_ptr_not_equal(before->models[1], c);
        assert_ptr_equal(after->models[0], before->models[0]);
        step_models_unref(before);
        step_models_unref(after);
        model_unref(c);
        model_unref(a);
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_what_was_loaded_for_it_alone_goes(void **state) {
        struct repo_place p;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        assert_ok(repo_load(p.repo, "c", NULL), "c"); /* is there; asked for from now on */
        assert_ok(repo_unload_with_needs(p.repo, "a", &(struct load_permit){ 0 }), "unload");
        repo_place_await_index(&p, "a:1:UNAVAILABLE:unloaded\nb:1:UNAVAILABLE:unloaded\n"
                                   "c:1:READY:-\nd:-1:UNKNOWN:-\n");
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_what_is_not_there(void **state) {
        struct repo_place p;

        (void)state;
        open_line(&p);
        repo_place_add(&p, "b", NEXT("gone"));
        assert_error(repo_load(p.repo, "a", NULL), ERR_INVALID_ARG,
                     "load failed for model 'a': next model 'gone' of model 'b' is neither loaded "
                     "nor in a model repository\n");
        assert_error(repo_load(p.repo, "b", NULL), ERR_INVALID_ARG,
                     "load failed for model 'b': next model 'gone' of model 'b' is neither loaded "
                     "nor in a model repository\n");
        expect_index(&p, "a:-1:UNKNOWN:-\nb:-1:UNKNOWN:-\nc:-1:UNKNOWN:-\nd:-1:UNKNOWN:-\n");
        repo_place_add(&p, "b", "nonsense"); /* it is there, but cannot be loaded */
        assert_error(repo_load(p.repo, "a", NULL), ERR_INVALID_ARG,
                     "load failed for model 'a': next model 'b' of model 'a' has no loaded "
                     "version\n");
        repo_place_close(&p);
        repo_place_end(&p);
}

static size_t count_users(struct repo_place *p, const char *name) {
        struct model_order users;
        size_t             n;

        MUTEX_GUARD(&p->repo->table.lock);
        model_graph_dependents(p->repo->graph, name, &users);
        n = users.n;
        model_order_done(&users);
        return n;
}

/* What only a failed load has named is not kept: each load could name others. */
static void test_needs_of_a_failed_load_go(void **state) {
        struct repo_place p;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "b", NULL), "b");
        assert_int_equal(count_users(&p, "c"), 1);
        repo_place_add(&p, "b", NEXT("gone"));
        repo_place_add(&p, "d", NEXT("gone"));
        error_free(repo_load(p.repo, "b", NULL));
        error_free(repo_load(p.repo, "d", NULL));
        assert_int_equal(count_users(&p, "gone"), 0);
        assert_int_equal(count_users(&p, "c"), 1); /* of what serves */
        repo_place_close(&p);
        repo_place_end(&p);
}

#define NEXT_IS_A                                                                                  \
        "{\"backend\":\"fake\",\"max_batch_size\":4,"                                              \
        "\"input\":[{\"name\":\"IN\",\"data_type\":\"TYPE_INT32\",\"dims\":[2]}],"                 \
        "\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_INT32\",\"dims\":[2]}],"               \
        "\"parameters\":{\"next\":{\"string_value\":\"a\"}}}"

/* With uploaded files the load itself finds the cycle. It does not stay: without an order the models that
 * need others would not be unloaded at the end. */
static void test_a_cycle_of_a_failed_load_goes(void **state) {
        const struct override_file file = { .path = "1/x", .bytes = "", .n_bytes = 0 };
        const struct repo_override sent = { .config_json = NEXT_IS_A,
                                            .files = &file,
                                            .n_files = 1 };
        struct repo_place          p;
        struct repo_entry        **all;
        size_t                     n;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        assert_ok(repo_unload(p.repo, "c"), "unload");
        assert_error(repo_load(p.repo, "c", &sent), ERR_INVALID_ARG,
                     "load failed for model 'c': chain of model 'c' is circular: c -> a -> b -> "
                     "c\n");
        all = repo_compose_list_top_down(p.repo, &n);
        assert_int_equal(n, 3);
        assert_string_equal(all[0]->name, "a");
        assert_string_equal(all[1]->name, "b");
        assert_string_equal(all[2]->name, "c");
        free(all);
        assert_ok(repo_load(p.repo, "c", NULL), "c");
        expect_index(&p, "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\nd:-1:UNKNOWN:-\n");
        repo_place_close(&p);
        repo_place_end(&p);
}

#define ENSEMBLE                                                                                   \
        "platform: 'ensemble' max_batch_size: 4 "                                                  \
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "                                \
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "                              \
        "ensemble_scheduling { step [{ model_name: 'gone' model_version: -1 "                      \
        "input_map { key: 'IN' value: 'IN' } output_map { key: 'OUT' value: 'OUT' } }] }"
#define NOT_AVAILABLE "ensemble e contains models that are not available or ambiguous: gone"

static void open_ensemble(struct repo_place *p) {
        repo_place_begin(p);
        temp_tree_write(&p->tree, "models/e/config.pbtxt", ENSEMBLE);
        temp_tree_folder(&p->tree, "models/e/1");
        p->is_followed = true;
        repo_place_open(p, folder, 1);
}

/* An ensemble without its step is never loaded, not even when memory is short for the report. */
static void test_what_is_not_there_without_memory(void **state) {
        struct repo_place p;
        struct error     *err;
        unsigned          n = 0;
        bool              was_hit;

        (void)state;
        open_ensemble(&p);
        do {
                mem_fail_once(++n);
                err = repo_load(p.repo, "e", NULL);
                if (err != NULL && strstr(err->message, "failed to poll") != NULL) {
                        assert_true(mem_fail_was_hit()); /* the reason is in the log */
                        error_free(err);
                        err = error_new_text(ERR_UNAVAILABLE, "memory");
                }
        } while (expect_or_shortage(err, ERR_INVALID_ARG,
                                    "load failed for model 'e': " NOT_AVAILABLE "\n"));
        assert_true(n > 5);
        repo_place_close(&p);
        repo_place_end(&p);
        n = 0;
        do {
                struct repo_place at_start;
                AUTO_CHARS        index = NULL;

                open_ensemble(&at_start);
                mem_fail_once(++n);
                err = repo_load_all(at_start.repo);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                error_free(err);
                index = repo_place_index(&at_start);
                assert_null(strstr(index, "READY"));
                repo_place_close(&at_start);
                repo_place_end(&at_start);
        } while (was_hit);
        assert_true(n > 5);
}

/* What a model needs is loaded with it, or the load says that memory was short. */
static void test_needs_without_memory(void **state) {
        unsigned n = 0;
        bool     was_hit;

        (void)state;
        do {
                struct repo_place p;
                struct error     *err;
                bool              is_loaded;

                open_line(&p);
                mem_fail_once(++n);
                err = repo_load(p.repo, "a", NULL);
                is_loaded = err == NULL;
                was_hit = expect_or_shortage(err, ERR_UNKNOWN, NULL);
                if (is_loaded)
                        expect_index(&p, "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\n"
                                         "d:-1:UNKNOWN:-\n");
                repo_place_close(&p);
                repo_place_end(&p);
        } while (was_hit);
        assert_true(n > 5);
}

#define STEP_OF(model, from, to)                                                                   \
        "step { model_name: '" model "' model_version: -1 input_map { key: 'IN' value: '" from     \
        "' } output_map { key: 'OUT' value: '" to "' } } "

/* e0 is a model; each other one executes the one before it twice. */
static void add_doubling(struct repo_place *p, int n) {
        repo_place_add(p, "e0", "");
        for (int i = 1; i <= n; i++) {
                AUTO_CHARS version = mem_printf("models/e%d/1", i);
                AUTO_CHARS path = mem_printf("models/e%d/config.pbtxt", i);
                AUTO_CHARS text =
                        mem_printf("platform: 'ensemble' max_batch_size: 4 "
                                   "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "
                                   "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "
                                   "ensemble_scheduling { " STEP_OF("e%d", "IN", "T")
                                           STEP_OF("e%d", "T", "OUT") "}",
                                   i - 1, i - 1);

                temp_tree_folder(&p->tree, version);
                temp_tree_write(&p->tree, path, text);
        }
}

/* Forty configurations of some hundred bytes would execute 2^40 models for one request. */
static void test_ensembles_that_double(void **state) {
        struct repo_place     p;
        struct byte_budget    budget;
        struct step_memory    memory;
        struct response_share responses;
        struct model         *model;
        struct step_models   *s;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        add_doubling(&p, 40);
        byte_budget_init(&budget, (size_t)64 << 20);
        step_memory_init(&memory, &budget, p.env.timers);
        response_share_init(&responses, &budget);
        p.env.step_memory = &memory;
        p.env.responses = &responses;
        repo_place_open(&p, folder, 1);
        assert_ok(repo_load(p.repo, "e12", NULL), "e12");
        model = get(&p, "e12");
        s = composed_model_get(loaded_model_of(model)->composed);
        assert_int_equal(s->n_all, 8190);
        step_models_unref(s);
        assert_true(model_is_ready(model));
        model_unref(model);
        log_lines_begin();
        assert_error(repo_load(p.repo, "e13", NULL), ERR_INVALID_ARG,
                     "load failed for model 'e13': version 1 is at UNAVAILABLE state: Invalid "
                     "argument: 'e13' executes 16382 models for a request, counting those of its "
                     "steps, at most 8192 are supported;\n");
        /* Its graph has 2^40 ways, and 40 models. */
        assert_error(repo_load(p.repo, "e40", NULL), ERR_INVALID_ARG,
                     "load failed for model 'e40': ensemble e40 contains models that are not "
                     "available or ambiguous: e39, e39\n");
        log_lines_end();
        repo_place_close(&p);
        step_memory_done(&memory);
        repo_place_end(&p);
}

#define LINE 40

/* Each model of a line has all that follow as its steps: they count once, and are asked once. */
static void test_a_long_line(void **state) {
        struct repo_place   p;
        struct model       *model;
        struct step_models *s;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        for (int i = 0; i < LINE; i++) {
                AUTO_CHARS name = mem_printf("m%d", i);
                AUTO_CHARS next = mem_printf(NEXT("m%d"), i + 1);

                repo_place_add(&p, name, i + 1 < LINE ? next : "");
        }
        repo_place_open(&p, folder, 1);
        assert_ok(repo_load(p.repo, "m0", NULL), "m0");
        model = get(&p, "m0");
        s = composed_model_get(loaded_model_of(model)->composed);
        assert_int_equal(s->n, LINE - 1);
        assert_int_equal(s->n_all, LINE - 1);
        step_models_unref(s);
        assert_true(model_is_ready(model));
        assert_true(model_readiness(model).is_ready);
        model_unref(model);
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_cycles(void **state) {
        const struct load_parameter to_a = { "next", "a" };
        const struct repo_override  override = { .parameters = &to_a, .n_parameters = 1 };
        struct repo_place           p;

        (void)state;
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        assert_error(repo_load(p.repo, "c", &override), ERR_INVALID_ARG,
                     "load failed for model 'c': chain of model 'c' is circular: c -> a -> b -> "
                     "c\n");
        expect_index(&p, "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\nd:-1:UNKNOWN:-\n");
        assert_ok(repo_unload(p.repo, "a"), "unload");
        repo_place_add(&p, "c", NEXT("a"));
        assert_ok(repo_unload(p.repo, "c"), "unload");
        assert_error(repo_load(p.repo, "a", NULL), ERR_INVALID_ARG,
                     "load failed for model 'a': chain of model 'c' is circular: a -> b -> c -> "
                     "a\n");
        repo_place_close(&p);
        repo_place_end(&p);
}

struct unload_in_initialize {
        struct repo_place *place;
        struct error      *held, *other; /* results of the unloads */
        bool               has_run;
};

/* The initialization of b, which is loaded for a, unloads models. */
static void unload_for_b(void *userp) {
        struct unload_in_initialize *u = userp;

        if (u->has_run)
                return;
        u->has_run = true;
        (void)load_user_set((struct load_user){ "b", 1 });
        u->held = repo_unload(u->place->repo, "c");
        u->other = repo_unload(u->place->repo, "d");
        (void)load_user_set((struct load_user){ NULL, -1 });
}

/* The unload would wait for the load that waits for it. */
static void test_an_unload_that_waits_for_itself_is_refused(void **state) {
        struct unload_in_initialize u = { 0 };
        struct repo_place           p;

        (void)state;
        open_line(&p);
        u.place = &p;
        assert_ok(repo_load(p.repo, "c", NULL), "c");
        assert_ok(repo_load(p.repo, "d", NULL), "d");
        fake_host_on_call(FAKE_MODEL_INITIALIZE, unload_for_b, &u);
        assert_ok(repo_load(p.repo, "a", NULL), "a");
        fake_host_on_call(FAKE_MODEL_INITIALIZE, NULL, NULL);
        assert_true(u.has_run);
        assert_error(u.held, ERR_INVALID_ARG,
                     "model 'c' is needed by a load that waits for this one: b -> c -> b");
        assert_ok(u.other, "unload d");
        repo_place_await_index(&p,
                               "a:1:READY:-\nb:1:READY:-\nc:1:READY:-\nd:1:UNAVAILABLE:unloaded\n");
        assert_ok(repo_unload(p.repo, "c"), "unload c"); /* nothing holds it any more */
        repo_place_close(&p);
        repo_place_end(&p);
}

static void test_parameters_of_a_load(void **state) {
        struct load_parameter to = { "next", "c" };
        struct repo_override  override = { .parameters = &to, .n_parameters = 1 };
        struct repo_place     p;

        (void)state;
        assert_true(load_parameter_is_known("next_map"));
        assert_false(load_parameter_is_known("config"));
        open_line(&p);
        assert_ok(repo_load(p.repo, "a", &override), "to c");
        expect_bound(&p, "a", "c ");
        assert_ok(repo_load(p.repo, "a", NULL), "plain"); /* keeps what was sent */
        expect_bound(&p, "a", "c ");
        to.value = "d";
        assert_ok(repo_load(p.repo, "a", &override), "to d");
        expect_bound(&p, "a", "d ");
        to.value = "";
        assert_ok(repo_load(p.repo, "a", &override), "to none");

        struct model *a = get(&p, "a");

        assert_null(loaded_model_of(a)->composed);
        model_unref(a);
        to.value = "nobody";
        assert_error(
                repo_load(p.repo, "a", &override), ERR_INVALID_ARG,
                "load failed for model 'a': next model 'nobody' of model 'a' is neither loaded "
                "nor in a model repository\n");
        repo_place_close(&p);
        repo_place_end(&p);
}

SUITE(repo_compose) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_load_brings_what_it_needs),
                cmocka_unit_test(test_all_at_the_start),
                cmocka_unit_test(test_a_stage_goes_and_comes),
                cmocka_unit_test(test_a_reload_is_bound),
                cmocka_unit_test(test_what_was_loaded_for_it_alone_goes),
                cmocka_unit_test(test_what_is_not_there),
                cmocka_unit_test(test_needs_of_a_failed_load_go),
                cmocka_unit_test(test_a_cycle_of_a_failed_load_goes),
                cmocka_unit_test(test_what_is_not_there_without_memory),
                cmocka_unit_test(test_needs_without_memory),
                cmocka_unit_test(test_ensembles_that_double),
                cmocka_unit_test(test_a_long_line),
                cmocka_unit_test(test_cycles),
                cmocka_unit_test(test_an_unload_that_waits_for_itself_is_refused),
                cmocka_unit_test(test_parameters_of_a_load),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
