/* SPDX-License-Identifier: BSD-3-Clause */
/* Status, time-out, encodings and limits: what is said in headers. */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_status.h"

#include <string.h>

static void test_codes(void **state) {
        static const struct {
                enum error_code error;
                enum grpc_code  code;
                const char     *digits;
        } rows[] = {
                { ERR_UNKNOWN, 2, "2" },         { ERR_INTERNAL, 13, "13" },
                { ERR_NOT_FOUND, 5, "5" },       { ERR_INVALID_ARG, 3, "3" },
                { ERR_UNAVAILABLE, 14, "14" },   { ERR_UNSUPPORTED, 12, "12" },
                { ERR_ALREADY_EXISTS, 6, "6" },  { ERR_CANCELLED, 1, "1" },
                { (enum error_code)99, 2, "2" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                enum grpc_code code = grpc_code_of_error(rows[i].error);

                assert_int_equal(code, rows[i].code);
                assert_true(str_is(grpc_code_digits(code), rows[i].digits));
        }
        assert_true(str_is(grpc_code_digits((enum grpc_code)17), "2"));
        assert_true(str_is(grpc_code_digits(GRPC_UNAUTHENTICATED), "16"));
}

static void test_message(void **state) {
        static const char *const rows[][2] = {
                { "", "" },
                { "plain text ~!", "plain text ~!" },
                { "100%", "100%25" },
                { "a\nb\x7f", "a%0Ab%7F" },
                { "\xe2\x82\xac 5", "%E2%82%AC 5" },
                { "\xff!", "%FF!" },
        };
        struct arena a;

        (void)state;
        arena_init(&a, NULL, 0, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct str got = grpc_message_encode(&a, str_of(rows[i][0]));

                assert_int_equal(got.len, strlen(rows[i][1]));
                assert_memory_equal(got.ptr, rows[i][1], got.len);
        }
        arena_done(&a);
}

/* A long message ends where the last whole character does. */
static void test_long_message(void **state) {
        struct arena a;
        char        *text = mem_alloc(30000);
        struct str   got;

        (void)state;
        arena_init(&a, NULL, 0, 0);
        memset(text, 'x', 30000);
        assert_int_equal(grpc_message_encode(&a, str_range(text, 30000)).len,
                         GRPC_MAX_MESSAGE_TEXT);
        for (size_t i = 0; i < 30000; i += 3)
                memcpy(text + i, "\xe2\x82\xac", 3);
        got = grpc_message_encode(&a, str_range(text, 30000));
        assert_int_equal(got.len, GRPC_MAX_MESSAGE_TEXT / 9 * 9);
        assert_memory_equal(got.ptr + got.len - 9, "%E2%82%AC", 9);
        arena_done(&a);
        free(text);
}

static void test_timeout(void **state) {
        static const struct {
                const char *text;
                bool        is_fine;
                uint64_t    ns;
        } rows[] = {
                { "1n", true, 1 },
                { "5u", true, 5000 },
                { "100m", true, 100 * NS_PER_MS },
                { "20S", true, 20 * NS_PER_S },
                { "3M", true, 180 * NS_PER_S },
                { "2H", true, 7200 * NS_PER_S },
                { "0m", true, 0 },
                { "99999999H", true, CLOCK_NEVER },
                { "00000001S", true, NS_PER_S },
                { "", false, 0 },
                { "S", false, 0 },
                { "1", false, 0 },
                { "1s", false, 0 },
                { "-1S", false, 0 },
                { "+1S", false, 0 },
                { " 1S", false, 0 },
                { "1.5S", false, 0 },
                { "123456789S", false, 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                uint64_t ns = 7;

                assert_int_equal(grpc_timeout_decode(str_of(rows[i].text), &ns), rows[i].is_fine);
                if (rows[i].is_fine)
                        assert_int_equal(ns, rows[i].ns);
        }
}

static void test_encodings(void **state) {
        static const struct {
                enum grpc_compression_level level;
                const char                 *accepted;
                enum grpc_encoding          encoding;
        } rows[] = {
                { GRPC_COMPRESSION_NONE, "gzip,deflate", GRPC_ENCODING_IDENTITY },
                { GRPC_COMPRESSION_LOW, "identity, deflate, gzip", GRPC_ENCODING_GZIP },
                { GRPC_COMPRESSION_MEDIUM, "identity,deflate,gzip", GRPC_ENCODING_DEFLATE },
                { GRPC_COMPRESSION_HIGH, "gzip,deflate", GRPC_ENCODING_DEFLATE },
                { GRPC_COMPRESSION_HIGH, "gzip", GRPC_ENCODING_GZIP },
                { GRPC_COMPRESSION_LOW, "deflate", GRPC_ENCODING_DEFLATE },
                { GRPC_COMPRESSION_HIGH, "br, identity", GRPC_ENCODING_IDENTITY },
                { GRPC_COMPRESSION_HIGH, "", GRPC_ENCODING_IDENTITY },
        };
        enum grpc_compression_level level;
        enum grpc_encoding          encoding;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_int_equal(grpc_encoding_choose(rows[i].level, str_of(rows[i].accepted)),
                                 rows[i].encoding);
        assert_true(grpc_compression_level_find(STR_LIT("HIGH"), &level));
        assert_int_equal(level, GRPC_COMPRESSION_HIGH);
        assert_true(grpc_compression_level_find(STR_LIT("medium"), &level));
        assert_int_equal(level, GRPC_COMPRESSION_MEDIUM);
        assert_false(grpc_compression_level_find(STR_LIT("best"), &level));
        assert_true(grpc_encoding_find(STR_LIT("deflate"), &encoding));
        assert_int_equal(encoding, GRPC_ENCODING_DEFLATE);
        assert_false(grpc_encoding_find(STR_LIT("GZIP"), &encoding));
}

static void test_compress(void **state) {
        char         text[3000];
        struct iovec parts[2] = { { text, 1000 }, { text + 1000, 2000 } };
        struct buf  *packed, *plain;

        (void)state;
        memset(text, 'a', sizeof(text));
        text[2999] = 'z';
        for (int e = GRPC_ENCODING_DEFLATE; e < N_GRPC_ENCODINGS; e++) {
                assert_true(grpc_compress((enum grpc_encoding)e, parts, 2, NULL, &packed));
                assert_true(packed->len < 100);
                assert_int_equal(grpc_decompress(str_range(packed->bytes, packed->len), 3000, NULL,
                                                 &plain),
                                 GZIP_OK);
                assert_int_equal(plain->len, sizeof(text));
                assert_memory_equal(plain->bytes, text, sizeof(text));
                buf_unref(plain);
                assert_int_equal(grpc_decompress(str_range(packed->bytes, packed->len), 2999, NULL,
                                                 &plain),
                                 GZIP_TOO_LARGE);
                buf_unref(packed);
        }
        parts[0] = (struct iovec){ text, 3 }; /* would grow */
        assert_false(grpc_compress(GRPC_ENCODING_GZIP, parts, 1, NULL, &packed));
        assert_false(grpc_compress(GRPC_ENCODING_IDENTITY, parts + 1, 1, NULL, &packed));
}

SUITE(grpc_status) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_codes),        cmocka_unit_test(test_message),
                cmocka_unit_test(test_long_message), cmocka_unit_test(test_timeout),
                cmocka_unit_test(test_encodings),    cmocka_unit_test(test_compress),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
