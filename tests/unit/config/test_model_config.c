/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "codec/pb_text_review.h"
#include "config/model_config.h"
#include "config_rows.h"

static void test_new(void **state) {
        struct model_config *c = model_config_new();

        (void)state;
        assert_string_equal(c->pb->name, "");
        assert_int_equal(c->pb->max_batch_size, 0);
        assert_null(c->pb->version_policy);
        assert_false(model_config_is_ensemble(c));
        assert_false(model_config_is_decoupled(c));
        assert_false(model_config_has_response_cache(c));
        assert_null(model_config_find_parameter(c, "k"));
        assert_false(config_text_is_set(c->pb->name));
        assert_false(config_text_is_set(NULL));
        model_config_free(c);
        model_config_free(NULL);
}

static void test_questions(void **state) {
        struct model_config *c = config_of("ensemble_scheduling { } response_cache { enable: true }"
                                           " model_transaction_policy { decoupled: true }"
                                           " parameters { key: 'a' value { string_value: 'x' } }"
                                           " parameters { key: 'b' }");

        (void)state;
        assert_true(model_config_is_ensemble(c));
        assert_true(model_config_is_decoupled(c));
        assert_true(model_config_has_response_cache(c));
        assert_string_equal(model_config_find_parameter(c, "a"), "x");
        assert_string_equal(model_config_find_parameter(c, "b"), "");
        assert_null(model_config_find_parameter(c, "c"));
        model_config_free(c);
}

static void count_error(void *owner, struct error *err) {
        ++*(size_t *)owner;
        error_free(err);
}

/* What is right of a text with mistakes, also of one that has too many. */
static void test_read_all(void **state) {
        static const char     text[] = "nme: 'x' max_batch_size: 8 input { data_type: X dims: 2 }";
        char                  many[4096];
        struct model_config  *c = NULL;
        struct pb_text_review review;
        struct pb_place       place = { 0, 0 };
        size_t                n_errors = 0;

        (void)state;
        pb_text_review_init(&review, count_error, &n_errors);
        assert_null(model_config_read_all(&review, str_of(text), &c));
        assert_int_equal(n_errors, 2);
        assert_int_equal(c->pb->max_batch_size, 8);
        assert_int_equal(c->pb->input[0]->dims[0], 2);
        assert_true(pb_text_review_find(&review, "input[0].dims", &place));
        assert_int_equal(place.column, 49);
        model_config_free(c);
        pb_text_review_done(&review);

        for (size_t i = 0; i < sizeof(many); i += 8)
                memcpy(&many[i], "foo: 1 \n", 8);
        pb_text_review_init(&review, count_error, &n_errors);
        assert_null(model_config_read_all(&review, str_range(many, sizeof(many)), &c));
        assert_non_null(c);
        assert_true(review.is_cut);
        assert_int_equal(n_errors, 2 + PB_REVIEW_MAX_ERRORS);
        model_config_free(c);
        pb_text_review_done(&review);
}

