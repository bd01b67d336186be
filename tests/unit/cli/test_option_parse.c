/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "cli/option_parse.h"
#include "cli/same_options.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- tools ----------------------------------------------------------------------------------- */

static void assert_ok(struct error *err, const char *what) {
        if (err != NULL)
                fail_msg("%s: %s", what, err->message);
}

/* Takes err. */
static void assert_error(struct error *err, enum error_code code, const char *message) {
        if (err == NULL)
                fail_msg("no error, expected \"%s\"", message);
        if (err->code != code || strcmp(err->message, message) != 0)
                fail_msg("got      %s \"%s\"\nexpected %s \"%s\"", error_code_string(err->code),
                         err->message, error_code_string(code), message);
        error_free(err);
}

/* Options that are ended at the end of their block. */
#define OPTIONS CLEANUP(cli_options_done) struct cli_options

static void renew(struct cli_options *o) {
        cli_options_done(o);
        cli_options_init(o);
}

/* One or two arguments; b may be NULL. The options are the caller's. */
static struct error *parse(struct cli_options *o, const char *a, const char *b) {
        char *argv[] = { (char *)"neso", (char *)a, (char *)b, NULL };

        return option_parse(b != NULL ? 3 : 2, argv, o);
}

/* "--name=value" into fresh options, which the caller ends. */
static struct error *parse_joined(struct cli_options *o, const char *name, const char *value) {
        AUTO_CHARS argument = mem_printf("--%s=%s", name, value);

        renew(o);
        return parse(o, argument, NULL);
}

static struct error *parse_apart(struct cli_options *o, const char *name, const char *value) {
        AUTO_CHARS argument = mem_printf("--%s", name);

        renew(o);
        return parse(o, argument, value);
}

/* Both spellings must be refused with this text, and leave the options as they were. */
static void assert_refused(const struct option_row *row, const char *value, enum error_code code,
                           const char *message) {
        OPTIONS fresh = { 0 }, o = { 0 };

        cli_options_init(&fresh);
        assert_error(parse_joined(&o, row->name, value), code, message);
        assert_null(options_differ(&o, &fresh));
        assert_error(parse_apart(&o, row->name, value), code, message);
        assert_null(options_differ(&o, &fresh));
}

static void assert_bad(const struct option_row *row, const char *what, const char *value) {
        AUTO_CHARS text = mem_printf("Bad option: \"--%s\".\n%s, got: %s", row->name, what, value);

        assert_refused(row, value, ERR_INVALID_ARG, text);
}

typedef void (*row_fn)(const struct option_row *row);

/* Calls check for each supported option of a kind; how many there were. */
static unsigned for_each(enum option_kind kind, row_fn check) {
        const struct option_table *t = &cli_option_table;
        unsigned                   n = 0;

        for (size_t i = 0; i < t->n_rows; i++)
                if (t->rows[i].missing == NULL && t->rows[i].kind == kind) {
                        check(&t->rows[i]);
                        n++;
                }
        return n;
}

static void *field(struct cli_options *o, const struct option_row *row) {
        return (char *)o + row->offset;
}

/* ---- each kind ------------------------------------------------------------------------------- */

static void check_flag(const struct option_row *row) {
        AUTO_CHARS argument = mem_printf("--%s", row->name);
        AUTO_CHARS text = mem_printf("option '--%s' takes no value", row->name);
        OPTIONS    o = { 0 };

        renew(&o);
        assert_false(*(bool *)field(&o, row));
        assert_ok(parse(&o, argument, NULL), argument);
        assert_true(*(bool *)field(&o, row));
        assert_error(parse_joined(&o, row->name, "true"), ERR_INVALID_ARG, text);
        assert_false(*(bool *)field(&o, row));
        assert_error(parse_joined(&o, row->name, ""), ERR_INVALID_ARG, text);
}

static void test_flags(void **state) {
        (void)state;
        assert_true(for_each(OPTION_FLAG, check_flag) >= 2);
}

