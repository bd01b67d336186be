/* SPDX-License-Identifier: BSD-3-Clause */
/* Which model a name means where each repository is a namespace. */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/model.h"
#include "repo/model_needs.h"
#include "repo/override.h"
#include "repo/repo.h"
#include "repo/repo_compose.h"
#include "repo/repo_place.h"
#include "shortage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const folders[] = { "models", "more" };

#define AMBIGUOUS                                                                                  \
        "There are 2 identifiers of model 'm' in global map, model namespace must be provided to " \
        "resolve ambiguity."
#define UNKNOWN "Request for unknown model: 'm' is not found"

/* The model m in both folders, and one of its own in each. */
static void begin(struct repo_place *p) {
        static const char *const models[] = { "models/m", "models/left", "more/m", "more/right" };

        repo_place_begin(p);
        p->has_namespaces = true;
        for (size_t i = 0; i < ARRAY_LEN(models); i++) {
                AUTO_CHARS config = mem_printf("%s/config.pbtxt", models[i]);
                AUTO_CHARS version = mem_printf("%s/1", models[i]);

                temp_tree_write(&p->tree, config, REPO_PLACE_CONFIG);
                temp_tree_folder(&p->tree, version);
        }
}

static void assert_index(struct repo_place *p, const char *expected) {
        AUTO_CHARS index = repo_place_index(p);

        assert_string_equal(index, expected);
}

static void check_model(struct repo_place *p, struct model *model, const char *name,
                        const char *folder) {
        assert_string_equal(model->name, name);
        assert_string_equal(model->namespace + strlen(p->tree.path) + 1, folder);
        model_unref(model);
}

/* The folder of the model that the name means, or the text of the error. */
static void assert_means(struct repo_place *p, const char *name, const char *expected) {
        struct model *model = NULL;
        AUTO_ERROR    err = repo_get(p->repo, name, -1, &model);

        if (err == NULL) {
                check_model(p, model, name, expected);
                return;
        }
        assert_string_equal(err->message, expected);
        assert_int_equal(err->code, ERR_INVALID_ARG);
}

/* The folder of the model that the name means as a step of a model in `user_folder`; NULL: none. */
static void assert_step_means(struct repo_place *p, const char *user_folder, const char *name,
                              const char *expected) {
        AUTO_CHARS step = mem_strdup(name);
        AUTO_CHARS namespace = temp_tree_path(&p->tree, user_folder);
        struct model_key  user = { .namespace = namespace, .name = "user" };
        struct model_need need = { .name = step, .namespace = (char[]){ "" }, .version = -1 };
        struct model     *model = repo_compose_find_step(p->repo, &user, &need);

        if (expected == NULL)
                assert_null(model);
        else
                check_model(p, model, name, expected);
}

static void test_the_same_name_twice(void **state) {
        struct repo_place p;
        AUTO_CHARS        line = NULL;
        AUTO_CHARS        more = NULL;
        int64_t          *versions;

        (void)state;
        begin(&p);
        repo_place_open(&p, folders, 2);
        more = temp_tree_path(&p.tree, "more");
        line = mem_printf("I successfully loaded '%s::m'", more);
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        assert_int_equal(log_lines_count(line), 1);
        log_lines_end();
        assert_index(&p, "models::left:1:READY:-\n"
                         "models::m:1:READY:-\n"
                         "more::m:1:READY:-\n"
                         "more::right:1:READY:-\n");
        assert_true(repo_all_ready(p.repo));
        assert_means(&p, "left", "models");
        assert_means(&p, "right", "more");
        assert_means(&p, "m", AMBIGUOUS);
        assert_step_means(&p, "models", "m", "models");
        assert_step_means(&p, "more", "m", "more");
        assert_step_means(&p, "elsewhere", "m", NULL);
        /* The user's repository has no such model: the only one there is. */
        assert_step_means(&p, "models", "right", "more");
        assert_step_means(&p, "elsewhere", "left", "models");
        assert_means(&p, "nobody", "Request for unknown model: 'nobody' is not found");
        assert_false(repo_version_is_ready(p.repo, "m", 1));
        assert_true(repo_version_is_ready(p.repo, "left", 1));
        assert_error(repo_check_name(p.repo, "m"), ERR_INVALID_ARG, AMBIGUOUS);
        assert_ok(repo_check_name(p.repo, "left"), "left");
        assert_ok(repo_check_name(p.repo, "nobody"), "nobody");
        assert_int_equal(repo_ready_versions(p.repo, &(struct model_key){ more, "m" }, &versions),
                         1);
        free(versions);
        repo_place_end(&p);
}

