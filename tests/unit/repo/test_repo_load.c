/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "backend/probe.h"
#include "base/clock.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "repo/reaper.h"
#include "repo/repo.h"
#include "repo/repo_place.h"

#include <unistd.h>

#define N_MODELS 20

static const char *const one_folder[] = { "models" };

static void assert_index(struct repo *r, const char *expected) {
        AUTO_STRBUF       text = { 0 };
        struct repo_index index;

        strbuf_init(&text, 0);
        repo_index_read(r, false, &index);
        for (size_t i = 0; i < index.n_entries; i++) {
                const struct repo_index_entry *e = &index.entries[i];

                strbuf_printf(&text, "%s:%lld:%s:%s\n", e->name, (long long)e->version,
                              version_state_name(e->state), e->reason != NULL ? e->reason : "-");
        }
        repo_index_done(&index);
        assert_string_equal(strbuf_cstr(&text), expected);
}

static void assert_fails(struct repo *r) {
        assert_error(repo_load_all(r), ERR_INTERNAL, "failed to load all models");
}

static void test_loads_all(void **state) {
        struct repo_place p;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "beta", "");
        repo_place_add_model(&p, "alpha", "version_policy { all { } }", (int64_t[]){ 1, 2, 10 }, 3);
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        assert_int_equal(log_lines_count("I loading: alpha:1"), 1);
        assert_int_equal(log_lines_count("I loading: alpha:2"), 1);
        assert_int_equal(log_lines_count("I loading: alpha:10"), 1);
        assert_int_equal(log_lines_count("I loading: beta:1"), 1);
        assert_int_equal(log_lines_count("I successfully loaded 'alpha'"), 1);
        assert_int_equal(log_lines_count("I successfully loaded 'beta'"), 1);
        assert_int_equal(log_lines_count_prefix("E "), 0);
        log_lines_end();
        assert_index(p.repo, "alpha:1:READY:-\n"
                             "alpha:2:READY:-\n"
                             "alpha:10:READY:-\n"
                             "beta:1:READY:-\n");
        assert_true(repo_all_ready(p.repo));
        assert_true(repo_version_is_ready(p.repo, "alpha", -1));
        assert_true(repo_version_is_ready(p.repo, "alpha", 2));
        assert_false(repo_version_is_ready(p.repo, "alpha", 3));
        assert_ok(repo_get(p.repo, "alpha", -1, &model), "get");
        assert_int_equal(model->version, 10);
        model_unref(model);
        /* One library for all. */
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 4);
        repo_place_end(&p);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 4);
}

static void test_nothing_to_load(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        /* A file and a hidden folder are no models. */
        temp_tree_write(&p.tree, "models/README", "text");
        temp_tree_folder(&p.tree, "models/.git/1");
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load_all(p.repo), "load");
        assert_index(p.repo, "");
        assert_true(repo_all_ready(p.repo));
        repo_place_end(&p);
}

static void test_all_versions_or_none(void **state) {
        struct repo_place p;
        struct model     *model = NULL;

        (void)state;
        repo_place_begin(&p);
        repo_place_add_model(&p, "bad", "version_policy { all { } }", (int64_t[]){ 1, 2, 3 }, 3);
        repo_place_add(&p, "good", "");
        repo_place_open(&p, one_folder, 1);
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "bad/2", TRITONSERVER_ERROR_INVALID_ARG, "boom");
        log_lines_begin();
        assert_fails(p.repo);
        assert_int_equal(log_lines_count(
                                 "E failed to load 'bad' version 2: Invalid argument: boom"),
                         1);
        assert_int_equal(log_lines_count_prefix("E "), 1);
        assert_int_equal(log_lines_count("I successfully loaded 'good'"), 1);
        assert_int_equal(log_lines_count("I successfully loaded 'bad'"), 0);
        log_lines_end();
        assert_index(p.repo, "bad:1:UNAVAILABLE:unloaded\n"
                             "bad:2:UNAVAILABLE:Invalid argument: boom\n"
                             "bad:3:UNAVAILABLE:unloaded\n"
                             "good:1:READY:-\n");
        assert_error(repo_get(p.repo, "bad", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'bad' has no available versions");
        assert_error(repo_get(p.repo, "bad", 2, &model), ERR_UNAVAILABLE,
                     "Request for unknown model: 'bad' version 2 is not at ready state");
        assert_false(repo_all_ready(p.repo));
        /* The others serve. */
        assert_true(repo_version_is_ready(p.repo, "good", 1));
        repo_place_end(&p);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE),
                         fake_host_count(FAKE_MODEL_INITIALIZE));
}