static void check_bool(const struct option_row *row) {
        static const struct {
                const char *text;
                bool        value;
        } rows[] = {
                { "true", true },   { "True", true },   { "TRUE", true },   { "1", true },
                { "false", false }, { "False", false }, { "FALSE", false }, { "0", false },
                { "on", true },     { "On", true },     { "off", false },   { "OFF", false },
        };
        static const char *const junk[] = { "",      "yes",   "no",        "2",   "01", "t",
                                            "true ", " true", "truefalse", "onn", "-1" };
        OPTIONS                  o = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (int is_set = 0; is_set < 2; is_set++) {
                        AUTO_CHARS argument = mem_printf("--%s=%s", row->name, rows[i].text);

                        renew(&o);
                        *(bool *)field(&o, row) = is_set;
                        assert_ok(parse(&o, argument, NULL), argument);
                        assert_int_equal(*(bool *)field(&o, row), rows[i].value);
                        assert_ok(parse_apart(&o, row->name, rows[i].text), argument);
                        assert_int_equal(*(bool *)field(&o, row), rows[i].value);
                }
        for (size_t i = 0; i < ARRAY_LEN(junk); i++)
                assert_bad(row, "expects true or false", junk[i]);
}

static void test_booleans(void **state) {
        (void)state;
        assert_true(for_each(OPTION_BOOL, check_bool) >= 12);
}

static void assert_number(const struct option_row *row, int64_t value) {
        AUTO_CHARS text = mem_printf("%lld", (long long)value);
        OPTIONS    o = { 0 };

        assert_ok(parse_joined(&o, row->name, text), row->name);
        assert_int_equal(*(int64_t *)field(&o, row), value);
        assert_ok(parse_apart(&o, row->name, text), row->name);
        assert_int_equal(*(int64_t *)field(&o, row), value);
}

static void assert_out_of_range(const struct option_row *row, const char *value) {
        AUTO_CHARS what = mem_printf("value is out of range [ %lld, %lld ]", (long long)row->min,
                                     (long long)row->max);

        assert_bad(row, what, value);
}

static void check_number(const struct option_row *row) {
        static const char *const junk[] = { "",
                                            "x",
                                            "1x",
                                            "1.5",
                                            " 1",
                                            "1 ",
                                            "0x10",
                                            "1e3",
                                            "--1",
                                            "9223372036854775808",
                                            "-9223372036854775809" };
        AUTO_CHARS               below = mem_printf("%lld", (long long)row->min - 1);
        AUTO_CHARS               above = mem_printf("%lld", (long long)row->max + 1);

        assert_true(row->min < row->max);
        assert_number(row, (int64_t)row->min);
        assert_number(row, (int64_t)row->max);
        assert_number(row, (int64_t)((row->min + row->max) / 2));
        assert_out_of_range(row, below);
        assert_out_of_range(row, above);
        assert_out_of_range(row, "9223372036854775807");
        assert_out_of_range(row, "-9223372036854775808");
        for (size_t i = 0; i < ARRAY_LEN(junk); i++)
                assert_bad(row, "expects an integer", junk[i]);
}

static void test_numbers(void **state) {
        (void)state;
        assert_true(for_each(OPTION_NUMBER, check_number) >= 10);
}

static void check_real(const struct option_row *row) {
        static const char *const junk[] = { "", "x", "1x", "nan", "inf", "-inf", "1e999", "1,5" };
        AUTO_CHARS               below = mem_printf("%.1f", row->min - 0.5);
        AUTO_CHARS               above = mem_printf("%.1f", row->max + 0.5);
        AUTO_CHARS               least = mem_printf("%.1f", row->min);
        AUTO_CHARS               most = mem_printf("%.1f", row->max);
        const char              *between = row->max >= 8 ? "7.25" : "0.25";
        OPTIONS                  o = { 0 };

        assert_ok(parse_joined(&o, row->name, least), row->name);
        assert_true(*(double *)field(&o, row) == row->min);
        assert_ok(parse_joined(&o, row->name, most), row->name);
        assert_true(*(double *)field(&o, row) == row->max);
        assert_ok(parse_apart(&o, row->name, between), row->name);
        assert_true(*(double *)field(&o, row) == strtod(between, NULL));
        assert_out_of_range(row, below);
        assert_out_of_range(row, above);
        for (size_t i = 0; i < ARRAY_LEN(junk); i++)
                assert_bad(row, "expects a number", junk[i]);
}

