/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "call/log_control.h"
#include "triton/core/tritonserver.h"

/* What the core was told, in place of its own functions. */
static struct {
        struct TRITONSERVER_ServerOptions *options;
        struct log_settings                s;
        struct TRITONSERVER_Error         *failure; /* of the last of them */
} reported;

struct TRITONSERVER_Error {
        const char *text;
};

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(struct TRITONSERVER_Error *e) {
        (void)e;
        return TRITONSERVER_ERROR_INTERNAL;
}

const char *TRITONSERVER_ErrorMessage(struct TRITONSERVER_Error *e) {
        return e->text;
}

void TRITONSERVER_ErrorDelete(struct TRITONSERVER_Error *e) {
        (void)e;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogInfo(
        struct TRITONSERVER_ServerOptions *o, bool log) {
        reported.options = o;
        reported.s.info = log;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogWarn(
        struct TRITONSERVER_ServerOptions *o, bool log) {
        (void)o;
        reported.s.warning = log;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogError(
        struct TRITONSERVER_ServerOptions *o, bool log) {
        (void)o;
        reported.s.error = log;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogVerbose(
        struct TRITONSERVER_ServerOptions *o, int level) {
        (void)o;
        reported.s.verbose_level = (unsigned)level;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFormat(
        struct TRITONSERVER_ServerOptions *o, const TRITONSERVER_LogFormat format) {
        (void)o;
        reported.s.format = (enum log_format)format;
        return reported.failure;
}

static void assert_settings(const struct log_settings *s, const struct log_settings *expected) {
        assert_int_equal(s->info, expected->info);
        assert_int_equal(s->warning, expected->warning);
        assert_int_equal(s->error, expected->error);
        assert_int_equal(s->verbose_level, expected->verbose_level);
        assert_int_equal(s->format, expected->format);
}

static void test_formats(void **state) {
        static const char *const names[] = { "default", "ISO8601", "json" };
        enum log_format          format = LOG_FORMAT_JSON;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                assert_string_equal(log_control_format_name((enum log_format)i), names[i]);
                assert_true(log_control_find_format(str_of(names[i]), &format));
                assert_int_equal(format, i);
        }
        format = LOG_FORMAT_ISO8601;
        assert_false(log_control_find_format(STR_LIT("iso8601"), &format));
        assert_false(log_control_find_format(STR_LIT(""), &format));
        assert_false(log_control_find_format(STR_LIT("jso"), &format));
        assert_int_equal(format, LOG_FORMAT_ISO8601);
}

/* The core and this unit have the same. */
static void test_apply(void **state) {
        const struct log_settings rows[] = {
                { .info = true, .error = true, .verbose_level = 2, .format = LOG_FORMAT_JSON },
                { .warning = true, .format = LOG_FORMAT_ISO8601 },
        };
        struct TRITONSERVER_ServerOptions *options = (void *)&reported;
        struct log_settings                now;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_null(log_control_apply(i == 0 ? options : NULL, &rows[i]));
                assert_ptr_equal(reported.options, i == 0 ? options : NULL);
                assert_settings(&reported.s, &rows[i]);
                log_get_settings(&now);
                assert_settings(&now, &rows[i]);
        }
}

static void test_refused_by_the_core(void **state) {
        struct TRITONSERVER_Error failure = { "no" };
        struct log_settings       before, now, s = { .verbose_level = 7 };
        struct error             *err;

        (void)state;
        log_get_settings(&before);
        reported.failure = &failure;
        err = log_control_apply(NULL, &s);
        reported.failure = NULL;
        assert_non_null(err);
        assert_string_equal(err->message, "no");
        error_free(err);
        log_get_settings(&now);
        assert_settings(&now, &before);
}

static void test_file(void **state) {
        struct error *err = log_control_refuse_file();

        (void)state;
        assert_int_equal(err->code, ERR_UNSUPPORTED);
        assert_string_equal(err->message,
                            "log file location can not be updated through network protocol");
        error_free(err);
}

/* Every switch is its own member of the settings. */
static void test_rows(void **state) {
        struct log_settings s = { 0 };

        (void)state;
        for (size_t i = 0; i < LOG_N_ROWS; i++)
                assert_ptr_equal(log_row_find(str_of(log_rows[i].name)), &log_rows[i]);
        assert_null(log_row_find(STR_LIT("log")));
        assert_ptr_equal(log_row_switch(log_row_find(STR_LIT("log_info")), &s), &s.info);
        assert_ptr_equal(log_row_switch(log_row_find(STR_LIT("log_warning")), &s), &s.warning);
        assert_ptr_equal(log_row_switch(log_row_find(STR_LIT("log_error")), &s), &s.error);
}

SUITE(log_control) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_formats), cmocka_unit_test(test_rows),
                cmocka_unit_test(test_apply),   cmocka_unit_test(test_refused_by_the_core),
                cmocka_unit_test(test_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
