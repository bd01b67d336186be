/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "backend/temp_tree.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/model_files.h"
#include "repo/repo_environment.h"

#include <unistd.h>

#define IO                                                                                         \
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "                                \
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "

static struct temp_tree tree;

static int setup(void **state) {
        (void)state;
        tree = temp_tree_make();
        return 0;
}

static int teardown(void **state) {
        (void)state;
        temp_tree_remove(&tree);
        return 0;
}

static struct error *read_with(const struct repo_environment *env, const char *name,
                               struct model_files *ret) {
        AUTO_CHARS directory = temp_tree_path(&tree, name);

        return model_files_read(
                env, &(struct model_source){ .key = { "", name }, .directory = directory }, ret);
}

static const struct repo_environment completing = { .auto_complete = true, .config_name = "" };
static const struct repo_environment strict = { .auto_complete = false, .config_name = "" };

static void test_reads_a_model(void **state) {
        AUTO_CHARS         directory = temp_tree_path(&tree, "m");
        struct model_files f;

        (void)state;
        temp_tree_write(&tree, "m/config.pbtxt", "backend: 'fake' max_batch_size: 4 " IO);
        temp_tree_folder(&tree, "m/1");
        assert_ok(read_with(&strict, "m", &f), "read");
        assert_string_equal(f.name, "m");
        assert_string_equal(f.directory, directory);
        assert_string_equal(f.config->pb->name, "m");
        assert_string_equal(f.config->pb->backend, "fake");
        assert_int_equal(f.config->pb->max_batch_size, 4);
        /* Defaults are explicit. */
        assert_int_equal(f.config->pb->version_policy->latest->num_versions, 1);
        assert_int_equal(f.versions.n_versions, 1);
        assert_int_equal(f.versions.versions[0], 1);
        model_files_done(&f);
        assert_null(f.name);
        assert_null(f.config);
        model_files_done(&f);
}

static void test_configuration_may_be_absent(void **state) {
        AUTO_CHARS text = mem_printf("failed to open text file for read %s/m/config.pbtxt: no such "
                                     "file, and auto-completion is disabled",
                                     tree.path);
        struct model_files f;

        (void)state;
        temp_tree_write(&tree, "m/1/model.onnx", "");
        assert_ok(read_with(&completing, "m", &f), "read");
        assert_string_equal(f.config->pb->name, "m");
        assert_string_equal(f.config->pb->backend, "onnxruntime");
        assert_string_equal(f.config->pb->default_model_filename, "model.onnx");
        model_files_done(&f);
        assert_error(read_with(&strict, "m", &f), ERR_NOT_FOUND, text);
}

static void test_backend_from_the_name(void **state) {
        struct model_files f;

        (void)state;
        temp_tree_folder(&tree, "model.fake/1");
        assert_ok(read_with(&completing, "model.fake", &f), "read");
        assert_string_equal(f.config->pb->backend, "fake");
        model_files_done(&f);

        temp_tree_folder(&tree, "nameless/1");
        assert_error(read_with(&completing, "nameless", &f), ERR_INVALID_ARG,
                     "Invalid model name: Could not determine backend for model 'nameless' with no "
                     "backend in model configuration. Expected model name of the form "
                     "'model.<backend_name>'.");
}

/* Names are ordered as text: "10" comes before "9". */
static void test_first_directory_tells_the_backend(void **state) {
        struct model_files f;

        (void)state;
        temp_tree_write(&tree, "m/10/model.py", "");
        temp_tree_write(&tree, "m/9/model.onnx", "");
        assert_ok(read_with(&completing, "m", &f), "read");
        assert_string_equal(f.config->pb->backend, "python");
        assert_int_equal(f.versions.n_versions, 1);
        assert_int_equal(f.versions.versions[0], 10);
        model_files_done(&f);
}

