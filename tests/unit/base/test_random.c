/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/random.h"

#include <string.h>

/* All bytes are written, and none beyond; also where the kernel may give fewer at once. */
static void test_fill(void **state) {
        static const size_t  sizes[] = { 0, 1, 7, 16, 256, 257, 4096, 100000 };
        static unsigned char bytes[100001], seen[100001];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                size_t n = sizes[i];

                memset(bytes, 0, sizeof(bytes));
                memset(seen, 0, sizeof(seen));
                bytes[n] = 0xa5;
                /* A byte that is still 0 after 40 drawings was not written. */
                for (int round = 0; round < 40; round++) {
                        assert_null(random_fill(bytes, n));
                        for (size_t at = 0; at < n; at++)
                                seen[at] |= bytes[at];
                }
                for (size_t at = 0; at < n; at++)
                        assert_int_not_equal(seen[at], 0);
                assert_int_equal(bytes[n], 0xa5);
        }
}

static void test_differs(void **state) {
        unsigned char a[16], b[16];

        (void)state;
        assert_null(random_fill(a, sizeof(a)));
        assert_null(random_fill(b, sizeof(b)));
        assert_memory_not_equal(a, b, sizeof(a));
}

SUITE(random) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fill),
                cmocka_unit_test(test_differs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
