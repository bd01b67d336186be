/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/temp_tree.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/override.h"
#include "repo/uploaded_code.h"
#include "suite.h"

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
                AUTO_CHARS text = mem_printf("Uploaded code is disabled: 'file:%s' of model 'm' is "
                                             "%s. " HINT,
                                             rows[i].path, rows[i].kind ? rows[i].kind : "");
                struct error *err = uploaded_code_check_files("m", files, 2);

                if (rows[i].kind)
                        assert_error(err, ERR_UNSUPPORTED, text);
                else
                        assert_ok(err, rows[i].path);
        }
        assert_null(uploaded_code_check_files("m", NULL, 0));
}

static void test_configurations(void **state) {
        static const struct {
                const char *library;
                bool        is_taken;
        } rows[] = {
                { "ops.so", true },     { "1/ops.so", true },          { "missing.so", false },
                { "libc.so.6", false }, { "/dev/null", false },        { "../m/ops.so", false },
                { "..", false },        { "1/../../m/ops.so", false },
        };
        struct temp_tree tree = temp_tree_make();
        AUTO_CHARS       directory = temp_tree_path(&tree, "m");

        (void)state;
        temp_tree_write(&tree, "m/ops.so", "x");
        temp_tree_write(&tree, "m/1/ops.so", "x");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_MODEL_CONFIG config = NULL;
                AUTO_CHARS json = mem_printf("{\"model_operations\":{\"op_library_filename\":"
                                             "[\"ops.so\",\"%s\"]}}",
                                             rows[i].library);
                AUTO_CHARS text =
                        mem_printf("Uploaded code is disabled: the configuration sent for "
                                   "model 'm' names the library '%s', which is not in the "
                                   "model's directory. " HINT,
                                   rows[i].library);
                struct error *err;

                assert_ok(model_config_read_json(str_of(json), &config), json);
                err = uploaded_code_check_config(config, "m", directory);
                if (rows[i].is_taken)
                        assert_ok(err, rows[i].library);
                else
                        assert_error(err, ERR_UNSUPPORTED, text);
        }
        temp_tree_remove(&tree);
}

SUITE(uploaded_code) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_configurations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