static void test_reals(void **state) {
        (void)state;
        assert_true(for_each(OPTION_REAL, check_real) >= 2);
}

static void check_text(const struct option_row *row) {
        static const char *const values[] = { "a", "a=b", "--looks-like-an-option", "\xc3\xa4 \n" };
        AUTO_CHARS               text = mem_printf("Error: empty argument for --%s", row->name);
        OPTIONS                  o = { 0 };

        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                AUTO_CHARS argument = mem_printf("--%s=%s", row->name, values[i]);

                renew(&o);
                assert_ok(parse(&o, argument, NULL), row->name);
                assert_string_equal(*(const char **)field(&o, row), values[i]);
                assert_ok(parse_apart(&o, row->name, values[i]), row->name);
                assert_string_equal(*(const char **)field(&o, row), values[i]);
        }
        if (row->refuses_empty) {
                assert_refused(row, "", ERR_INVALID_ARG, text);
                return;
        }
        assert_ok(parse_apart(&o, row->name, ""), row->name);
        assert_string_equal(*(const char **)field(&o, row), "");
}

static void test_texts(void **state) {
        (void)state;
        assert_true(for_each(OPTION_TEXT, check_text) >= 8);
}

static void check_list(const struct option_row *row) {
        AUTO_CHARS           argument = mem_printf("--%s", row->name);
        AUTO_CHARS           joined = mem_printf("--%s=second", row->name);
        char                *argv[] = { (char *)"neso", argument, (char *)"first",
                                        joined,         argument, (char *)"first" };
        OPTIONS              o = { 0 };
        struct option_texts *list;

        renew(&o);
        list = field(&o, row);
        assert_int_equal(list->n_items, 0);
        assert_ok(option_parse(ARRAY_LEN(argv), argv, &o), row->name);
        assert_int_equal(list->n_items, 3);
        assert_string_equal(list->items[0], "first");
        assert_string_equal(list->items[1], "second");
        assert_string_equal(list->items[2], "first");
}

static void test_lists(void **state) {
        (void)state;
        assert_true(for_each(OPTION_TEXTS, check_list) >= 5);
}

/* ---- what is no option ----------------------------------------------------------------------- */

static void test_unknown_options(void **state) {
        static const struct {
                const char *argument, *text;
        } rows[] = {
                { "--http-prot", "unrecognized option '--http-prot'; did you mean '--http-port'?" },
                { "--http-prot=8000",
                  "unrecognized option '--http-prot'; did you mean '--http-port'?" },
                { "--model-repositories",
                  "unrecognized option '--model-repositories'; did you mean "
                  "'--model-repository'?" },
                { "--Http-Port", "unrecognized option '--Http-Port'; did you mean '--http-port'?" },
                { "--qqqqqqqqqqqq", "unrecognized option '--qqqqqqqqqqqq'" },
                { "--=8000", "unrecognized option '--'" },
                { "---help", "unrecognized option '---help'; did you mean '--help'?" },
        };
        OPTIONS o = { 0 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                renew(&o);
                assert_error(parse(&o, rows[i].argument, NULL), ERR_INVALID_ARG, rows[i].text);
        }
}

/* As getopt_long(). */
static void test_abbreviations(void **state) {
        OPTIONS o = { 0 };

        (void)state;
        renew(&o);
        assert_ok(parse(&o, "--log-warn=off", NULL), "--log-warn");
        assert_false(o.log_warning);
        assert_ok(parse(&o, "--http-po", "9000"), "--http-po");
        assert_int_equal(o.http_port, 9000);
        /* A whole name that another one begins with. */
        assert_ok(parse(&o, "--grpc-keepalive-time=1000", NULL), "--grpc-keepalive-time");
        assert_int_equal(o.grpc_keepalive_ms, 1000);
        assert_error(parse(&o, "--log-f=x", NULL), ERR_INVALID_ARG,
                     "option '--log-f' is ambiguous; possibilities: '--log-format' '--log-file'");
}