static void test_named_configuration(void **state) {
        const struct repo_environment tuned = { .auto_complete = true, .config_name = "tuned" };
        struct model_files            f;

        (void)state;
        temp_tree_folder(&tree, "m/1");
        temp_tree_write(&tree, "m/config.pbtxt", "backend: 'fake' max_batch_size: 1");
        assert_ok(read_with(&tuned, "m", &f), "without it");
        assert_int_equal(f.config->pb->max_batch_size, 1);
        model_files_done(&f);

        temp_tree_write(&tree, "m/configs/other.pbtxt", "backend: 'fake' max_batch_size: 2");
        temp_tree_write(&tree, "m/configs/tuned.pbtxt", "backend: 'fake' max_batch_size: 3");
        assert_ok(read_with(&tuned, "m", &f), "with it");
        assert_int_equal(f.config->pb->max_batch_size, 3);
        model_files_done(&f);
        assert_ok(read_with(&completing, "m", &f), "not asked for");
        assert_int_equal(f.config->pb->max_batch_size, 1);
        model_files_done(&f);
}

static void test_text_that_is_wrong(void **state) {
        AUTO_CHARS         start = mem_printf("failed to read text proto from %s/m/config.pbtxt: "
                                                      "%s/m/config.pbtxt:2:1: ",
                                              tree.path, tree.path);
        struct model_files f;
        struct error      *err;

        (void)state;
        temp_tree_folder(&tree, "m/1");
        temp_tree_write(&tree, "m/config.pbtxt", "backend: 'fake'\nno_such_field: 1\n");
        err = read_with(&completing, "m", &f);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_memory_equal(err->message, start, strlen(start));
        assert_non_null(strstr(err->message + strlen(start), "no_such_field"));
        error_free(err);
}

static void test_configurations_that_are_refused(void **state) {
        static const struct {
                const char *config, *text;
        } rows[] = {
                { "name: 'other' backend: 'fake'", "unexpected directory name 'm' for model "
                                                   "'other', directory name must equal model "
                                                   "name" },
                { "backend: 'fake' max_batch_size: -1",
                  "'max_batch_size' must be non-negative value for m" },
        };

        (void)state;
        temp_tree_folder(&tree, "m/1");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct model_files f;

                temp_tree_write(&tree, "m/config.pbtxt", rows[i].config);
                log_lines_begin();
                assert_error(read_with(&completing, "m", &f), ERR_INVALID_ARG, rows[i].text);
                log_lines_end();
        }
}

/* What a backend may still complete is checked early only when no backend will. */
static void test_tensors_are_checked_when_nothing_completes(void **state) {
        struct model_files f;

        (void)state;
        temp_tree_folder(&tree, "m/1");
        temp_tree_write(&tree, "m/config.pbtxt",
                        "backend: 'fake' input [{ name: 'IN' data_type: TYPE_INT32 }]");
        assert_ok(read_with(&completing, "m", &f), "completing");
        model_files_done(&f);
        assert_error(read_with(&strict, "m", &f), ERR_INVALID_ARG,
                     "model input 'IN' must specify 'dims' for m");
}

static void test_versions(void **state) {
        struct model_files f;
        AUTO_CHARS         target = temp_tree_path(&tree, "elsewhere");
        AUTO_CHARS         link = temp_tree_path(&tree, "m/7");

        (void)state;
        temp_tree_write(&tree, "m/config.pbtxt", "backend: 'fake' version_policy { all { } }");
        temp_tree_folder(&tree, "m/2");
        temp_tree_folder(&tree, "m/10");
        temp_tree_folder(&tree, "m/007");
        temp_tree_folder(&tree, "m/draft");
        temp_tree_folder(&tree, "m/.hidden");
        temp_tree_folder(&tree, "m/warmup");
        temp_tree_folder(&tree, "m/initial_state");
        temp_tree_folder(&tree, "m/configs");
        temp_tree_write(&tree, "m/5", "a file");
        temp_tree_folder(&tree, "elsewhere");
        assert_int_equal(symlink(target, link), 0);

        log_lines_begin();
        assert_ok(read_with(&completing, "m", &f), "read");
        assert_int_equal(f.versions.n_versions, 3);
        assert_int_equal(f.versions.versions[0], 2);
        assert_int_equal(f.versions.versions[1], 7);
        assert_int_equal(f.versions.versions[2], 10);

        AUTO_CHARS text = log_lines_text();

        assert_string_equal(text, "W model 'm': ignore version directory '007' which contains "
                                  "leading zeros in its directory name\n"
                                  "W model 'm': ignore version directory 'draft' which fails to "
                                  "convert to integral number\n");
        log_lines_end();
        model_files_done(&f);
}

