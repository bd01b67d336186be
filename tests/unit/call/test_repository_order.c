/* SPDX-License-Identifier: BSD-3-Clause */
/* What an order holds; that orders are carried out is tested with the protocols that give them. */
#include "suite.h"

#include "call/repository_order.h"

static void kinds_of_parameters(void **state) {
        static const struct {
                struct str               name;
                enum load_parameter_kind kind;
        } rows[] = {
                { STR_LIT("config"), LOAD_PARAMETER_TEXT },
                { STR_LIT("next"), LOAD_PARAMETER_TEXT_OR_BOOL },
                { STR_LIT("next_map"), LOAD_PARAMETER_TEXT_OR_BOOL },
                { STR_LIT("chain_batching"), LOAD_PARAMETER_TEXT_OR_BOOL },
                { STR_LIT("chain_allow_end"), LOAD_PARAMETER_TEXT_OR_BOOL },
                { STR_LIT("chain_autoload"), LOAD_PARAMETER_TEXT_OR_BOOL },
                { STR_LIT("file:1/model.onnx"), LOAD_PARAMETER_FILE },
                { STR_LIT("file:"), LOAD_PARAMETER_FILE },
                { STR_LIT("file"), LOAD_PARAMETER_UNKNOWN },
                { STR_LIT("Config"), LOAD_PARAMETER_UNKNOWN },
                { STR_LIT(""), LOAD_PARAMETER_UNKNOWN },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                assert_int_equal(load_parameter_kind(rows[i].name), rows[i].kind);
}

static void too_many_parameters(void **state) {
        struct repository_order o;
        struct arena            arena;
        struct error           *err;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        repository_order_init(&o, REPOSITORY_LOAD, NULL, "m", NULL);
        for (int i = 0; i < 512; i++) {
                assert_null(repository_order_add_text(&o, &arena, "config", "{}"));
                assert_null(repository_order_add_file(&o, &arena, "file:1/m", STR_LIT("abc")));
        }
        assert_int_equal(o.n_parameters, 1024);
        err = repository_order_add_text(&o, &arena, "config", "{}");
        assert_string_equal(err->message, "more than 1024 load parameters");
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        assert_null(repository_order_end(&o));
        assert_int_equal(o.n_parameters, 0);
        arena_done(&arena);
}

SUITE(repository_order) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(kinds_of_parameters),
                cmocka_unit_test(too_many_parameters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
