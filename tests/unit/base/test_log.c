/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/neso-test-log-XXXXXX";

static int set_up_group(void **state) {
        int fd = mkstemp(path);

        (void)state;
        if (fd < 0)
                return -1;
        close(fd);
        return 0;
}

static int tear_down_group(void **state) {
        (void)state;
        return unlink(path);
}

static int set_up(void **state) {
        const struct log_settings defaults = { .info = true, .warning = true, .error = true };

        (void)state;
        assert_int_equal(truncate(path, 0), 0);
        log_set_settings(&defaults);
        assert_null(log_set_file(path));
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        assert_null(log_set_file(""));
        return 0;
}

/* What was written since set_up(); owned by the caller. */
static char *logged(void) {
        struct strbuf text;

        assert_null(file_read(path, 10 << 20, &text));
        return strbuf_take(&text);
}

static void assert_matches(const char *text, const char *pattern) {
        regex_t compiled;

        assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
        if (regexec(&compiled, text, 0, NULL, 0) != 0)
                fail_msg("'%s' does not match '%s'", text, pattern);
        regfree(&compiled);
}

static void set_format(enum log_format format) {
        struct log_settings settings;

        log_get_settings(&settings);
        settings.format = format;
        log_set_settings(&settings);
}

static void test_default_format(void **state) {
        (void)state;
        log_write(LOG_INFO, "/a/b/file.c", 123, "message");
        log_write(LOG_WARN, "file.c", 1, "w");
        log_write(LOG_ERROR, "file.c", 1, "e");
        log_write(LOG_VERBOSE, "file.c", 1, "v");
        AUTO_CHARS text = logged();

        assert_matches(text,
                       "^I[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} [0-9]+ file\\.c:123] "
                       "\"message\"\nW[0-9 :.]+ file\\.c:1] \"w\"\nE[0-9 :.]+ file\\.c:1] \"e\"\n"
                       "I[0-9 :.]+ file\\.c:1] \"v\"\n$");
}

static void test_pid_is_ours(void **state) {
        (void)state;
        log_write(LOG_INFO, "file.c", 1, "x");
        AUTO_CHARS text = logged();
        AUTO_CHARS expected = mem_printf(" %d file.c:1] \"x\"\n", (int)getpid());

        assert_non_null(strstr(text, expected));
}

static void test_iso8601(void **state) {
        (void)state;
        set_format(LOG_FORMAT_ISO8601);
        log_write(LOG_ERROR, "file.c", 7, "message");
        AUTO_CHARS text = logged();

        assert_matches(text, "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z E [0-9]+ "
                             "file\\.c:7] \"message\"\n$");
}

static void test_json(void **state) {
        (void)state;
        set_format(LOG_FORMAT_JSON);
        log_write(LOG_WARN, "a/file.c", 7, "say \"hi\"\\");
        AUTO_CHARS text = logged();

        assert_matches(text,
                       "^\\{\"ts\":\"20[0-9-]{8}T[0-9:]{8}\\.[0-9]{6}Z\",\"level\":\"warning\","
                       "\"pid\":[0-9]+,\"at\":\"file\\.c:7\",\"msg\":");
        assert_non_null(strstr(text, "\"msg\":\"say \\\"hi\\\"\\\\\"}\n"));
}

