/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/backend_model.h"
#include "backend/fake_host.h"
#include "backend/log_lines.h"
#include "infer/fake_model.h"

#define CONFIG "name: 'm' backend: 'fake' max_batch_size: 2"
#define COMPLETION                                                                                 \
        "{\"max_batch_size\":8,\"input\":[{\"name\":\"IN\",\"data_type\":\"TYPE_INT32\","          \
        "\"dims\":[2]}],\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_INT32\",\"dims\":[2]}]" \
        "}"

struct place {
        struct temp_tree     tree;
        struct fake_library  library;
        struct model_config *config; /* owned */
        struct backend      *backend;
        struct backend_model model;
};

static void begin(struct place *p, const char *kind) {
        AUTO_STRBUF json = { 0 };

        fake_host_reset();
        p->tree = temp_tree_make();
        p->library = fake_library_open(&p->tree, kind, "lib.so");
        strbuf_init(&json, 0);
        strbuf_puts(&json, "{}");
        assert_ok(backend_open("fake", p->library.path, &json, NULL, &p->backend), "open");
        assert_ok(model_config_read_text(str_of(CONFIG), "config.pbtxt", &p->config), CONFIG);
        backend_ref(p->backend); /* the model's own */
        p->model = (struct backend_model){ .backend = p->backend,
                                           .name = "m",
                                           .version = 7,
                                           .directory = p->tree.path,
                                           .config = p->config,
                                           .auto_complete = true };
}

static void end(struct place *p) {
        assert_null(p->model.backend);
        backend_unref(p->backend);
        model_config_free(p->config);
        fake_library_close(&p->library);
        temp_tree_remove(&p->tree);
}

static void test_starts_and_stops(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        assert_ok(backend_model_start(&p.model), "start");
        assert_false(p.model.is_initialising);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 1);
        backend_model_stop(&p.model);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        /* The backend lives on for others. */
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 0);
        end(&p);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 1);
}

static void test_without_entry_points(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_bare");
        assert_ok(backend_model_start(&p.model), "start");
        backend_model_stop(&p.model);
        end(&p);
}

static void test_initialize_fails(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        fake_host_fail(FAKE_MODEL_INITIALIZE, "m/7", TRITONSERVER_ERROR_INVALID_ARG, "bad model");
        assert_error(backend_model_start(&p.model), ERR_INVALID_ARG, "bad model");
        assert_false(p.model.is_initialising);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 0);
        backend_model_stop(&p.model);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        end(&p);
}

static void test_finalize_without_initialize(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        p.model.backend->entry.model_initialize = NULL;
        assert_ok(backend_model_start(&p.model), "start");
        backend_model_stop(&p.model);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        end(&p);
}

static void test_finalize_failure_is_logged(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        fake_host_fail(FAKE_MODEL_FINALIZE, "m", TRITONSERVER_ERROR_INTERNAL, "busy");
        assert_ok(backend_model_start(&p.model), "start");
        log_lines_begin();
        backend_model_stop(&p.model);
        assert_int_equal(log_lines_count(
                                 "E backend 'fake' failed to finalize model 'm' version 7: busy"),
                         1);
        log_lines_end();
        end(&p);
}

static void test_completes_its_configuration(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        fake_host_complete_config(COMPLETION);
        assert_ok(backend_model_start(&p.model), "start");
        assert_int_equal(p.config->pb->max_batch_size, 8);
        assert_int_equal(p.config->pb->n_input, 1);
        assert_string_equal(p.config->pb->input[0]->name, "IN");
        assert_int_equal(p.config->pb->n_output, 1);
        assert_string_equal(p.config->pb->name, "m");
        backend_model_stop(&p.model);
        end(&p);
}

static void test_completion_is_checked(void **state) {
        struct place  p;
        struct error *err;

        (void)state;
        begin(&p, "fake_backend");
        fake_host_complete_config("{\"no_such_field\":1}");
        err = backend_model_start(&p.model);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_non_null(strstr(err->message, "no_such_field"));
        error_free(err);
        assert_int_equal(p.config->pb->max_batch_size, 2);
        backend_model_stop(&p.model);
        end(&p);
}

static void test_completion_only_while_initialising(void **state) {
        struct place p;

        (void)state;
        begin(&p, "fake_backend");
        assert_ok(backend_model_start(&p.model), "start");
        assert_error(backend_model_complete(&p.model, str_of(COMPLETION)), ERR_UNSUPPORTED,
                     "TRITONBACKEND_ModelSetConfig is allowed only while "
                     "TRITONBACKEND_ModelInitialize of model 'm' runs");
        assert_int_equal(p.config->pb->max_batch_size, 2);
        backend_model_stop(&p.model);
        end(&p);
}

SUITE(backend_model) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_starts_and_stops),
                cmocka_unit_test(test_without_entry_points),
                cmocka_unit_test(test_initialize_fails),
                cmocka_unit_test(test_finalize_without_initialize),
                cmocka_unit_test(test_finalize_failure_is_logged),
                cmocka_unit_test(test_completes_its_configuration),
                cmocka_unit_test(test_completion_is_checked),
                cmocka_unit_test(test_completion_only_while_initialising),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
