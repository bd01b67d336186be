/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/backend.h"
#include "backend/fake_host.h"
#include "backend/log_lines.h"
#include "base/mem.h"
#include "infer/fake_model.h"

static struct temp_tree tree;

static int setup(void **state) {
        (void)state;
        tree = temp_tree_make();
        fake_host_reset();
        return 0;
}

static int teardown(void **state) {
        (void)state;
        temp_tree_remove(&tree);
        return 0;
}

static struct error *open_with(const char *path, const char *json, struct backend **ret) {
        AUTO_STRBUF config = { 0 };

        strbuf_init(&config, 0);
        strbuf_puts(&config, json);
        return backend_open("fake", path, &config, NULL, ret);
}

static struct error *open_backend(const char *path, struct backend **ret) {
        return open_with(path, "{}", ret);
}

static void test_opens_and_ends(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_backend", "b/libtriton_x.so");
        AUTO_CHARS          path = mem_strdup(library.path);
        AUTO_CHARS          directory = temp_tree_path(&tree, "b");
        struct backend     *b;

        (void)state;
        assert_ok(open_with(library.path, "{\"cmdline\":{}}", &b), "open");
        assert_string_equal(b->name, "fake");
        assert_string_equal(b->path, library.path);
        assert_string_equal(b->directory, directory);
        assert_string_equal(b->config->text, "{\"cmdline\":{}}");
        assert_false(b->is_inline_safe);
        assert_false(b->attributes.parallel_instances);
        assert_int_equal(b->attributes.n_groups, 0);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_GET_ATTRIBUTES), 1);

        backend_ref(b);
        backend_unref(b);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 0);
        backend_unref(b);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 1);
        backend_unref(NULL);

        assert_true(fake_library_is_loaded(path));
        fake_library_close(&library);
        assert_false(fake_library_is_loaded(path));
}

static void test_attributes_are_copied(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_backend", "lib.so");
        struct backend     *b;
        int32_t             gpus[] = { 4, 7 };

        (void)state;
        fake_host_prefer_instances(3);
        assert_ok(open_backend(library.path, &b), "open");
        backend_attributes_add_group(
                &b->attributes,
                &(struct preferred_group){ .kind = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU,
                                           .count = 1,
                                           .gpus = gpus,
                                           .n_gpus = 2 });
        gpus[0] = 0;
        assert_int_equal(b->attributes.n_groups, 2);
        assert_int_equal(b->attributes.groups[0].kind,
                         INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU);
        assert_int_equal(b->attributes.groups[0].count, 3);
        assert_int_equal(b->attributes.groups[0].n_gpus, 0);
        assert_int_equal(b->attributes.groups[1].n_gpus, 2);
        assert_int_equal(b->attributes.groups[1].gpus[0], 4);
        assert_int_equal(b->attributes.groups[1].gpus[1], 7);
        backend_unref(b);
        fake_library_close(&library);
}

static void test_only_execute_is_required(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_bare", "lib.so");
        struct backend     *b;

        (void)state;
        assert_ok(open_backend(library.path, &b), "open");
        assert_null(b->entry.initialize);
        assert_null(b->entry.finalize);
        assert_null(b->entry.get_attributes);
        assert_null(b->entry.model_initialize);
        assert_null(b->entry.model_finalize);
        assert_null(b->entry.instance_initialize);
        assert_null(b->entry.instance_finalize);
        assert_null(b->entry.instance_ready);
        assert_non_null(b->entry.execute);
        assert_true(b->is_inline_safe);
        backend_unref(b);
        fake_library_close(&library);
}

static void test_without_execute_nothing_is_called(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_no_execute", "lib.so");
        AUTO_CHARS          text =
                mem_printf("unable to find symbol 'TRITONBACKEND_ModelInstanceExecute' in "
                           "shared library '%s'",
                           library.path);
        struct backend *b = NULL;

        (void)state;
        assert_error(open_backend(library.path, &b), ERR_NOT_FOUND, text);
        assert_null(b);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 0);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 0);
        fake_library_close(&library);
}

static void test_what_is_no_library(void **state) {
        AUTO_CHARS      path = temp_tree_path(&tree, "text.so");
        AUTO_CHARS      start = mem_printf("unable to load shared library '%s': ", path);
        struct backend *b = NULL;
        struct error   *err;

        (void)state;
        temp_tree_write(&tree, "text.so", "no ELF");
        err = open_backend(path, &b);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INTERNAL);
        assert_memory_equal(err->message, start, strlen(start));
        assert_true(strlen(err->message) > strlen(start));
        error_free(err);
        assert_null(b);
}

static void test_initialize_fails(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_backend", "lib.so");
        AUTO_CHARS          path = mem_strdup(library.path);
        struct backend     *b = NULL;

        (void)state;
        fake_host_fail(FAKE_INITIALIZE, NULL, TRITONSERVER_ERROR_UNSUPPORTED, "too old: 1.0 < 1.9");
        AUTO_CHARS text =
                mem_printf("unable to initialize backend 'fake' from '%s' with backend API "
                           "1.19: too old: 1.0 < 1.9",
                           path);

        assert_error(open_backend(library.path, &b), ERR_UNSUPPORTED, text);
        assert_null(b);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_GET_ATTRIBUTES), 0);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 1);
        fake_library_close(&library);
        assert_false(fake_library_is_loaded(path));
}

static void test_attributes_fail(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_backend", "lib.so");
        struct backend     *b = NULL;

        (void)state;
        fake_host_prefer_instances(2);
        fake_host_fail(FAKE_GET_ATTRIBUTES, NULL, TRITONSERVER_ERROR_INTERNAL, "no attributes");
        assert_error(open_backend(library.path, &b), ERR_INTERNAL, "no attributes");
        assert_null(b);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 1);
        fake_library_close(&library);
}

static void test_finalize_failure_is_logged(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_backend", "lib.so");
        struct backend     *b;

        (void)state;
        fake_host_fail(FAKE_FINALIZE, "fake", TRITONSERVER_ERROR_INTERNAL, "stuck");
        assert_ok(open_backend(library.path, &b), "open");
        log_lines_begin();
        backend_unref(b);
        assert_int_equal(log_lines_count("E backend 'fake' failed to finalize: stuck"), 1);
        log_lines_end();
        fake_library_close(&library);
}

static void test_configuration_too_long(void **state) {
        struct fake_library library = fake_library_open(&tree, "fake_backend", "lib.so");
        struct strbuf       config;
        struct backend     *b = NULL;

        (void)state;
        strbuf_init(&config, 4);
        strbuf_puts(&config, "{\"cmdline\":{}}");
        assert_error(backend_open("fake", library.path, &config, NULL, &b), ERR_INTERNAL,
                     "a message is longer than 4 bytes");
        assert_null(b);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 0);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 0);
        fake_library_close(&library);
}

SUITE(backend) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_opens_and_ends, setup, teardown),
                cmocka_unit_test_setup_teardown(test_attributes_are_copied, setup, teardown),
                cmocka_unit_test_setup_teardown(test_only_execute_is_required, setup, teardown),
                cmocka_unit_test_setup_teardown(test_without_execute_nothing_is_called, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_what_is_no_library, setup, teardown),
                cmocka_unit_test_setup_teardown(test_initialize_fails, setup, teardown),
                cmocka_unit_test_setup_teardown(test_attributes_fail, setup, teardown),
                cmocka_unit_test_setup_teardown(test_finalize_failure_is_logged, setup, teardown),
                cmocka_unit_test_setup_teardown(test_configuration_too_long, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
