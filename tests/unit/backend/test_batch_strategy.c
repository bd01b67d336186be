/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/batch_strategy.h"
#include "backend/temp_tree.h"
#include "base/mem.h"
#include "infer/fake_model.h"

/* A directory that came with a load has no library that is opened, whatever its name. */
static void test_sent_library(void **state) {
        static const struct {
                const char *file, *config, *name;
        } rows[] = {
                { "m/1/batchstrategy.so", "dynamic_batching {}", "batchstrategy.so" },
                { "m/batchstrategy.so", "dynamic_batching {}", "batchstrategy.so" },
                { "m/1/weights",
                  "dynamic_batching {} parameters { key: 'TRITON_BATCH_STRATEGY_PATH' "
                  "value { string_value: '1/weights' } }",
                  "weights" },
        };
        struct temp_tree tree = temp_tree_make();
        AUTO_CHARS       directory = temp_tree_path(&tree, "m");
        struct backend   backend = { .directory = tree.path };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_MODEL_CONFIG      config = NULL;
                struct batch_strategy *s;
                struct backend_model   model = { .backend = &backend,
                                                 .name = "m",
                                                 .version = 1,
                                                 .directory = directory,
                                                 .is_sent = true };
                AUTO_CHARS text = mem_printf("Uploaded code is disabled: the batching library '%s' "
                                             "of model 'm' came with its load. Start the server "
                                             "with '--allow-uploaded-backends=true' to enable.",
                                             rows[i].name);

                assert_ok(model_config_read_text(str_of(rows[i].config), "config.pbtxt", &config),
                          rows[i].config);
                model.config = config;
                temp_tree_write(&tree, rows[i].file, "not even a library");
                assert_error(batch_strategy_open(&model, &s), ERR_UNSUPPORTED, text);
                temp_tree_unlink(&tree, rows[i].file);
        }
        temp_tree_remove(&tree);
}

SUITE(batch_strategy) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sent_library),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
