/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter of a media type, and the length of the JSON part that stands in it. */
#include "suite.h"

#include "http/http_cloud.h"
#include "http/http_media_type.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPE "application/vnd.x+json"

struct row {
        const char *value;
        const char *found; /* NULL: nothing */
};

static const struct row rows[] = {
        { TYPE ";size=12", "12" },
        { TYPE "; size=12", "12" },
        { TYPE "\t;\tsize=12\t", "12" },
        { "Application/VND.X+JSON;Size=12", "12" },
        { TYPE ";charset=utf-8;size=12", "12" },
        { TYPE ";size=12;charset=utf-8", "12" },
        { TYPE ";size=\"12\"", "12" },
        { TYPE ";text=\"a;size=3\";size=12", "12" },
        { TYPE ";text=\"a\\\";size=3\";size=12", "12" },
        { TYPE ";size = 12", "12" },
        { TYPE ";size=", "" },
        { TYPE ";size=\"12", "\"12" },
        { TYPE ";size=1=2", "1=2" },
        { TYPE ";;size=12;", "12" },
        { TYPE ";size=12;size=12", "size=12;size=12" },
        { TYPE ";size=1;SIZE=2", "size=1;SIZE=2" },
        { TYPE ";text=\"a;size=3", NULL },
        { TYPE ";text=\"a\\", NULL },
        { TYPE ";siz=12", NULL },
        { TYPE ";size", NULL },
        { TYPE ";sizes=12", NULL },
        { TYPE ";=12", NULL },
        { TYPE ";", NULL },
        { TYPE, NULL },
        { "x" TYPE ";size=12", NULL },
        { TYPE "x;size=12", NULL },
        { "application/json;size=12", NULL },
        { ";size=12", NULL },
        { "", NULL },
};

/* In memory of exactly that size, so that a read beyond it is found. */
static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                size_t     len = strlen(rows[i].value);
                char      *exact = malloc(len + !len);
                struct str found;

                memcpy(exact, rows[i].value, len);
                found = http_media_type_find(str_range(exact, len), TYPE, "size");
                if ((found.ptr == NULL) != (rows[i].found == NULL) ||
                    (rows[i].found != NULL && !str_is(found, rows[i].found)))
                        fail_msg("'%s': found '%.*s'", rows[i].value, STR_ARG(found));
                free(exact);
        }
        assert_null(http_media_type_find(str_range(NULL, 0), TYPE, "size").ptr);
}

/* Every text of a few characters that matter, whatever it means, is read within its bounds. */
static void test_all_short_texts(void **state) {
        static const char signs[] = "; =\"\\s1";
        size_t            n_signs = sizeof(signs) - 1;

        (void)state;
        for (size_t n = 0; n < 7 * 7 * 7 * 7 * 7; n++) {
                size_t     rest = n;
                char      *exact = malloc(sizeof(TYPE) - 1 + 6);
                struct str found, all = { exact, sizeof(TYPE) - 1 + 6 };

                memcpy(exact, TYPE ";", sizeof(TYPE));
                for (int i = 0; i < 5; i++, rest /= n_signs)
                        exact[sizeof(TYPE) + (size_t)i] = signs[rest % n_signs];
                found = http_media_type_find(all, TYPE, "s");
                if (found.ptr != NULL)
                        assert_true(found.ptr >= exact && found.ptr + found.len <= exact + all.len);
                free(exact);
        }
}

static const struct cloud_front front = { .binary_type = SAGEMAKER_BINARY, .default_model = "" };

static void read(const char *value, size_t body_bytes, size_t expected) {
        size_t n = 77;

        assert_null(cloud_read_json_bytes(&front, str_of(value), body_bytes, &n));
        assert_int_equal(n, expected);
}

static void refuse(const char *size, const char *expected) {
        char          value[128];
        size_t        n = 77;
        struct error *err;

        snprintf(value, sizeof(value), SAGEMAKER_BINARY ";" CLOUD_JSON_SIZE "=%s", size);
        err = cloud_read_json_bytes(&front, str_of(value), 10, &n);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        assert_string_equal(err->message, expected);
        assert_int_equal(n, 77);
        error_free(err);
}

static void test_json_bytes(void **state) {
        (void)state;
        read(SAGEMAKER_BINARY ";json-header-size=5", 10, 5);
        read(SAGEMAKER_BINARY ";json-header-size=0", 10, 0);
        read(SAGEMAKER_BINARY ";json-header-size=10", 10, 10);
        read(SAGEMAKER_BINARY ";json-header-size=00000000000000000000000000005", 10, 5);
        read(SAGEMAKER_BINARY, 10, 10);
        read(VERTEX_AI_BINARY ";json-header-size=5", 10, 10);
        read("application/json", 10, 10);
        refuse("11", "inference header size should be in range (0, 10), got: 11");
        refuse("-1", "inference header size should be in range (0, 10), got: -1");
        refuse("", "inference header size should be in range (0, 10), got: ");
        refuse("5;json-header-size=5", "inference header size should be in range (0, 10), got: "
                                       "json-header-size=5;json-header-size=5");
        refuse("18446744073709551621", "inference header size should be in range (0, 10), got: "
                                       "18446744073709551621");
        assert_true(cloud_is_binary(&front, STR_LIT(SAGEMAKER_BINARY ";json-header-size=x")));
        assert_false(cloud_is_binary(&front, STR_LIT(SAGEMAKER_BINARY)));
        assert_false(cloud_is_binary(&front, str_range(NULL, 0)));
}

static void test_inference_types(void **state) {
        enum cloud_inference found = CLOUD_INFER;

        (void)state;
        assert_true(cloud_inference_find(STR_LIT("generate"), &found));
        assert_int_equal(found, CLOUD_GENERATE);
        assert_true(cloud_inference_find(STR_LIT("generate_stream"), &found));
        assert_int_equal(found, CLOUD_GENERATE_STREAM);
        assert_true(cloud_inference_find(STR_LIT("infer"), &found));
        assert_int_equal(found, CLOUD_INFER);
        assert_false(cloud_inference_find(STR_LIT("Infer"), &found));
        assert_false(cloud_inference_find(STR_LIT(""), &found));
}

SUITE(http_media_type) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_all_short_texts),
                cmocka_unit_test(test_json_bytes),
                cmocka_unit_test(test_inference_types),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
