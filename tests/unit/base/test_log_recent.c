/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/log.h"
#include "base/log_recent.h"

#include <stdio.h>
#include <string.h>

static void add(enum log_level level, const char *text) {
        log_recent_add(level, "src/some/file.c", 7, str_of(text));
}

static void test_only_warnings_and_errors_are_kept_and_only_when_wished(void **state) {
        struct log_recent_line line;

        (void)state;
        add(LOG_WARN, "before");
        assert_false(log_recent_next(0, &line));
        log_recent_keep(true);
        add(LOG_INFO, "information");
        add(LOG_VERBOSE, "verbose");
        assert_false(log_recent_next(0, &line));
        add(LOG_WARN, "warning");
        log_error("%s", "from the log");
        assert_true(log_recent_next(0, &line));
        assert_int_equal(line.number, 1);
        assert_int_equal(line.level, LOG_WARN);
        assert_int_equal(line.line, 7);
        assert_string_equal(line.file, "file.c");
        assert_string_equal(line.text, "warning");
        assert_true(line.wall_ms > 0);
        assert_true(log_recent_next(1, &line));
        assert_int_equal(line.level, LOG_ERROR);
        assert_string_equal(line.file, "test_log_recent.c");
        assert_string_equal(line.text, "from the log");
        assert_false(log_recent_next(2, &line));
        log_recent_keep(false);
        add(LOG_WARN, "after");
        assert_false(log_recent_next(2, &line));
}

static void test_the_oldest_lines_make_room(void **state) {
        struct log_recent_line line;
        uint64_t               first;
        char                   text[2 * LOG_RECENT_BYTES];

        (void)state;
        log_recent_keep(true);
        for (unsigned i = 1; i <= LOG_RECENT_LINES + 10; i++) {
                snprintf(text, sizeof(text), "line %u", i);
                add(LOG_ERROR, text);
        }
        assert_true(log_recent_next(0, &line));
        assert_string_equal(line.text, "line 11");
        first = line.number;
        for (uint64_t at = 0; log_recent_next(at, &line); at = line.number)
                assert_in_range(line.number, first, first + LOG_RECENT_LINES - 1);
        assert_string_equal(line.text, "line 210");

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        add(LOG_WARN, text);
        assert_true(log_recent_next(line.number, &line));
        assert_int_equal(strlen(line.text), LOG_RECENT_BYTES);
        log_recent_keep(false);
}

SUITE(log_recent) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_warnings_and_errors_are_kept_and_only_when_wished),
                cmocka_unit_test(test_the_oldest_lines_make_room),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