static void test_version(void **state) {
        static const struct {
                uint32_t    version;
                const char *message;
        } rows[] = {
                { 0, "model configuration version 0 not supported, supported versions are: 1" },
                { 2, "model configuration version 2 not supported, supported versions are: 1" },
                { UINT32_MAX, "model configuration version 4294967295 not supported, supported "
                              "versions are: 1" },
        };
        struct model_config *c = model_config_new();
        struct strbuf        json;

        (void)state;
        strbuf_init(&json, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_outcome(model_config_print_json(c, rows[i].version, &json), ERR_INVALID_ARG,
                               rows[i].message, "");
        assert_int_equal(json.len, 0);
        strbuf_done(&json);
        model_config_free(c);
}

static void test_overflow(void **state) {
        struct model_config *c = config_of("name: 'm'");
        struct strbuf        json;
        struct error        *err;

        (void)state;
        strbuf_init(&json, 20);
        assert_outcome(model_config_print_json(c, 1, &json), ERR_INTERNAL,
                       "model configuration of 'm' is too large to print", "");
        strbuf_done(&json);
        strbuf_init(&json, 0);
        mem_fail_after(1);
        err = model_config_print_json(c, 1, &json);
        mem_fail_after(0);
        assert_outcome(err, ERR_INTERNAL, "out of memory", ""); /* nor for the error's text */
        strbuf_done(&json);
        model_config_free(c);
}

static char *repeat(const char *before, const char *text, const char *after, size_t n) {
        struct strbuf all;

        strbuf_init(&all, 0);
        strbuf_puts(&all, before);
        for (size_t i = 0; i < n; i++)
                strbuf_puts(&all, text);
        strbuf_puts(&all, after);
        return strbuf_take(&all);
}

/* A text may take some memory, and then only a few times its size: empty messages are all overhead. */
static void test_empty_messages(void **state) {
        struct model_config *c = NULL;
        struct error        *err;
        char                *text;

        (void)state;
        text = repeat("{\"input\":[{}", ",{}", "]}", 100000);
        err = model_config_read_json(str_of(text), &c);
        assert_outcome(err, ERR_INVALID_ARG,
                       "model configuration is too large: its text of 300014 bytes takes more than "
                       "2248624 bytes of memory",
                       "empty inputs");
        free(text);
        text = repeat("input [{}", ",{}", "]", 100000);
        err = model_config_read_text(str_of(text), "p", &c);
        assert_outcome(err, ERR_INVALID_ARG,
                       "model configuration is too large: its text of 300010 bytes takes more than "
                       "2248608 bytes of memory",
                       "empty inputs in the text form");
        free(text);
        text = repeat("{\"input\":[{}", ",{}", "]}", 2000);
        assert_null(model_config_read_json(str_of(text), &c));
        assert_int_equal(c->pb->n_input, 2001);
        model_config_free(c);
        free(text);
        text = repeat("{\"parameters\":{\"k\":{\"string_value\":\"v\"}",
                      ",\"key-of-some-bytes\":{\"string_value\":\"v\"}", "}}", 5000);
        assert_null(model_config_read_json(str_of(text), &c));
        model_config_free(c);
        free(text);
}

static void test_bad_text(void **state) {
        static const char    text[] = "name: 'm'\nmax_batch_siz: 4\n";
        struct model_config *c = NULL;
        struct error        *err = model_config_read_text(str_of(text), "d/config.pbtxt", &c);

        (void)state;
        assert_non_null(err);
        assert_null(c);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        /* file, line and column, the field, and the one that was meant */
        assert_int_equal(strncmp(err->message, "d/config.pbtxt:2:1: ", 20), 0);
        assert_non_null(strstr(err->message, "max_batch_siz"));
        assert_non_null(strstr(err->message, "max_batch_size"));
        error_free(err);
}

static void test_bad_json(void **state) {
        static const char *const rows[] = {
                "",
                "[]",
                "{",
                "{\"nam\":\"m\"}",
                "{\"max_batch_size\":\"x\"}",
                "{\"input\":[{\"data_type\":\"TYPE_FP31\"}]}",
                "{\"name\":\"m\"} x",
                "{\"max_batch_size\":2147483648}",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct model_config *c = NULL;
                struct error        *err = model_config_read_json(str_of(rows[i]), &c);

                if (err == NULL)
                        fail_msg("accepted: %s", rows[i]);
                assert_null(c);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                error_free(err);
        }
}

/* What clients send as an override: camelCase, enums in any case, numbers as strings. */
static void test_lenient_json(void **state) {
        static const char    json[] = "{\"maxBatchSize\":\"8\",\"input\":[{\"name\":\"I\","
                                      "\"dataType\":\"type_fp32\",\"dims\":[\"-1\",4]}],"
                                      "\"dynamicBatching\":{\"max_queue_delay_microseconds\":"
                                      "\"100\"},\"versionPolicy\":null}";
        struct model_config *c = NULL;
        struct model_config *expected =
                config_of("max_batch_size: 8 input { name: 'I' data_type: TYPE_FP32 dims: [-1, 4] }"
                          " dynamic_batching { max_queue_delay_microseconds: 100 }");

        (void)state;
        assert_null(model_config_read_json(str_of(json), &c));
        assert_same_config(c, expected, json);
        model_config_free(c);
        model_config_free(expected);
}

static void test_too_long(void **state) {
        size_t               len = MODEL_CONFIG_TEXT_MAX_BYTES + 1;
        char                *text = mem_alloc(len);
        struct model_config *c = NULL;

        (void)state;
        memset(text, ' ', len);
        assert_outcome(model_config_read_text(str_range(text, len), "f", &c), ERR_INVALID_ARG,
                       "model configuration has 16777217 bytes, more than 16777216", "blanks");
        assert_outcome(model_config_read_json(str_range(text, len), &c), ERR_INVALID_ARG,
                       "model configuration has 16777217 bytes, more than 16777216", "blanks");
        assert_null(c);
        assert_null(model_config_read_text(str_range(text, len - 1), "f", &c));
        model_config_free(c);
        free(text);
}

/* Each failing allocation is an error that leaks nothing; ASan watches. */
static void test_memory_short(void **state) {
        static const char    text[] = "name: 'm' input { name: 'I' dims: [1, 2] }"
                                      " parameters { key: 'a' value { string_value: 'x' } }";
        struct model_config *copy;
        struct model_config *c;
        struct error        *err;
        unsigned             n = 0;

        (void)state;
        do {
                c = copy = NULL;
                mem_fail_after(++n);
                err = model_config_read_text(str_of(text), "f", &c);
                if (err == NULL)
                        err = model_config_copy(c, &copy);
                mem_fail_after(0);
                assert_int_equal(err == NULL, copy != NULL);
                error_free(err);
                if (copy == NULL)
                        model_config_free(c);
        } while (copy == NULL);
        assert_true(n > 2);
        assert_same_config(copy, c, text);
        model_config_free(c);
        model_config_free(copy);
}

/* An empty name of a file is not the same as no data. */
static void test_copy_keeps_empty_members(void **state) {
        static const char *const texts[] = {
                "model_warmup { inputs { key: 'I' value { input_data_file: '' } } }",
                "model_warmup { inputs { key: 'I' value { zero_data: false } } }",
                "sequence_batching { state { initial_state { data_file: '' } } }",
                "sequence_batching { state { initial_state { zero_data: false } } }",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct model_config *c = config_of(texts[i]), *copy = NULL;

                assert_null(model_config_copy(c, &copy));
                assert_same_config(copy, c, texts[i]);
                model_config_free(copy);
                model_config_free(c);
        }
}

SUITE(model_config) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_copy_keeps_empty_members),
                cmocka_unit_test(test_new),
                cmocka_unit_test(test_questions),
                cmocka_unit_test(test_version),
                cmocka_unit_test(test_read_all),
                cmocka_unit_test(test_overflow),
                cmocka_unit_test(test_bad_text),
                cmocka_unit_test(test_bad_json),
                cmocka_unit_test(test_lenient_json),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_memory_short),
                cmocka_unit_test(test_empty_messages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
