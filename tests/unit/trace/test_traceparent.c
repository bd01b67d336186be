/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "trace/traceparent.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static void test_rows(void **state) {
        static const struct {
                const char *text;
                int         flags; /* -1 = refused */
        } rows[] = {
                { "00-" TRACE "-" SPAN "-01", 1 },
                { "00-" TRACE "-" SPAN "-00", 0 },
                { "00-" TRACE "-" SPAN "-ff", 255 },
                { "01-" TRACE "-" SPAN "-01", 1 },
                { "01-" TRACE "-" SPAN "-01-more", 1 },
                { "fe-" TRACE "-" SPAN "-01-", 1 },
                { "", -1 },
                { "00", -1 },
                { "ff-" TRACE "-" SPAN "-01", -1 },
                { "00-" TRACE "-" SPAN "-0", -1 },
                { "00-" TRACE "-" SPAN "-01-", -1 },
                { "00-" TRACE "-" SPAN "-01-more", -1 },
                { "01-" TRACE "-" SPAN "-01.more", -1 },
                { "01-" TRACE "-" SPAN "-011", -1 },
                { " 00-" TRACE "-" SPAN "-01", -1 },
                { "00-" TRACE "-" SPAN "-01 ", -1 },
                { "00_" TRACE "-" SPAN "-01", -1 },
                { "00-" TRACE "_" SPAN "-01", -1 },
                { "00-" TRACE "-" SPAN "_01", -1 },
                { "0G-" TRACE "-" SPAN "-01", -1 },
                { "00-0AF7651916cd43dd8448eb211c80319c-" SPAN "-01", -1 },
                { "00-" TRACE "-B7ad6b7169203331-01", -1 },
                { "00-" TRACE "-" SPAN "-0A", -1 },
                { "00-00000000000000000000000000000000-" SPAN "-01", -1 },
                { "00-" TRACE "-0000000000000000-01", -1 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct traceparent p = { .flags = 77 };
                char               trace[33], span[17], text[TRACEPARENT_CHARS + 1];
                bool               is_read = traceparent_read(str_of(rows[i].text), &p);

                if (is_read != (rows[i].flags >= 0))
                        fail_msg("'%s' is %s", rows[i].text, is_read ? "accepted" : "refused");
                if (!is_read) {
                        assert_int_equal(p.flags, 77);
                        continue;
                }
                assert_int_equal(p.flags, rows[i].flags);
                traceparent_print_id(p.trace_id, sizeof(p.trace_id), trace);
                traceparent_print_id(p.span_id, sizeof(p.span_id), span);
                assert_string_equal(trace, TRACE);
                assert_string_equal(span, SPAN);
                traceparent_print(&p, text);
                assert_memory_equal(text, "00-" TRACE "-" SPAN "-", 53);
        }
}

static void test_new_ids(void **state) {
        uint8_t first[16] = { 0 }, second[16] = { 0 }, zeros[16] = { 0 };

        (void)state;
        traceparent_new_id(first, sizeof(first));
        traceparent_new_id(second, sizeof(second));
        assert_memory_not_equal(first, zeros, sizeof(zeros));
        assert_memory_not_equal(first, second, sizeof(first));
}

SUITE(traceparent) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_new_ids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