/* Both fail; their texts come together, or memory was short for them. */
static void test_failures_without_memory(void **state) {
        struct repo_place p;
        AUTO_CHARS        models = NULL;
        AUTO_CHARS        more = NULL;
        AUTO_CHARS        both = NULL;
        struct error     *err;
        unsigned          n = 0;

        (void)state;
        begin(&p);
        p.is_followed = true;
        repo_place_open(&p, folders, 2);
        models = temp_tree_path(&p.tree, "models");
        more = temp_tree_path(&p.tree, "more");
        both = mem_printf("load failed for model '%s::m': version 1 is at UNAVAILABLE state: "
                          "Internal: boom;\n"
                          "load failed for model '%s::m': version 1 is at UNAVAILABLE state: "
                          "Internal: boom;\n",
                          models, more);
        fake_host_fail(FAKE_MODEL_INITIALIZE, NULL, TRITONSERVER_ERROR_INTERNAL, "boom");
        do {
                mem_fail_once(++n);
                err = repo_load(p.repo, "m", NULL);
                if (err != NULL && strstr(err->message, "failed to poll") != NULL) {
                        assert_true(mem_fail_was_hit()); /* the reason is in the log */
                        error_free(err);
                        err = error_new_text(ERR_UNAVAILABLE, "memory");
                }
        } while (expect_or_shortage(err, ERR_INVALID_ARG, both));
        assert_true(n > 2);
        repo_place_end(&p);
}

/* Texts about versions are those of always. */
static void test_versions_of_the_only_one(void **state) {
        struct repo_place p;
        struct model     *model;

        (void)state;
        begin(&p);
        repo_place_open(&p, folders, 2);
        assert_ok(repo_load_all(p.repo), "load");
        assert_error(repo_get(p.repo, "left", 7, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'left' version 7 is not found");
        repo_place_end(&p);
}

/* A request names all of them. */
static void test_loads_and_unloads_by_name(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p);
        repo_place_open(&p, folders, 2);
        assert_ok(repo_load_named(p.repo, (char *[]){ "m", "left", "m" }, 3), "load");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 3);
        assert_means(&p, "m", AMBIGUOUS);
        assert_ok(repo_unload(p.repo, "m"), "unload");
        repo_place_await_index(&p, "models::left:1:READY:-\n"
                                   "models::m:1:UNAVAILABLE:unloaded\n"
                                   "more::m:1:UNAVAILABLE:unloaded\n");
        assert_means(&p, "m", UNKNOWN);
        assert_ok(repo_load(p.repo, "m", NULL), "load");
        assert_ok(repo_load(p.repo, "m", NULL), "again: nothing to do");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 5);
        assert_means(&p, "m", AMBIGUOUS);
        assert_error(repo_load(p.repo, "nobody", NULL), ERR_INTERNAL,
                     "failed to load 'nobody', failed to poll from model repository");
        repo_place_end(&p);
}

