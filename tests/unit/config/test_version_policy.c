/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/version_policy.h"
#include "config_rows.h"

static void test_names(void **state) {
        static const struct {
                const char *name;
                int64_t     version; /* -1: not a version */
        } rows[] = {
                { "1", 1 },
                { "0", 0 },
                { "10", 10 },
                { "9223372036854775807", INT64_MAX },
                { "9223372036854775808", -1 },
                { "18446744073709551616", -1 },
                { "01", -1 },
                { "00", -1 },
                { "-1", -1 },
                { "+1", -1 },
                { "1a", -1 },
                { " 1", -1 },
                { "", -1 },
                { "v1", -1 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int64_t version = -1;

                assert_int_equal(version_from_name(str_of(rows[i].name), &version),
                                 rows[i].version >= 0);
                assert_int_equal(version, rows[i].version);
        }
}

static void scan_names(struct version_scan *s, const char *names) {
        struct str rest = str_of(names);
        struct str name;

        version_scan_init(s);
        while (rest.ptr != NULL && rest.len > 0) {
                rest = str_split(rest, ' ', &name);
                version_scan_add(s, name);
        }
}

static void test_scan(void **state) {
        struct version_scan s;

        (void)state;
        scan_names(&s, "3 10 warmup 02 1 initial_state configs x1 0 10");
        assert_int_equal(s.n_versions, 4);
        assert_int_equal(s.versions[0], 0);
        assert_int_equal(s.versions[1], 1);
        assert_int_equal(s.versions[2], 3);
        assert_int_equal(s.versions[3], 10);
        assert_int_equal(s.n_warnings, 2);
        assert_string_equal(s.warnings[0], "ignore version directory '02' which contains leading "
                                           "zeros in its directory name");
        assert_string_equal(s.warnings[1], "ignore version directory 'x1' which fails to convert "
                                           "to integral number");
        version_scan_done(&s);
        assert_int_equal(s.n_versions, 0);
}

static void test_many_warnings(void **state) {
        struct version_scan s;

        (void)state;
        version_scan_init(&s);
        for (int i = 0; i < 1000; i++)
                version_scan_add(&s, STR_LIT("odd"));
        assert_int_equal(s.n_warnings, 100);
        version_scan_done(&s);
}

static const struct pick_row {
        const char *policy;
        const char *names;
        const char *picked; /* NULL: refused */
        const char *warning;
} pick_rows[] = {
        { "", "1 2 3", "3 ", NULL },
        { "version_policy { latest { num_versions: 1 } }", "1 2 10", "10 ", NULL },
        { "version_policy { latest { num_versions: 2 } }", "1 2 10", "2 10 ", NULL },
        { "version_policy { latest { num_versions: 9 } }", "7 1", "1 7 ", NULL },
        { "version_policy { latest { } }", "1 2", NULL, NULL },
        { "version_policy { all { } }", "3 1 2", "1 2 3 ", NULL },
        { "version_policy { }", "3 1", "1 3 ", NULL },
        { "version_policy { all { } }", "", NULL,
          "no directory of a version, such as '1', is in the model's directory; the files of a "
          "version belong there" },
        { "version_policy { specific { versions: [3, 1, 3] } }", "1 2 3", "1 3 ", NULL },
        { "version_policy { specific { versions: 1 versions: 5 } }", "1 2", "1 ",
          "version 5 is specified for model 'm', but the version directory is not present" },
        { "version_policy { specific { versions: 4 } }", "1", NULL,
          "version 4 is specified for model 'm', but the version directory is not present" },
        { "version_policy { specific { } }", "1", NULL, NULL },
};

static void check_pick(const struct pick_row *row) {
        struct model_config *c = config_of(row->policy);
        struct version_scan  s;
        struct version_pick  pick = { 0 };
        struct strbuf        picked;
        struct error        *err;

        c->pb->name = (char *)"m";
        scan_names(&s, row->names);
        err = version_policy_pick(c, &s, &pick);
        assert_outcome(err, ERR_INVALID_ARG,
                       row->picked != NULL
                               ? NULL
                               : "at least one version must be available under the version "
                                 "policy of model 'm'",
                       row->policy);
        strbuf_init(&picked, 0);
        for (size_t i = 0; i < pick.n_versions; i++)
                strbuf_printf(&picked, "%d ", (int)pick.versions[i]);
        assert_string_equal(strbuf_cstr(&picked), row->picked != NULL ? row->picked : "");
        assert_int_equal(s.n_warnings, row->warning != NULL);
        if (row->warning != NULL)
                assert_string_equal(s.warnings[0], row->warning);
        strbuf_done(&picked);
        version_pick_done(&pick);
        version_scan_done(&s);
        model_config_free(c);
}

static void test_pick(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(pick_rows); i++)
                check_pick(&pick_rows[i]);
}

SUITE(version_policy) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_scan),
                cmocka_unit_test(test_many_warnings),
                cmocka_unit_test(test_pick),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
