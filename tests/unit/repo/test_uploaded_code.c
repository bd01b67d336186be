/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/config_origin.h"
#include "repo/override.h"
#include "repo/uploaded_code.h"

#include <stdio.h>
#include <string.h>

#define HINT "Start the server with '--allow-uploaded-backends=true' to enable."

static void test_files(void **state) {
        static const struct {
                const char *path, *bytes;
                const char *kind; /* NULL: taken */
        } rows[] = {
                { "1/model.onnx", "\x08\x07onnx", NULL },
                { "1/model.onnx", "", NULL },
                { "1/model.onnx",
                  "\x7f"
                  "EL",
                  NULL },
                { "1/model.onnx",
                  " \x7f"
                  "ELF",
                  NULL },
                { "1/model.sob", "x", NULL },
                { "so", "x", NULL },
                { ".so", "x", NULL },
                { "a.so/labels.txt", "x", NULL },
                { "config.pyt", "x", NULL },
                { "1/libtriton_x.so", "x", "a shared object" },
                { "libtriton_x.so", "", "a shared object" },
                { "1/libx.so.1", "x", "a shared object" },
                { "1/libx.so.1.2.3", "x", "a shared object" },
                { "1/batchstrategy.so", "x", "a shared object" },
                { "1/model.onnx",
                  "\x7f"
                  "ELF",
                  "a shared object" },
                { "labels",
                  "\x7f"
                  "ELF\x02\x01",
                  "a shared object" },
                { "1/model.py", "x", "a Python program" },
                { "1/deep/er/model.pyc", "x", "a Python program" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct override_file files[] = {
                        { "1/weights", "w", 1 },
                        { rows[i].path, rows[i].bytes, strlen(rows[i].bytes) },
                };
                AUTO_CHARS text =
                        mem_printf("Uploaded code is disabled: 'file:%s' of model 'm' is "
                                   "%s. " HINT,
                                   rows[i].path, rows[i].kind != NULL ? rows[i].kind : "");
                struct error *err = uploaded_code_check_files("m", files, 2);

                if (rows[i].kind != NULL)
                        assert_error(err, ERR_UNSUPPORTED, text);
                else
                        assert_ok(err, rows[i].path);
        }
        assert_null(uploaded_code_check_files("m", NULL, 0));
}

static void read_json(const char *json, struct model_config **ret) {
        assert_ok(model_config_read_json(str_of(json), ret), json);
}

/* `own` NULL: the repository has no configuration, or the files were uploaded. */
static void check_config(const char *given_json, const char *own_json, const char *refused) {
        AUTO_MODEL_CONFIG    given = NULL;
        AUTO_MODEL_CONFIG    own = NULL;
        struct config_origin origin;
        struct error        *err;

        read_json(given_json, &given);
        if (own_json != NULL)
                read_json(own_json, &own);
        config_origin_compare(given, own, &origin);
        err = uploaded_code_check_config(given, own, &origin, "m");
        if (refused == NULL) {
                assert_ok(err, given_json);
        } else {
                AUTO_CHARS text =
                        mem_printf("Uploaded code is disabled: the configuration sent for "
                                   "model 'm' names the %s, which the model's "
                                   "config.pbtxt does not. " HINT,
                                   refused);

                assert_error(err, ERR_UNSUPPORTED, text);
        }
        config_origin_done(&origin);
}

#define LIBRARY(name) "{\"model_operations\":{\"op_library_filename\":[\"" name "\"]}}"
#define PARAMETER(key, value) "{\"parameters\":{\"" key "\":{\"string_value\":\"" value "\"}}}"
#define AGENT(name, value)                                                                         \
        "{\"model_repository_agents\":{\"agents\":[{\"name\":\"" name                              \
        "\",\"parameters\":{\"k\":\"" value "\"}}]}}"

static void test_configurations(void **state) {
        static const struct {
                const char *given, *own;
                const char *refused; /* NULL: taken */
        } rows[] = {
                { "{}", NULL, NULL },
                { PARAMETER("other", "/etc"), "{}", NULL },
                { LIBRARY("ops.so"), LIBRARY("ops.so"), NULL },
                { LIBRARY("/dev/null"), LIBRARY("/dev/null"), NULL },
                { LIBRARY("ops.so"), "{}", "library 'ops.so'" },
                { LIBRARY("ops.so"), NULL, "library 'ops.so'" },
                { LIBRARY("../ops.so"), LIBRARY("ops.so"), "library '../ops.so'" },
                { PARAMETER("TRITON_BATCH_STRATEGY_PATH", "b.so"),
                  PARAMETER("TRITON_BATCH_STRATEGY_PATH", "b.so"), NULL },
                { PARAMETER("TRITON_BATCH_STRATEGY_PATH", "c.so"),
                  PARAMETER("TRITON_BATCH_STRATEGY_PATH", "b.so"),
                  "file of the parameter 'TRITON_BATCH_STRATEGY_PATH'" },
                { PARAMETER("TRITON_BATCH_STRATEGY_PATH", "b.so"), NULL,
                  "file of the parameter 'TRITON_BATCH_STRATEGY_PATH'" },
                { AGENT("checksum", "1"), NULL, NULL },
                { AGENT("mine", "1"), AGENT("mine", "1"), NULL },
                { AGENT("mine", "2"), AGENT("mine", "1"), "repository agent 'mine'" },
                { AGENT("mine", "1"), AGENT("other", "1"), "repository agent 'mine'" },
                { AGENT("mine", "1"), NULL, "repository agent 'mine'" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                check_config(rows[i].given, rows[i].own, rows[i].refused);
}

SUITE(uploaded_code) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_configurations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