/* Memory is too short for a line: it is whole nevertheless, and at most its text is cut. */
static void test_without_memory(void **state) {
        char long_text[5000];
        char long_name[500];

        (void)state;
        memset(long_text, '\n', sizeof(long_text) - 1);
        long_text[sizeof(long_text) - 1] = '\0';
        memset(long_name, 'n', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = '\0';
        for (enum log_format format = LOG_FORMAT_DEFAULT; format <= LOG_FORMAT_JSON; format++) {
                set_format(format);
                mem_fail_once(1);
                log_write(LOG_ERROR, "a/file.c", 7, "short");
                mem_fail_once(4); /* in the middle of the line */
                log_write(LOG_ERROR, "a/file.c", 8, long_text);
                mem_fail_once(1);
                log_write(LOG_ERROR, long_name, 9, long_text);
                mem_fail_after(0);
        }
        AUTO_CHARS text = logged();

        assert_matches(text, "^E[0-9 :.]+ file\\.c:7] \"short\"\n"
                             "E[0-9 :.]+ file\\.c:8] \"(\\\\n){200}\"\n"
                             "E[0-9 :.]+ :9] \"(\\\\n){200}\"\n"
                             "20[0-9T:-]+Z E [0-9]+ file\\.c:7] \"short\"\n"
                             "20[0-9T:-]+Z E [0-9]+ file\\.c:8] \"(\\\\n){200}\"\n"
                             "20[0-9T:-]+Z E [0-9]+ :9] \"(\\\\n){200}\"\n"
                             "\\{\"ts\":[^\n]+\"at\":\"file\\.c:7\",\"msg\":\"short\"\\}\n"
                             "\\{\"ts\":[^\n]+\"at\":\"file\\.c:8\",\"msg\":\"(\\\\n){200}\"\\}\n"
                             "\\{\"ts\":[^\n]+\"at\":\":9\",\"msg\":\"(\\\\n){200}\"\\}\n$");
}

static void test_no_peer_forges_a_line(void **state) {
        (void)state;
        log_write(LOG_INFO, "f.c", 1,
                  "a\nE1120 forged\r\t\x1b[31m\x7f\"\\\xff\xc2\x9b\xe2\x82\xac");
        AUTO_CHARS text = logged();

        assert_non_null(strstr(text, "] \"a\\nE1120 forged\\r\\t\\u001b[31m\\u007f\\\"\\\\\\ufffd"
                                     "\\u009b\xe2\x82\xac\"\n"));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
}

static void test_levels(void **state) {
        (void)state;
        struct log_settings settings = { .warning = true, .verbose_level = 2 };

        assert_true(log_is_enabled(LOG_INFO));
        assert_false(log_is_enabled(LOG_VERBOSE));
        assert_false(log_is_verbose(1));
        log_set_settings(&settings);
        assert_false(log_is_enabled(LOG_INFO));
        assert_true(log_is_enabled(LOG_WARN));
        assert_false(log_is_enabled(LOG_ERROR));
        assert_true(log_is_enabled(LOG_VERBOSE));
        assert_true(log_is_verbose(2));
        assert_false(log_is_verbose(3));

        log_info("not written");
        log_warn("%s %d", "written", 1);
        log_verbose(2, "written 2");
        log_verbose(3, "not written");
        AUTO_CHARS text = logged();
        assert_null(strstr(text, "not written"));
        assert_matches(text, "^W.* test_log\\.c:[0-9]+] \"written 1\"\nI.*\"written 2\"\n$");

        memset(&settings, 0xff, sizeof(settings));
        log_get_settings(&settings);
        assert_false(settings.info);
        assert_true(settings.warning);
        assert_int_equal(settings.verbose_level, 2);
        assert_string_equal(settings.file, path);
}

static void test_raw(void **state) {
        (void)state;
        log_raw(STR_LIT("GET \"/v2\" 200"));
        AUTO_CHARS text = logged();

        assert_string_equal(text, "GET \"/v2\" 200\n");
}

static void test_long_message_is_cut(void **state) {
        (void)state;
        size_t len = 1 << 20;
        char  *message = mem_alloc(len + 1);

        memset(message, '\n', len); /* each becomes two bytes */
        message[len] = '\0';
        log_write(LOG_INFO, "f.c", 1, message);
        free(message);
        AUTO_CHARS text = logged();
        assert_in_range(strlen(text), 2 * (256 << 10), 2 * (256 << 10) + 100);
        assert_string_equal(text + strlen(text) - 4, "\\n\"\n");
}

static void test_file_that_cannot_be_opened(void **state) {
        (void)state;
        AUTO_ERROR          err = log_set_file("/nonexistent/x.log");
        struct log_settings settings;

        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_string_equal(err->message, "unable to open log file '/nonexistent/x.log': "
                                          "No such file or directory");
        log_get_settings(&settings);
        assert_string_equal(settings.file, path); /* as it was */

        char too_long[5000];
        memset(too_long, 'x', sizeof(too_long) - 1);
        too_long[sizeof(too_long) - 1] = '\0';
        AUTO_ERROR refused = log_set_file(too_long);
        assert_int_equal(refused->code, ERR_INVALID_ARG);
}

static void test_errno_survives(void **state) {
        (void)state;
        errno = EPIPE;
        log_raw(STR_LIT("x"));
        assert_int_equal(errno, EPIPE);
}

static enum log_level sunk_level;
static char           sunk[64];
static bool           sink_wants_verbose;

static void sink(enum log_level level, const char *file, int line, const char *message) {
        sunk_level = level;
        snprintf(sunk, sizeof(sunk), "%s:%d %s", file, line, message);
}

static bool sink_is_enabled(enum log_level level) {
        return level == LOG_ERROR || (level == LOG_VERBOSE && sink_wants_verbose);
}

static void test_sink(void **state) {
        (void)state;
        log_set_sink(sink, sink_is_enabled);
        assert_false(log_is_enabled(LOG_INFO));
        assert_true(log_is_enabled(LOG_ERROR));
        assert_false(log_is_verbose(1));
        sink_wants_verbose = true;
        assert_true(log_is_verbose(1));
        assert_false(log_is_verbose(2));
        log_write(LOG_ERROR, "f.c", 3, "a\nb");
        log_set_sink(NULL, NULL);
        assert_true(log_is_enabled(LOG_INFO));

        assert_int_equal(sunk_level, LOG_ERROR);
        assert_string_equal(sunk, "f.c:3 a\nb");
        AUTO_CHARS text = logged();
        assert_string_equal(text, "");
}

static void write_many(void *arg) {
        for (int i = 0; i < 500; i++)
                log_write(LOG_INFO, "f.c", 1, arg);
}

static void test_lines_of_threads_do_not_mix(void **state) {
        (void)state;
        struct thread threads[3];
        char         *texts[3] = { "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbb",
                                   "cccccccccccccccccccccccccccc" };
        size_t        n_lines = 0;

        for (int i = 0; i < 3; i++)
                assert_null(thread_start(&threads[i], "writer", write_many, texts[i]));
        for (int i = 0; i < 100; i++) /* the file is changed under them */
                assert_null(log_set_file(path));
        for (int i = 0; i < 3; i++)
                thread_join(&threads[i]);
        AUTO_CHARS text = logged();
        for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
                char *message = strstr(line, "] \"");

                *end = '\0';
                assert_non_null(message);
                message[strlen(message) - 1] = '\0';
                assert_true(strcmp(message + 3, texts[0]) == 0 ||
                            strcmp(message + 3, texts[1]) == 0 ||
                            strcmp(message + 3, texts[2]) == 0);
                n_lines++;
        }
        assert_int_equal(n_lines, 1500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* At most LOG_LINES_PER_S of a second pass; the first of a later second has the number of the others. */
static void test_limit(void **state) {
        struct log_limit limit = { 0 };
        unsigned         n_more, n_passed = 0, n_calls = 50;

        (void)state;
        for (unsigned i = 0; i < n_calls; i++)
                n_passed += log_limit_pass(&limit, &n_more);
        /* The second may have ended once meanwhile. */
        assert_in_range(n_passed, LOG_LINES_PER_S, 2 * LOG_LINES_PER_S);
        limit = (struct log_limit){ .second = 1, .n_lines = 50, .n_suppressed = 40 };
        assert_true(log_limit_pass(&limit, &n_more));
        assert_int_equal(n_more, 40);
        assert_true(log_limit_pass(&limit, &n_more));
        assert_int_equal(n_more, 0);
}

SUITE(log) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_limit),
                TEST(test_default_format),
                TEST(test_pid_is_ours),
                TEST(test_iso8601),
                TEST(test_json),
                TEST(test_without_memory),
                TEST(test_no_peer_forges_a_line),
                TEST(test_levels),
                TEST(test_raw),
                TEST(test_long_message_is_cut),
                TEST(test_file_that_cannot_be_opened),
                TEST(test_errno_survives),
                TEST(test_sink),
                TEST(test_lines_of_threads_do_not_mix),
        };
        unsetenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES");
        return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