static void test_one_of_them_fails(void **state) {
        struct repo_place p;
        struct error     *err;
        AUTO_CHARS        start = NULL;

        (void)state;
        begin(&p);
        temp_tree_write(&p.tree, "models/m/config.pbtxt", "nonsense");
        repo_place_open(&p, folders, 2);
        log_lines_begin();
        /* What cannot even be read is no model that the name could mean. */
        assert_error(repo_load(p.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        assert_means(&p, "m", "more");
        /* One that was tried is. */
        temp_tree_write(&p.tree, "models/m/config.pbtxt", "backend: 'none'");
        start = mem_printf(
                "load failed for model '%s/models::m': version 1 is at UNAVAILABLE state: "
                "Invalid argument: unable to find backend library for backend 'none'",
                p.tree.path);
        err = repo_load(p.repo, "m", NULL);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_memory_equal(err->message, start, strlen(start));
        error_free(err);
        assert_means(&p, "m", AMBIGUOUS);
        assert_step_means(&p, "more", "m", "more");
        log_lines_end();
        repo_place_end(&p);
}

/* Polls: when one goes, the name is the other's alone; when it is back, nobody's. */
static void test_one_of_them_goes(void **state) {
        struct repo_place p;
        AUTO_CHARS        here = NULL;
        AUTO_CHARS        away = NULL;

        (void)state;
        begin(&p);
        p.is_followed = true;
        repo_place_open(&p, folders, 2);
        here = temp_tree_path(&p.tree, "models/m");
        away = temp_tree_path(&p.tree, "away");
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        assert_int_equal(rename(here, away), 0);
        repo_poll(p.repo);
        assert_means(&p, "m", AMBIGUOUS);
        repo_poll(p.repo);
        assert_means(&p, "m", "more");
        /* The model of its user's repository was unloaded: a step means the other one too. */
        assert_step_means(&p, "models", "m", "more");
        assert_int_equal(rename(away, here), 0);
        repo_poll(p.repo);
        repo_poll(p.repo);
        assert_means(&p, "m", AMBIGUOUS);
        assert_step_means(&p, "models", "m", "models");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 5);
        repo_place_end(&p);
}

static const char sent_config[] =
        "{\"backend\":\"fake\",\"max_batch_size\":4,"
        "\"input\":[{\"name\":\"IN\",\"data_type\":\"TYPE_INT32\",\"dims\":[2]}],"
        "\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_INT32\",\"dims\":[2]}]}";

/* A configuration is for all, files for the one that the name means. */
static void test_what_comes_with_a_load(void **state) {
        const struct override_file file = { .path = "1/x", .bytes = "x", .n_bytes = 1 };
        const struct repo_override config = { .config_json = sent_config };
        const struct repo_override files = { .config_json = sent_config,
                                             .files = &file,
                                             .n_files = 1 };
        struct repo_place          p;

        (void)state;
        begin(&p);
        repo_place_open(&p, folders, 2);
        assert_ok(repo_load(p.repo, "m", &config), "configuration");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 2);
        assert_error(repo_load(p.repo, "m", &files), ERR_INVALID_ARG, AMBIGUOUS);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 2);
        assert_ok(repo_load(p.repo, "left", NULL), "load");
        assert_ok(repo_load(p.repo, "left", &files), "files");
        assert_ok(repo_load(p.repo, "sent", &files), "files of nobody");
        assert_index(&p, "models::left:1:READY:-\n"
                         "models::m:1:READY:-\n"
                         "more::m:1:READY:-\n"
                         "sent:1:READY:-\n");
        assert_means(&p, "left", "models");
        assert_ok(repo_load(p.repo, "sent", &files), "once more");
        assert_true(repo_version_is_ready(p.repo, "sent", 1));
        repo_place_end(&p);
}

static void test_the_label_of_metrics(void **state) {
        struct repo_place p;
        AUTO_STRBUF       text = { 0 };
        AUTO_CHARS        sample = NULL;

        (void)state;
        strbuf_init(&text, 0);
        begin(&p);
        repo_place_open(&p, folders, 2);
        assert_ok(repo_load_all(p.repo), "load");
        metric_registry_print(p.metrics, &text);
        sample = mem_printf(
                "nv_inference_count{model=\"m\",namespace=\"%s/more\",version=\"1\"} 0\n",
                p.tree.path);
        assert_non_null(strstr(strbuf_cstr(&text), sample));
        repo_place_end(&p);
}

SUITE(repo_lookup) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_same_name_twice),
                cmocka_unit_test(test_failures_without_memory),
                cmocka_unit_test(test_versions_of_the_only_one),
                cmocka_unit_test(test_loads_and_unloads_by_name),
                cmocka_unit_test(test_one_of_them_fails),
                cmocka_unit_test(test_one_of_them_goes),
                cmocka_unit_test(test_what_comes_with_a_load),
                cmocka_unit_test(test_the_label_of_metrics),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
