/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "call/service.h"
#include "cli/access_log.h"

#include <ctype.h>
#include <string.h>

#define TIME_SHAPE "0000-00-00T00:00:00.000000Z"

/* The log's text after this access; owned by the caller. */
static char *logged(const struct access_entry *access) {
        struct temp_tree tree = temp_tree_make();
        AUTO_CHARS       path = temp_tree_path(&tree, "log");
        struct strbuf    text = { 0 };

        assert_null(log_set_file(path));
        access_log_write(NULL, access);
        assert_null(log_set_file(""));
        assert_null(file_read(path, 1 << 20, &text));
        temp_tree_remove(&tree);
        return strbuf_take(&text);
}

/* One line: {"ts":"<time>" and then exactly this. */
static void assert_line(const char *line, const char *expected) {
        static const char start[] = "{\"ts\":\"";
        const char       *time = line + strlen(start);

        assert_memory_equal(line, start, strlen(start));
        for (size_t i = 0; i < strlen(TIME_SHAPE); i++)
                if (TIME_SHAPE[i] == '0')
                        assert_true(isdigit((unsigned char)time[i]));
                else
                        assert_int_equal(time[i], TIME_SHAPE[i]);
        assert_string_equal(time + strlen(TIME_SHAPE), expected);
}

static void test_an_inference(void **state) {
        AUTO_CHARS line = logged(&(struct access_entry){ .peer = "127.0.0.1:4711",
                                                         .method = STR_LIT("POST"),
                                                         .path = STR_LIT("/v2/models/m/infer"),
                                                         .model = STR_LIT("m"),
                                                         .status = 200,
                                                         .bytes_in = 512,
                                                         .bytes_out = 1024,
                                                         .duration_ns = 1234999 });

        (void)state;
        assert_line(line, "\",\"level\":\"access\",\"peer\":\"127.0.0.1:4711\",\"method\":\"POST\","
                          "\"path\":\"/v2/models/m/infer\",\"model\":\"m\",\"status\":200,"
                          "\"bytes_in\":512,\"bytes_out\":1024,\"duration_us\":1234}\n");
}

static void test_without_a_model(void **state) {
        AUTO_CHARS line = logged(&(struct access_entry){ .peer = "[::1]:1",
                                                         .method = STR_LIT("GET"),
                                                         .path = STR_LIT("/v2"),
                                                         .status = 404,
                                                         .bytes_in = UINT64_MAX,
                                                         .is_aborted = true });

        (void)state;
        assert_line(line, "\",\"level\":\"access\",\"peer\":\"[::1]:1\",\"method\":\"GET\","
                          "\"path\":\"/v2\",\"status\":404,\"bytes_in\":18446744073709551615,"
                          "\"bytes_out\":0,\"duration_us\":0,\"aborted\":true}\n");
}

/* What a client sends cannot make a line of its own. */
static void test_what_clients_send_is_quoted(void **state) {
        AUTO_CHARS line = logged(&(struct access_entry){ .peer = "p",
                                                         .method = STR_LIT("GET"),
                                                         .path = STR_LIT("/\"}\n{\"\\\t\x01"),
                                                         .status = 400 });

        (void)state;
        assert_line(line, "\",\"level\":\"access\",\"peer\":\"p\",\"method\":\"GET\","
                          "\"path\":\"/\\\"}\\n{\\\"\\\\\\t\\u0001\",\"status\":400,"
                          "\"bytes_in\":0,\"bytes_out\":0,\"duration_us\":0}\n");
}

static void test_a_line_beyond_the_limit_is_left_out(void **state) {
        char      *path = mem_alloc(70000);
        AUTO_CHARS line = NULL;

        (void)state;
        memset(path, 'x', 70000);
        line = logged(&(struct access_entry){ .peer = "p",
                                              .method = STR_LIT("GET"),
                                              .path = str_range(path, 70000),
                                              .status = 414 });
        assert_string_equal(line, "");
        free(path);
}

SUITE(access_log) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_inference),
                cmocka_unit_test(test_without_a_model),
                cmocka_unit_test(test_what_clients_send_is_quoted),
                cmocka_unit_test(test_a_line_beyond_the_limit_is_left_out),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