static void test_configuration_that_cannot_be_read(void **state) {
        AUTO_CHARS        line = NULL;
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "bad", "nonsense");
        repo_place_add(&p, "good", "");
        repo_place_open(&p, one_folder, 1);
        line = mem_printf("E Poll failed for model directory 'bad': failed to read text proto from "
                          "%s/models/bad/config.pbtxt: ",
                          p.tree.path);
        log_lines_begin();
        assert_fails(p.repo);
        assert_int_equal(log_lines_count_prefix(line), 1);
        assert_int_equal(log_lines_count_prefix("I loading: bad"), 0);
        log_lines_end();
        assert_index(p.repo, "bad:-1:UNKNOWN:-\n"
                             "good:1:READY:-\n");
        assert_false(repo_all_ready(p.repo));
        repo_place_end(&p);
}

static void test_same_name_in_two_folders(void **state) {
        static const char *const folders[] = { "models", "more" };
        struct repo_place        p;
        struct model            *model = NULL;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "twin", "");
        repo_place_add(&p, "single", "");
        temp_tree_write(&p.tree, "more/twin/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "more/twin/1");
        temp_tree_write(&p.tree, "more/other/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "more/other/1");
        repo_place_open(&p, folders, 2);
        log_lines_begin();
        assert_fails(p.repo);
        assert_int_equal(log_lines_count("E failed to poll model 'twin': not unique across all "
                                         "model repositories"),
                         1);
        log_lines_end();
        assert_index(p.repo, "other:1:READY:-\n"
                             "single:1:READY:-\n"
                             "twin:-1:UNAVAILABLE:model appears in two or more repositories\n");
        assert_error(repo_get(p.repo, "twin", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'twin' is not found");
        assert_false(repo_all_ready(p.repo));
        repo_place_end(&p);
}

static void test_same_folder_twice(void **state) {
        static const char *const folders[] = { "models", "models" };
        struct repo_place        p;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "m", "");
        repo_place_open(&p, folders, 2);
        assert_ok(repo_load_all(p.repo), "load");
        assert_index(p.repo, "m:1:READY:-\n");
        repo_place_end(&p);
}

static void test_folder_that_is_missing(void **state) {
        static const char *const folders[] = { "models", "missing" };
        AUTO_CHARS               start = NULL;
        struct repo_place        p;
        struct error            *err;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "m", "");
        repo_place_open(&p, folders, 2);
        start = mem_printf("failed to read model repository '%s/missing': ", p.tree.path);
        err = repo_check_paths(p.repo);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_memory_equal(err->message, start, strlen(start));
        error_free(err);

        /* What is there is loaded. */
        log_lines_begin();
        assert_fails(p.repo);
        log_lines_end();
        assert_index(p.repo, "m:1:READY:-\n");
        repo_place_end(&p);
}

static void test_linked_model(void **state) {
        AUTO_CHARS        target = NULL;
        AUTO_CHARS        link = NULL;
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        temp_tree_write(&p.tree, "store/a/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "store/a/1");
        target = temp_tree_path(&p.tree, "store/a");
        link = temp_tree_path(&p.tree, "models/a");
        assert_int_equal(symlink(target, link), 0);
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load_all(p.repo), "load");
        assert_index(p.repo, "a:1:READY:-\n");
        repo_place_end(&p);
}

static void expect_readiness(struct readiness found, bool is_ready, bool asks_backends) {
        assert_int_equal(found.is_ready, is_ready);
        assert_int_equal(found.asks_backends, asks_backends);
}

static void test_readiness_of_instances(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "a", "");
        repo_place_add(&p, "b", "");
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load_all(p.repo), "load");
        fake_host_fail(FAKE_INSTANCE_READY, "b", TRITONSERVER_ERROR_UNAVAILABLE, "busy");
        assert_true(repo_version_is_ready(p.repo, "a", 1));
        assert_false(repo_version_is_ready(p.repo, "b", 1));
        assert_false(repo_version_is_ready(p.repo, "b", -1));
        assert_false(repo_all_ready(p.repo));
        /* The backend is not asked, and the caller learns that it has to ask. */
        expect_readiness(repo_readiness(p.repo), true, true);
        expect_readiness(repo_version_readiness(p.repo, "b", 1), true, true);
        expect_readiness(repo_version_readiness(p.repo, "b", 2), false, false);
        fake_host_fail(FAKE_INSTANCE_READY, NULL, TRITONSERVER_ERROR_UNKNOWN, NULL);
        assert_true(repo_all_ready(p.repo));
        repo_place_end(&p);
}

