/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "call/header_forward.h"

#include <string.h>

struct field {
        struct str name, value;
};

static const struct field headers[] = {
        { STR_LIT("Host"), STR_LIT("localhost") },
        { STR_LIT("X-Trace-Id"), STR_LIT("abc") },
        { STR_LIT("my-x-trace"), STR_LIT("") },
        { STR_LIT("Content-Length"), STR_LIT("3") },
};

struct fixture {
        struct header_forward forward;
        struct infer_request  request;
        struct arena          arena;
};

static struct error *forward(struct fixture *f, const char *pattern, const struct field *fields,
                             size_t n) {
        arena_init(&f->arena, NULL, 0, 0);
        infer_request_init(&f->request);
        assert_null(header_forward_init(&f->forward, pattern));
        for (size_t i = 0; i < n; i++)
                TRY(header_forward_add(&f->forward, fields[i].name, fields[i].value, &f->arena,
                                       &f->request));
        return NULL;
}

static void close_fixture(struct fixture *f) {
        infer_request_done(&f->request);
        header_forward_done(&f->forward);
        arena_done(&f->arena);
}

static void test_nothing(void **state) {
        static const char *const patterns[] = { NULL, "", "^trace", "nothing" };
        struct fixture           f;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
                assert_null(forward(&f, patterns[i], headers, ARRAY_LEN(headers)));
                assert_int_equal(f.request.n_parameters, 0);
                close_fixture(&f);
        }
}

/* Anywhere in the name, ignoring case. */
static void test_partial_match(void **state) {
        struct fixture f;

        (void)state;
        assert_null(forward(&f, "x-TRACE(-id)?", headers, ARRAY_LEN(headers)));
        assert_int_equal(f.request.n_parameters, 2);
        assert_string_equal(f.request.parameters[0].name, "X-Trace-Id");
        assert_int_equal(f.request.parameters[0].type, TRITONSERVER_PARAMETER_STRING);
        assert_string_equal(f.request.parameters[0].value.text, "abc");
        assert_string_equal(f.request.parameters[1].name, "my-x-trace");
        assert_string_equal(f.request.parameters[1].value.text, "");
        close_fixture(&f);
}

static void test_reserved(void **state) {
        static const char *const names[] = { "sequence_id",        "sequence_start", "sequence_end",
                                             "priority",           "timeout",        "headers",
                                             "binary_data_output", "triton_x",       "Triton_Y" };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                struct field   field = { str_of(names[i]), STR_LIT("v") };
                struct fixture f;
                struct error  *err = forward(&f, ".*", &field, 1);
                char          *expected;

                assert_non_null(err);
                expected = arena_printf(&f.arena,
                                        "Header '%s' is reserved for Triton usage and cannot be "
                                        "forwarded.",
                                        names[i]);
                assert_string_equal(err->message, expected);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                error_free(err);
                close_fixture(&f);
        }
}

static void test_bad_pattern(void **state) {
        struct header_forward f;
        struct error         *err = header_forward_init(&f, "a(b");

        (void)state;
        assert_non_null(err);
        assert_non_null(strstr(err->message, "invalid header forward pattern 'a(b': "));
        error_free(err);
        header_forward_done(&f);
}

SUITE(header_forward) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_partial_match),
                cmocka_unit_test(test_reserved),
                cmocka_unit_test(test_bad_pattern),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