static void test_version_policy(void **state) {
        static const struct {
                const char *policy, *warning;
                size_t      n_versions;
                int64_t     versions[3];
        } rows[] = {
                { "", "", 1, { 10 } },
                { "version_policy { latest { num_versions: 2 } }", "", 2, { 2, 10 } },
                { "version_policy { latest { num_versions: 9 } }", "", 3, { 1, 2, 10 } },
                { "version_policy { all { } }", "", 3, { 1, 2, 10 } },
                { "version_policy { specific { versions: [ 2, 3, 1 ] } }",
                  "W model 'm': version 3 is specified for model 'm', but the version directory is "
                  "not present\n",
                  2,
                  { 1, 2 } },
        };

        (void)state;
        temp_tree_folder(&tree, "m/1");
        temp_tree_folder(&tree, "m/2");
        temp_tree_folder(&tree, "m/10");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS         config = mem_printf("backend: 'fake' %s", rows[i].policy);
                AUTO_CHARS         text = NULL;
                struct model_files f;

                temp_tree_write(&tree, "m/config.pbtxt", config);
                log_lines_begin();
                assert_ok(read_with(&completing, "m", &f), config);
                text = log_lines_text();
                log_lines_end();
                assert_string_equal(text, rows[i].warning);
                assert_int_equal(f.versions.n_versions, rows[i].n_versions);
                for (size_t k = 0; k < rows[i].n_versions; k++)
                        assert_int_equal(f.versions.versions[k], rows[i].versions[k]);
                model_files_done(&f);
        }
}

/* The configuration is fine: the model is known then. */
static void test_policies_that_pick_nothing(void **state) {
        static const char *const policies[] = { "specific { versions: [ 9 ] }", "latest { }" };

        (void)state;
        temp_tree_folder(&tree, "m/1");
        for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
                AUTO_CHARS config =
                        mem_printf("backend: 'fake' version_policy { %s }", policies[i]);
                struct model_files f;

                temp_tree_write(&tree, "m/config.pbtxt", config);
                log_lines_begin();
                assert_ok(read_with(&completing, "m", &f), policies[i]);
                log_lines_end();
                assert_int_equal(f.versions.n_versions, 0);
                assert_non_null(f.no_version);
                assert_int_equal(f.no_version->code, ERR_INVALID_ARG);
                assert_string_equal(f.no_version->message,
                                    "at least one version must be available under the version "
                                    "policy of model 'm'");
                model_files_done(&f);
        }
}

static void test_directory_is_gone(void **state) {
        struct model_files f;
        struct error      *err;

        (void)state;
        err = read_with(&completing, "gone", &f);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_non_null(strstr(err->message, "/gone"));
        error_free(err);
}

SUITE(model_files) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_reads_a_model, setup, teardown),
                cmocka_unit_test_setup_teardown(test_configuration_may_be_absent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_backend_from_the_name, setup, teardown),
                cmocka_unit_test_setup_teardown(test_first_directory_tells_the_backend, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_named_configuration, setup, teardown),
                cmocka_unit_test_setup_teardown(test_text_that_is_wrong, setup, teardown),
                cmocka_unit_test_setup_teardown(test_configurations_that_are_refused, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_tensors_are_checked_when_nothing_completes,
                                                setup, teardown),
                cmocka_unit_test_setup_teardown(test_versions, setup, teardown),
                cmocka_unit_test_setup_teardown(test_version_policy, setup, teardown),
                cmocka_unit_test_setup_teardown(test_policies_that_pick_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(test_directory_is_gone, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