static struct error *submit(struct probe *probe) {
        struct model *model = probe->request->model;
        struct error *err;

        assert_ok(request_prepare(probe->request), "prepare");
        probe->request->times.request_start_ns = clock_now_ns();
        atomic_fetch_add(&model->n_in_flight, 1);
        err = model->scheduler->ops->submit(model->scheduler, probe->request);
        if (err != NULL)
                atomic_fetch_sub(&model->n_in_flight, 1);
        return err;
}

static void test_stopping(void **state) {
        struct repo_place p;
        struct probe      running, late;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        repo_place_add(&p, "m", "");
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load_all(p.repo), "load");
        assert_ok(repo_get(p.repo, "m", 1, &model), "get");
        probe_init(&running, model);
        probe_init(&late, model);
        model_unref(model);
        probe_add_row(&running, "IN", (const int32_t[]){ 1, 2 }, 2);
        probe_add_row(&late, "IN", (const int32_t[]){ 3, 4 }, 2);

        fake_host_close_gate();
        assert_ok(submit(&running), "submit");
        fake_host_await(FAKE_EXECUTE, 1);
        repo_stop_all(p.repo);
        assert_error(
                submit(&late), ERR_UNAVAILABLE,
                "[request id: <id_unknown>] Server is stopping, scheduler for model has stopped "
                "accepting new inference requests");

        /* What runs ends well, and its model only after it. */
        repo_unload_all(p.repo);
        assert_index(p.repo, "m:1:UNLOADING:-\n");
        assert_int_equal(reaper_wait(p.env.reaper, 0), 1);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 0);
        fake_host_open_gate();
        probe_wait(&running);
        assert_null(probe_error(&running));
        probe_done(&running);
        probe_done(&late);
        assert_int_equal(reaper_wait(p.env.reaper, CLOCK_NEVER), 0);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        assert_index(p.repo, "m:1:UNAVAILABLE:unloaded\n");
        assert_true(repo_all_ready(p.repo)); /* unloaded on purpose */
        repo_place_end(&p);
}

static void test_many_models(void **state) {
        struct repo_place p;
        struct model    **models;

        (void)state;
        repo_place_begin(&p);
        for (int i = 0; i < N_MODELS; i++) {
                AUTO_CHARS name = mem_printf("m%02d", i);

                repo_place_add_model(&p, name, "version_policy { all { } }", (int64_t[]){ 1, 2 },
                                     2);
        }
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load_all(p.repo), "load");
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 1);
        assert_int_equal(repo_ready_models(p.repo, NULL, &models), 2 * N_MODELS);
        for (int i = 0; i < 2 * N_MODELS; i++) {
                AUTO_CHARS name = mem_printf("m%02d", i / 2);

                assert_string_equal(models[i]->name, name);
                assert_int_equal(models[i]->version, i % 2 + 1);
                model_unref(models[i]);
        }
        free(models);
        repo_place_end(&p);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 2 * N_MODELS);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 2 * N_MODELS);
}

SUITE(repo_load) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_loads_all),
                cmocka_unit_test(test_nothing_to_load),
                cmocka_unit_test(test_all_versions_or_none),
                cmocka_unit_test(test_configuration_that_cannot_be_read),
                cmocka_unit_test(test_same_name_in_two_folders),
                cmocka_unit_test(test_same_folder_twice),
                cmocka_unit_test(test_folder_that_is_missing),
                cmocka_unit_test(test_linked_model),
                cmocka_unit_test(test_readiness_of_instances),
                cmocka_unit_test(test_stopping),
                cmocka_unit_test(test_many_models),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
