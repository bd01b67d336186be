/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "core_api/model_version.h"

static void test_versions(void **state) {
        static const struct {
                const char *text;
                int64_t     version;
                const char *error;
        } rows[] = {
                { "", -1, NULL },
                { "0", 0, NULL },
                { "12", 12, NULL },
                { "9223372036854775807", INT64_MAX, NULL },
                { "abc", 0,
                  "failed to get model version from specified version string 'abc' "
                  "(details: stol), version should be an integral value > 0" },
                { "9223372036854775808", 0,
                  "failed to get model version from specified version string "
                  "'9223372036854775808' (details: stol), version should be an integral value > "
                  "0" },
                { "-1", 0,
                  "invalid model version specified '-1' , version should be an integral value > "
                  "0" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int64_t       version;
                struct error *err = model_version_read(str_of(rows[i].text), &version);

                if (rows[i].error == NULL) {
                        assert_null(err);
                        assert_int_equal(version, rows[i].version);
                        continue;
                }
                assert_non_null(err);
                assert_string_equal(err->message, rows[i].error);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                error_free(err);
        }
}

SUITE(model_version) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_versions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
