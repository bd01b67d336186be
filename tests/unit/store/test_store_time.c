/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "store/store_time.h"

static void test_read(void **state) {
        static const struct {
                const char *text;
                uint64_t    ns;
        } rows[] = {
                { "1970-01-01T00:00:00Z", 0 },
                { "2013-05-24T00:00:00Z", UINT64_C(1369353600) * NS_PER_S },
                { "2013-05-24T00:00:00.5Z", UINT64_C(1369353600) * NS_PER_S + NS_PER_S / 2 },
                { "2013-05-24T00:00:00.123456789Z", UINT64_C(1369353600) * NS_PER_S + 123456789 },
                { "2013-05-24T02:00:00+02:00", UINT64_C(1369353600) * NS_PER_S },
                { "2013-05-23T18:30:00-05:30", UINT64_C(1369353600) * NS_PER_S },
                { "2024-02-29T00:00:00Z", UINT64_C(1709164800) * NS_PER_S },
                { "2553-12-31T23:59:59Z", UINT64_C(18429292799) * NS_PER_S },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                uint64_t ns;

                assert_true(store_time_read(str_of(rows[i].text), &ns));
                assert_true(ns == rows[i].ns);
        }
}

static void test_refused(void **state) {
        static const char *const texts[] = {
                "",
                "2013-05-24",
                "2013-05-24T00:00:00",
                "2013-05-24 00:00:00Z",
                "2013-05-24T00:00:00z",
                "2013-05-24T00:00:00ZZ",
                "2013-05-24T00:00Z",
                "2013-05-24T24:00:00Z",
                "2013-05-24T00:60:00Z",
                "2013-05-24T00:00:60Z",
                "2013-02-29T00:00:00Z",
                "1900-02-29T00:00:00Z",
                "2013-13-01T00:00:00Z",
                "2013-00-01T00:00:00Z",
                "2013-01-00T00:00:00Z",
                "2013-04-31T00:00:00Z",
                "1969-12-31T23:59:59Z",
                "1970-01-01T00:00:00+00:01",
                "2554-01-01T00:00:00Z",
                "+013-05-24T00:00:00Z",
                "2013-5-24T00:00:00Z",
                "2013-05-24T00:00:00.Z",
                "2013-05-24T00:00:00.1234567890Z",
                "2013-05-24T00:00:00+0200",
                "2013-05-24T00:00:00+24:00",
                "2013-05-24T00:00:00+02:00Z",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                uint64_t ns;

                if (store_time_read(str_of(texts[i]), &ns))
                        fail_msg("'%s' was accepted", texts[i]);
        }
}

static void test_print(void **state) {
        char aws[STORE_TIME_AWS_BYTES], http[STORE_TIME_HTTP_BYTES];

        (void)state;
        store_time_print_aws(UINT64_C(1440938160) * NS_PER_S + 1, aws);
        assert_string_equal(aws, "20150830T123600Z");
        store_time_print_http(UINT64_C(1440938160) * NS_PER_S, http);
        assert_string_equal(http, "Sun, 30 Aug 2015 12:36:00 GMT");
        store_time_print_http(0, http);
        assert_string_equal(http, "Thu, 01 Jan 1970 00:00:00 GMT");
}

SUITE(store_time) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_print),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
