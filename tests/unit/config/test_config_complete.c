/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/config_complete.h"
#include "config_rows.h"

#define IN(name) " input { name: '" name "' data_type: TYPE_FP32 dims: [-1, 4] }"
#define OUT(name) " output { name: '" name "' data_type: TYPE_INT64 dims: 2 label_filename: 'l' }"

static const struct complete_row {
        const char *text;
        const char *backend; /* what the backend says */
        const char *message; /* NULL: no error, and then: */
        const char *result;
} rows[] = {
        { "name: 'm' backend: 'b'", "name: 'x' max_batch_size: 4" IN("A") OUT("Z"), NULL,
          "name: 'm' backend: 'b' max_batch_size: 4" IN("A") OUT("Z") },
        /* replaced wholly, not merged; also by nothing */
        { "max_batch_size: 8" IN("A") IN("B") OUT("Z"), "max_batch_size: 2" IN("C"), NULL,
          "max_batch_size: 2" IN("C") },
        /* the rest is the author's */
        { "parameters { key: 'k' value { string_value: 'v' } } instance_group { count: 3 }"
          " version_policy { all { } } optimization { graph { level: 1 } }",
          "name: 'x' platform: 'p' backend: 'b' runtime: 'r' default_model_filename: 'f'"
          " parameters { key: 'k' value { string_value: 'w' } } instance_group { count: 9 }"
          " version_policy { latest { } } optimization { } response_cache { enable: true }"
          " model_warmup { name: 'w' }",
          NULL,
          "parameters { key: 'k' value { string_value: 'v' } } instance_group { count: 3 }"
          " version_policy { all { } } optimization { graph { level: 1 } }" },
        /* scheduling is taken where there is none */
        { "", "dynamic_batching { preferred_batch_size: 4 }", NULL,
          "dynamic_batching { preferred_batch_size: 4 }" },
        { "", "sequence_batching { state { input_name: 'I' } }", NULL,
          "sequence_batching { state { input_name: 'I' } }" },
        { "", "ensemble_scheduling { step { model_name: 'x' } }", NULL,
          "ensemble_scheduling { step { model_name: 'x' } }" },
        { "dynamic_batching { max_queue_delay_microseconds: 9 }", "dynamic_batching { }", NULL,
          "dynamic_batching { max_queue_delay_microseconds: 9 }" },
        /* and may not become another one */
        { "dynamic_batching { }", "sequence_batching { }",
          "Cannot update scheduling choice from 11 to 13 when auto-completing.", NULL },
        { "sequence_batching { }", "ensemble_scheduling { }",
          "Cannot update scheduling choice from 13 to 15 when auto-completing.", NULL },
        { "dynamic_batching { }", "max_batch_size: 1",
          "Cannot update scheduling choice from 11 to 0 when auto-completing.", NULL },
        /* decoupled only if given */
        { "model_transaction_policy { decoupled: true }", "", NULL,
          "model_transaction_policy { decoupled: true }" },
        { "model_transaction_policy { decoupled: true }", "model_transaction_policy { }", NULL,
          "model_transaction_policy { decoupled: false }" },
        { "", "model_transaction_policy { decoupled: true }", NULL,
          "model_transaction_policy { decoupled: true }" },
};

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct complete_row *row = &rows[i];
                struct model_config       *c = config_of(row->text);
                struct model_config       *backend = config_of(row->backend);
                struct model_config       *result =
                        config_of(row->message != NULL ? row->text : row->result);
                struct error *err = model_config_complete(c, backend);

                model_config_free(backend); /* what was taken over is a copy */
                assert_outcome(err, ERR_INTERNAL, row->message, row->text);
                assert_same_config(c, result, row->text);
                model_config_free(c);
                model_config_free(result);
        }
}

static void test_full(void **state) {
        struct model_config *c = config_of("name: 'm' max_batch_size: 1");
        struct model_config *backend = config_of("max_batch_size: 4" IN("A"));

        (void)state;
        while (arena_try_alloc(&c->arena, 16) != NULL)
                arena_set_max(&c->arena, c->arena.used_bytes);
        assert_outcome(model_config_complete(c, backend), ERR_INVALID_ARG,
                       "model configuration is too large", "");
        assert_int_equal(c->pb->max_batch_size, 1);
        assert_int_equal(c->pb->n_input, 0);
        model_config_free(c);
        model_config_free(backend);
}

SUITE(config_complete) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
