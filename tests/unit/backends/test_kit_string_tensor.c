/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"
#include "kit/string_tensor.h"

#include <string.h>

static const char three[] = "\3\0\0\0abc\0\0\0\0\2\0\0\0\0x";

static void test_decode(void **state) {
        struct kit_string strings[3];

        (void)state;
        assert_null(kit_strings_decode(three, sizeof(three) - 1, 3, "S", strings));
        assert_int_equal(strings[0].len, 3);
        assert_memory_equal(strings[0].chars, "abc", 3);
        assert_int_equal(strings[1].len, 0);
        assert_int_equal(strings[2].len, 2);
        assert_memory_equal(strings[2].chars, "\0x", 2);
        assert_null(kit_strings_decode("", 0, 0, "S", strings));
}

static void check_refused(const char *bytes, size_t n_bytes, size_t n, const char *message) {
        struct kit_string   strings[4];
        TRITONSERVER_Error *err = kit_strings_decode(bytes, n_bytes, n, "S", strings);

        assert_non_null(err);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_INVALID_ARG);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), message);
        TRITONSERVER_ErrorDelete(err);
}

static void test_refused(void **state) {
        (void)state;
        check_refused(three, sizeof(three) - 1, 4,
                      "unexpected number of string elements 3 for inference input 'S', expecting "
                      "4");
        check_refused(three, sizeof(three) - 1, 2,
                      "unexpected 6 bytes after the 2 string elements of inference input 'S'");
        check_refused(three, sizeof(three) - 2, 3,
                      "incomplete string data for inference input 'S', expecting string of length "
                      "2 but only 1 bytes available");
        check_refused("\xff\xff\xff\xff", 4, 1,
                      "incomplete string data for inference input 'S', expecting string of length "
                      "4294967295 but only 0 bytes available");
        check_refused("\0\0\0", 3, 1,
                      "unexpected number of string elements 0 for inference input 'S', expecting "
                      "1");
}

static void test_packed(void **state) {
        static const char               chars[] = "abc\0x";
        const size_t                    offsets[] = { 0, 3, 3 };
        const struct kit_packed_strings strings = { chars, offsets, 3, 5 };
        char                            out[32];
        size_t                          size = 0;

        (void)state;
        assert_null(kit_strings_encoded_size(&strings, 0, 3, &size));
        assert_int_equal(size, sizeof(three) - 1);
        kit_strings_encode(&strings, 0, 3, out);
        assert_memory_equal(out, three, size);

        assert_null(kit_strings_encoded_size(&strings, 1, 2, &size));
        assert_int_equal(size, 10);
        memset(out, 'z', sizeof(out));
        kit_strings_encode(&strings, 1, 2, out);
        assert_memory_equal(out, three + 7, 10);
        assert_int_equal(out[10], 'z');

        assert_null(kit_strings_encoded_size(&strings, 3, 0, &size));
        assert_int_equal(size, 0);
}

static void test_list(void **state) {
        const struct kit_string strings[] = { { "abc", 3 }, { NULL, 0 }, { "\0x", 2 } };
        char                    out[32];

        (void)state;
        assert_int_equal(kit_string_list_size(strings, 3), sizeof(three) - 1);
        kit_string_list_encode(strings, 3, out);
        assert_memory_equal(out, three, sizeof(three) - 1);
}

SUITE(kit_string_tensor) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_decode),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_packed),
                cmocka_unit_test(test_list),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