static void test_long_unknown_option(void **state) {
        char      *argument = mem_alloc(100001);
        AUTO_CHARS text = NULL;
        OPTIONS    o = { 0 };

        (void)state;
        memset(argument, '-', 2);
        memset(argument + 2, 'x', 99998);
        argument[100000] = '\0';
        text = mem_printf("unrecognized option '%s'", argument);
        renew(&o);
        assert_error(parse(&o, argument, NULL), ERR_INVALID_ARG, text);
        free(argument);
}

/* An address gets three quarters of the connections unless the user says otherwise. */
static void test_connections_per_address(void **state) {
        OPTIONS o = { 0 };

        (void)state;
        renew(&o);
        assert_int_equal(cli_connections_per_address(o.http_max_connections_per_address,
                                                     o.http_max_connections),
                         12288);
        assert_int_equal(cli_connections_per_address(CLI_CONNECTIONS_SHARE, 1), 1);
        assert_null(parse(&o, "--http-max-connections-per-address=0", NULL));
        assert_int_equal(cli_connections_per_address(o.http_max_connections_per_address, 100), 0);
}

static void test_stray_arguments(void **state) {
        static const char *const stray[] = { "models", "-h", "-", "--", "", "help" };
        OPTIONS                  o = { 0 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(stray); i++) {
                AUTO_CHARS text = mem_printf("Unexpected argument: %s", stray[i]);

                renew(&o);
                assert_error(parse(&o, stray[i], NULL), ERR_INVALID_ARG, text);
                /* Also where a value has been read already. */
                assert_error(parse(&o, "--id=x", stray[i]), ERR_INVALID_ARG, text);
        }
}

static void check_needs_value(const struct option_row *row) {
        AUTO_CHARS argument = mem_printf("--%s", row->name);
        AUTO_CHARS text = mem_printf("option '--%s' needs a value", row->name);
        OPTIONS    o = { 0 };

        renew(&o);
        assert_error(parse(&o, argument, NULL), ERR_INVALID_ARG, text);
        assert_error(parse(&o, "--id=x", argument), ERR_INVALID_ARG, text);
}

static void test_values_that_are_missing(void **state) {
        (void)state;
        for_each(OPTION_BOOL, check_needs_value);
        for_each(OPTION_NUMBER, check_needs_value);
        for_each(OPTION_REAL, check_needs_value);
        for_each(OPTION_TEXT, check_needs_value);
        for_each(OPTION_TEXTS, check_needs_value);
}

static void test_several_options(void **state) {
        char   *argv[] = { (char *)"tritonserver",
                           (char *)"--model-store=/a",
                           (char *)"--http-port",
                           (char *)"18000",
                           (char *)"--help",
                           (char *)"--model-repository",
                           (char *)"/b",
                           (char *)"--http-port=18001",
                           (char *)"--log-info",
                           (char *)"0",
                           (char *)"--allow-grpc=0",
                           NULL };
        OPTIONS o = { 0 };

        (void)state;
        renew(&o);
        assert_ok(option_parse(ARRAY_LEN(argv) - 1, argv, &o), "parse");
        /* The older name adds to the same list; the last of what is given twice counts. */
        assert_int_equal(o.model_repository.n_items, 2);
        assert_string_equal(o.model_repository.items[0], "/a");
        assert_string_equal(o.model_repository.items[1], "/b");
        assert_int_equal(o.http_port, 18001);
        assert_true(o.help);
        assert_false(o.log_info);
        assert_true(o.log_warning);
}

static void test_no_options(void **state) {
        char   *argv[] = { (char *)"neso", NULL };
        OPTIONS fresh = { 0 }, o = { 0 };

        (void)state;
        cli_options_init(&fresh);
        renew(&o);
        assert_ok(option_parse(1, argv, &o), "parse");
        assert_null(options_differ(&o, &fresh));
        assert_ok(option_parse(0, argv, &o), "parse");
}

SUITE(option_parse) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_flags),
                cmocka_unit_test(test_booleans),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_reals),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_lists),
                cmocka_unit_test(test_unknown_options),
                cmocka_unit_test(test_abbreviations),
                cmocka_unit_test(test_long_unknown_option),
                cmocka_unit_test(test_stray_arguments),
                cmocka_unit_test(test_connections_per_address),
                cmocka_unit_test(test_values_that_are_missing),
                cmocka_unit_test(test_several_options),
                cmocka_unit_test(test_no_options),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
