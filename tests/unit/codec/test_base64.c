/* SPDX-License-Identifier: BSD-3-Clause */
/* Base64: the examples of RFC 4648, everything the strict decoder refuses, what the lenient one
 * makes of junk.
 */
#include "suite.h"

#include "base/compiler.h"
#include "codec/base64.h"

static void test_examples(void **state) {
        static const char *const rows[][2] = {
                { "", "" },
                { "f", "Zg==" },
                { "fo", "Zm8=" },
                { "foo", "Zm9v" },
                { "foob", "Zm9vYg==" },
                { "fooba", "Zm9vYmE=" },
                { "foobar", "Zm9vYmFy" },
                { "\xff\xef\xbe\xfb\xf0", "/++++/A=" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct strbuf coded, plain, lenient;

                strbuf_init(&coded, 0);
                strbuf_init(&plain, 0);
                strbuf_init(&lenient, 0);
                base64_encode(str_of(rows[i][0]), &coded);
                assert_string_equal(strbuf_cstr(&coded), rows[i][1]);
                assert_true(base64_decode(str_of(rows[i][1]), &plain));
                assert_string_equal(strbuf_cstr(&plain), rows[i][0]);
                base64_decode_lenient(str_of(rows[i][1]), &lenient);
                assert_string_equal(strbuf_cstr(&lenient), rows[i][0]);
                strbuf_done(&coded);
                strbuf_done(&plain);
                strbuf_done(&lenient);
        }
}

static void test_strict_refuses(void **state) {
        static const char *const texts[] = {
                "Z",      "Zg",     "Zg=",  "Zg===", "=",        "====",     "Z===",
                "Zm9vYg", "Zm9v\n", "Zm 9", "Zm9_",  "Zm9-",     "Zg==Zg==", "Zm=v",
                "=m9v",   "Zh==",   "Zm9=", "Zm\0v", "Zm9v====", "\xffm9v",
        };
        struct strbuf out;

        (void)state;
        strbuf_init(&out, 0);
        strbuf_puts(&out, "kept");
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                assert_false(base64_decode(str_of(texts[i]), &out));
                assert_string_equal(strbuf_cstr(&out), "kept");
        }
        assert_false(base64_decode(str_range("Zm\0v", 4), &out));
        strbuf_done(&out);
}

static void check_lenient(const char *text, const char *wanted) {
        struct strbuf out;

        strbuf_init(&out, 0);
        base64_decode_lenient(str_of(text), &out);
        assert_string_equal(strbuf_cstr(&out), wanted);
        strbuf_done(&out);
}

static void test_lenient(void **state) {
        (void)state;
        check_lenient("Zm9v\r\nYmFy\n", "foobar");
        check_lenient("Z m-9_v", "foo");
        check_lenient("Zg", "f");
        check_lenient("Zm8", "fo");
        check_lenient("Z", "");
        check_lenient("Zm9vY", "foo");
        check_lenient("Zg==Zg==", "f\x06`"); /* '=' ends nothing: the letters are Zg Zg */
        check_lenient("Zh==", "f");
        check_lenient("!?%", "");
        check_lenient("", "");
}

static void test_all_bytes(void **state) {
        char bytes[768];

        (void)state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (char)(i * 7 + i / 256);
        for (size_t len = 0; len <= sizeof(bytes); len += 5) {
                struct strbuf coded, plain;

                strbuf_init(&coded, 0);
                strbuf_init(&plain, 0);
                base64_encode(str_range(bytes, len), &coded);
                assert_int_equal(coded.len, (len + 2) / 3 * 4);
                assert_true(base64_decode(strbuf_str(&coded), &plain));
                assert_int_equal(plain.len, len);
                if (len > 0)
                        assert_memory_equal(plain.ptr, bytes, len);
                strbuf_done(&coded);
                strbuf_done(&plain);
        }
}

static void test_exactly(void **state) {
        unsigned char bytes[4] = "....";

        (void)state;
        assert_true(base64_decode_exactly(STR_LIT("Zm9vYg=="), bytes, 4));
        assert_memory_equal(bytes, "foob", 4);
        assert_false(base64_decode_exactly(STR_LIT("Zm9v"), bytes, 4));
        assert_false(base64_decode_exactly(STR_LIT("YWJjZGVmZw=="), bytes, 4));
        assert_false(base64_decode_exactly(STR_LIT("Zm9vYmFyYg=="), bytes, 6));
        assert_false(base64_decode_exactly(STR_LIT("no base64"), bytes, 4));
        assert_false(base64_decode_exactly(STR_LIT(""), bytes, 4));
        assert_memory_equal(bytes, "foob", 4);
}

static void test_maximum(void **state) {
        struct strbuf out;

        (void)state;
        strbuf_init(&out, 8);
        base64_encode(STR_LIT("foobar"), &out);
        assert_false(out.overflowed);
        assert_string_equal(strbuf_cstr(&out), "Zm9vYmFy");
        base64_encode(STR_LIT("x"), &out);
        assert_true(out.overflowed);
        assert_string_equal(strbuf_cstr(&out), "Zm9vYmFy");
        strbuf_done(&out);

        strbuf_init(&out, 6);
        assert_true(base64_decode(STR_LIT("Zm9vYmFy"), &out));
        assert_string_equal(strbuf_cstr(&out), "foobar");
        assert_true(base64_decode(STR_LIT("Zg=="), &out));
        assert_true(out.overflowed);
        strbuf_done(&out);

        strbuf_init(&out, 3);
        base64_decode_lenient(STR_LIT("Zm9v\n\n\n\n\n\n\n\n"), &out);
        assert_false(out.overflowed);
        assert_string_equal(strbuf_cstr(&out), "foo");
        strbuf_done(&out);
}

SUITE(base64) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_examples), cmocka_unit_test(test_strict_refuses),
                cmocka_unit_test(test_lenient),  cmocka_unit_test(test_all_bytes),
                cmocka_unit_test(test_maximum),  cmocka_unit_test(test_exactly),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
