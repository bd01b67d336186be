/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "http/http_handlers.h"
#include "shm/shm_region.h"

#include <string.h>

static void test_bodies(void **state) {
        static const struct row {
                const char *body;
                const char *key;
                uint64_t    offset, byte_size;
        } rows[] = {
                { "{\"key\":\"/k\",\"byte_size\":64}", "/k", 0, 64 },
                { "{\"byte_size\":64,\"offset\":4096,\"key\":\"/k\"}", "/k", 4096, 64 },
                { " {\"x\":{\"key\":1},\"key\":\"a\\u0062\\\"\",\"byte_size\":0} ", "ab\"", 0, 0 },
                { "{\"key\":\"\",\"byte_size\":18446744073709551615,"
                  "\"offset\":18446744073709551615}",
                  "", UINT64_MAX, UINT64_MAX },
                { "{\"key\":\"1\",\"key\":\"2\",\"byte_size\":1,\"byte_size\":\"x\"}", "1", 0, 1 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct shm_place place = { .name = "r" };
                struct arena     arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(http_shm_decode(str_of(rows[i].body), &arena, &place));
                assert_string_equal(place.key, rows[i].key);
                assert_int_equal(place.offset, rows[i].offset);
                assert_int_equal(place.byte_size, rows[i].byte_size);
                assert_string_equal(place.name, "r");
                arena_done(&arena);
        }
}

static void test_faults(void **state) {
#define NO_KEY "Shared memory register request has no 'key' field"
#define NO_SIZE "Shared memory register request has no 'byte_size' field"
#define PARSE(what, type) "Unable to parse '" what "': attempt to access JSON non-" type " as " type
        static const struct row {
                const char *body;
                const char *text;
        } rows[] = {
                { "{}", NO_KEY },
                { "3", NO_KEY },
                { "[]", NO_KEY },
                { "null", NO_KEY },
                { "{\"byte_size\":\"x\",\"offset\":-1}", NO_KEY },
                { "{\"key\":\"/k\"}", NO_SIZE },
                { "{\"key\":3,\"offset\":-1}", PARSE("key", "string") },
                { "{\"key\":null,\"byte_size\":1}", PARSE("key", "string") },
                { "{\"key\":\"a\\u0000b\",\"byte_size\":1}",
                  "Unable to parse 'key': the text contains a NUL character" },
                { "{\"key\":\"/k\",\"offset\":-1}", PARSE("offset", "unsigned-integer") },
                { "{\"key\":\"/k\",\"offset\":\"1\"}", PARSE("offset", "unsigned-integer") },
                { "{\"key\":\"/k\",\"byte_size\":1.5}", PARSE("byte_size", "unsigned-integer") },
                { "{\"key\":\"/k\",\"byte_size\":18446744073709551616}",
                  PARSE("byte_size", "unsigned-integer") },
                { "{\"key\":\"/k\",\"byte_size\":[1]}", PARSE("byte_size", "unsigned-integer") },
                { "", "failed to parse the request JSON buffer: The document is empty. at 0" },
                { "{\"key\":3",
                  "failed to parse the request JSON buffer: Missing a comma or } after an object "
                  "member. at 8" },
                { "{\"key\":\"/k\",\"byte_size\":1}x",
                  "failed to parse the request JSON buffer: The document root must not be followed "
                  "by other values. at 26" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct shm_place place = { .key = "before" };
                struct arena     arena;
                struct error    *err;

                arena_init(&arena, NULL, 0, 0);
                err = http_shm_decode(str_of(rows[i].body), &arena, &place);
                assert_non_null(err);
                assert_string_equal(err->message, rows[i].text);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(place.key, "before");
                error_free(err);
                arena_done(&arena);
        }
}

static void test_without_memory(void **state) {
        struct shm_place place;
        struct arena     arena;
        struct error    *err;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        mem_fail_after(1);
        err = http_shm_decode(STR_LIT("{\"key\":\"/k\",\"byte_size\":1}"), &arena, &place);
        mem_fail_after(0);
        assert_non_null(err);
        assert_int_equal(strncmp(err->message, "out of memory", 13), 0);
        error_free(err);
        arena_done(&arena);
}

/* ---- CUDA regions ---- */

/* 64 bytes: 0 to 63. */
#define B64                                                                                        \
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
#define HANDLE "\"raw_handle\":{\"b64\":\"" B64 "\"}"

static void test_cuda_bodies(void **state) {
        static const struct row {
                const char *body;
                size_t      n; /* bytes of the handle */
                int64_t     device;
                uint64_t    byte_size;
        } rows[] = {
                { "{" HANDLE ",\"device_id\":1,\"byte_size\":64}", 64, 1, 64 },
                { "{\"byte_size\":18446744073709551615,\"device_id\":9223372036854775807," HANDLE
                  ",\"key\":3,\"x\":null}",
                  64, INT64_MAX, UINT64_MAX },
                { "{\"raw_handle\":{\"x\":1,\"b64\":\"AAEC\",\"b64\":2},\"raw_handle\":4,"
                  "\"device_id\":0,\"byte_size\":0}",
                  3, 0, 0 },
                /* Encoders of clients break lines. */
                { "{\"raw_handle\":{\"b64\":\"AA\\nEC\\n\"},\"device_id\":0,\"byte_size\":0}", 3, 0,
                  0 },
                { "{\"raw_handle\":{\"b64\":\"\"},\"device_id\":0,\"byte_size\":0}", 0, 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct cuda_place place = { .name = "r" };
                struct arena      arena;

                arena_init(&arena, NULL, 0, 0);
                assert_null(http_shm_decode_cuda(str_of(rows[i].body), &arena, &place));
                assert_int_equal(place.handle.len, rows[i].n);
                for (size_t k = 0; k < rows[i].n; k++)
                        assert_int_equal(place.handle.ptr[k], k);
                assert_int_equal(place.device, rows[i].device);
                assert_int_equal(place.byte_size, rows[i].byte_size);
                assert_string_equal(place.name, "r");
                arena_done(&arena);
        }
}

static void test_cuda_faults(void **state) {
#define NO(member) "Shared memory register request has no '" member "' field"
        static const struct row {
                const char *body;
                const char *text;
        } rows[] = {
                { "{}", NO("raw_handle") },
                { "[1]", NO("raw_handle") },
                { "{\"key\":\"/k\",\"byte_size\":1}", NO("raw_handle") },
                { "{" HANDLE "}", NO("device_id") },
                { "{" HANDLE ",\"byte_size\":-1}", NO("device_id") },
                { "{" HANDLE ",\"device_id\":0}", NO_SIZE },
                { "{\"raw_handle\":\"" B64 "\",\"device_id\":0,\"byte_size\":1}",
                  PARSE("raw_handle", "object") },
                { "{\"raw_handle\":{},\"device_id\":0,\"byte_size\":1}",
                  "Unable to parse 'b64': attempt to access non-existing object member 'b64'" },
                { "{\"raw_handle\":{\"b64\":7},\"device_id\":0,\"byte_size\":1}",
                  PARSE("b64", "string") },
                { "{" HANDLE ",\"device_id\":-1,\"byte_size\":1}",
                  PARSE("device_id", "unsigned-integer") },
                { "{" HANDLE ",\"device_id\":\"0\",\"byte_size\":1}",
                  PARSE("device_id", "unsigned-integer") },
                { "{" HANDLE ",\"device_id\":9223372036854775808,\"byte_size\":1}",
                  "Unable to parse 'device_id': 9223372036854775808 is no number of a device" },
                { "{" HANDLE ",\"device_id\":0,\"byte_size\":-1}",
                  PARSE("byte_size", "unsigned-integer") },
                { "{" HANDLE,
                  "failed to parse the request JSON buffer: Missing a comma or } after an object "
                  "member. at 112" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct cuda_place place = { .device = 77 };
                struct arena      arena;
                struct error     *err;

                arena_init(&arena, NULL, 0, 0);
                err = http_shm_decode_cuda(str_of(rows[i].body), &arena, &place);
                assert_non_null(err);
                assert_string_equal(err->message, rows[i].text);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_int_equal(place.device, 77);
                error_free(err);
                arena_done(&arena);
        }
}

static void test_long_handle(void **state) {
        struct cuda_place place;
        struct arena      arena;
        struct error     *err;
        AUTO_CHARS        text = mem_zalloc(1026);

        (void)state;
        memset(text, 'A', 1025);
        for (size_t n = 1024; n <= 1025; n++) {
                AUTO_CHARS body = mem_printf("{\"raw_handle\":{\"b64\":\"%.*s\"},\"device_id\":0,"
                                             "\"byte_size\":1}",
                                             (int)n, text);

                arena_init(&arena, NULL, 0, 0);
                err = http_shm_decode_cuda(str_of(body), &arena, &place);
                if (n == 1024) {
                        assert_null(err);
                        assert_int_equal(place.handle.len, 768);
                } else {
                        assert_non_null(err);
                        assert_string_equal(err->message,
                                            "Unable to parse 'b64': it has 1025 characters, at "
                                            "most 1024 are allowed");
                }
                error_free(err);
                arena_done(&arena);
        }
}

SUITE(http_shm_decode) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bodies),         cmocka_unit_test(test_faults),
                cmocka_unit_test(test_without_memory), cmocka_unit_test(test_cuda_bodies),
                cmocka_unit_test(test_cuda_faults),    cmocka_unit_test(test_long_handle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
