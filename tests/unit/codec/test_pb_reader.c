/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "codec/pb_reader.h"
#include "grpc_service.pb-c.h"

#include <stdlib.h>

/* A reader over an exact copy on the heap, so that a sanitizer sees each byte too many. */
static char *start(struct pb_reader *r, const char *bytes, size_t len) {
        char *copy = malloc(len > 0 ? len : 1);

        assert_non_null(copy);
        memcpy(copy, bytes, len);
        pb_reader_init(r, copy, len);
        return copy;
}

#define START(r, literal) start((r), (literal), sizeof(literal) - 1)

static void test_varints(void **state) {
        static const struct {
                const char *bytes;
                size_t      len;
                uint64_t    value;
        } rows[] = {
                { "\x00", 1, 0 },
                { "\x01", 1, 1 },
                { "\x7f", 1, 127 },
                { "\x80\x01", 2, 128 },
                { "\xac\x02", 2, 300 },
                { "\x80\x00", 2, 0 }, /* longer than needed */
                { "\xff\xff\xff\xff\x0f", 5, UINT32_MAX },
                { "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9, INT64_MAX },
                { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX },
                { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, UINT64_MAX }, /* bits dropped */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_reader r;
                char            *copy = start(&r, rows[i].bytes, rows[i].len);

                assert_true(pb_read_varint(&r) == rows[i].value);
                assert_false(pb_failed(&r));
                assert_true(pb_at_end(&r));
                free(copy);
        }
}

static void test_bad_varints(void **state) {
        static const struct {
                const char *bytes;
                size_t      len;
        } rows[] = {
                { "", 0 },
                { "\x80", 1 },
                { "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9 },
                { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80\x00", 11 }, /* eleven bytes */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_reader r;
                char            *copy = start(&r, rows[i].bytes, rows[i].len);

                assert_true(pb_read_varint(&r) == 0);
                assert_true(pb_failed(&r));
                assert_true(pb_at_end(&r));
                free(copy);
        }
}

static void test_numbers(void **state) {
        struct pb_reader r;
        char            *copy;

        (void)state;
        copy = START(&r, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* -1 */
                         "\x01"                                     /* true */
                         "\x78\x56\x34\x12"
                         "\xf0\xde\xbc\x9a\x78\x56\x34\x12"
                         "\x00\x00\x00\x00\x00\x00\xf8\xbf");
        assert_true(pb_read_varint(&r) == UINT64_MAX);
        assert_true(pb_read_bool(&r));
        assert_int_equal(pb_read_fixed32(&r), 0x12345678);
        assert_true(pb_read_fixed64(&r) == UINT64_C(0x123456789abcdef0));
        assert_true(pb_read_f64(&r) == -1.5);
        assert_true(pb_at_end(&r));
        assert_false(pb_failed(&r));
        free(copy);
}

static void test_cut_numbers(void **state) {
        struct pb_reader r;
        char            *copy;

        (void)state;
        copy = START(&r, "\x01\x02\x03");
        assert_int_equal(pb_read_fixed32(&r), 0);
        assert_true(pb_failed(&r));
        free(copy);
        copy = START(&r, "\x01\x02\x03\x04\x05\x06\x07");
        assert_true(pb_read_fixed64(&r) == 0);
        assert_true(pb_failed(&r));
        free(copy);
}

static void test_bytes_and_text(void **state) {
        struct pb_reader r;
        struct str       s;
        char            *copy;

        (void)state;
        copy = START(&r, "\x03"
                         "abc"
                         "\x00"
                         "\x02\xc3\xa9");
        s = pb_read_bytes(&r);
        assert_true(str_is(s, "abc"));
        assert_ptr_equal(s.ptr, copy + 1);
        assert_int_equal(pb_read_text(&r).len, 0);
        assert_true(str_is(pb_read_text(&r), "\xc3\xa9"));
        assert_false(pb_failed(&r));
        assert_true(pb_at_end(&r));
        free(copy);

        copy = START(&r, "\x04"
                         "abc");
        assert_int_equal(pb_read_bytes(&r).len, 0);
        assert_true(pb_failed(&r));
        free(copy);

        copy = START(&r, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                         "abc");
        assert_int_equal(pb_read_bytes(&r).len, 0);
        assert_true(pb_failed(&r));
        free(copy);

        copy = START(&r, "\x01\xff");
        assert_int_equal(pb_read_text(&r).len, 0);
        assert_true(pb_failed(&r));
        free(copy);
}

static void test_tags(void **state) {
        static const struct {
                const char  *bytes;
                size_t       len;
                uint32_t     number;
                enum pb_wire wire;
        } rows[] = {
                { "\x08", 1, 1, PB_WIRE_VARINT },
                { "\x0b", 1, 1, PB_WIRE_GROUP },
                { "\x7a", 1, 15, PB_WIRE_BYTES },
                { "\x85\x01", 2, 16, PB_WIRE_FIXED32 },
                { "\xf9\xff\xff\xff\x0f", 5, (1u << 29) - 1, PB_WIRE_FIXED64 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_reader r;
                struct pb_tag    tag = { 0, PB_WIRE_VARINT };
                char            *copy = start(&r, rows[i].bytes, rows[i].len);

                assert_true(pb_next(&r, &tag));
                assert_int_equal(tag.number, rows[i].number);
                assert_int_equal(tag.wire, rows[i].wire);
                assert_false(pb_next(&r, &tag));
                assert_false(pb_failed(&r));
                free(copy);
        }
}

static void test_bad_tags(void **state) {
        static const struct {
                const char *bytes;
                size_t      len;
        } rows[] = {
                { "\x00", 1 },                 /* field 0 */
                { "\x07", 1 },                 /* field 0, wire type 7 */
                { "\x0e", 1 },                 /* wire type 6 */
                { "\x0f", 1 },                 /* wire type 7 */
                { "\x0c", 1 },                 /* the end of no group */
                { "\x80", 1 },                 /* cut */
                { "\x88\x80\x80\x80\x10", 5 }, /* 33 bits */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_reader r;
                struct pb_tag    tag;
                char            *copy = start(&r, rows[i].bytes, rows[i].len);

                assert_false(pb_next(&r, &tag));
                assert_true(pb_failed(&r));
                free(copy);
        }
}

/* Every kind of unknown field, then field 2 with 7 in it. */
static void test_skip(void **state) {
        static const struct {
                const char *bytes;
                size_t      len;
        } rows[] = {
                { "\x08\x96\x01\x10\x07", 5 },
                { "\x09"
                  "12345678"
                  "\x10\x07",
                  11 },
                { "\x0d"
                  "1234"
                  "\x10\x07",
                  7 },
                { "\x0a\x03"
                  "abc"
                  "\x10\x07",
                  7 },
                { "\x0b\x0c\x10\x07", 4 },
                { "\x0b\x08\x01\x0a\x01"
                  "x"
                  "\x0d"
                  "1234"
                  "\x0c\x10\x07",
                  14 },
                { "\x0b\x13\x1b\x1c\x14\x0c\x10\x07", 8 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_reader r;
                struct pb_tag    tag;
                char            *copy = start(&r, rows[i].bytes, rows[i].len);

                assert_true(pb_next(&r, &tag));
                assert_int_equal(tag.number, 1);
                pb_skip(&r, tag);
                assert_true(pb_next(&r, &tag));
                assert_int_equal(tag.number, 2);
                assert_int_equal(pb_read_varint(&r), 7);
                assert_false(pb_next(&r, &tag));
                assert_false(pb_failed(&r));
                free(copy);
        }
}

static void test_skip_of_what_is_cut_or_wrong(void **state) {
        static const struct {
                const char *bytes;
                size_t      len;
        } rows[] = {
                { "\x08", 1 },
                { "\x09"
                  "1234567",
                  8 },
                { "\x0d"
                  "123",
                  4 },
                { "\x0a\x04"
                  "abc",
                  5 },
                { "\x0b", 1 },
                { "\x0b\x14", 2 },
                { "\x0b\x13\x0c\x14", 4 },
                { "\x0b\x08", 2 },
                { "\x0b\x0f\x0c", 3 },
                { "\x0b\x00\x0c", 3 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_reader r;
                struct pb_tag    tag;
                char            *copy = start(&r, rows[i].bytes, rows[i].len);

                assert_true(pb_next(&r, &tag));
                pb_skip(&r, tag);
                assert_true(pb_failed(&r));
                assert_false(pb_next(&r, &tag));
                free(copy);
        }
}

static void test_groups_are_nested_to_a_limit(void **state) {
        char             bytes[2 * PB_MAX_GROUP_DEPTH + 2];
        struct pb_reader r;
        struct pb_tag    tag;

        (void)state;
        memset(bytes, 0x0b, PB_MAX_GROUP_DEPTH);
        memset(bytes + PB_MAX_GROUP_DEPTH, 0x0c, PB_MAX_GROUP_DEPTH);
        pb_reader_init(&r, bytes, 2 * PB_MAX_GROUP_DEPTH);
        assert_true(pb_next(&r, &tag));
        pb_skip(&r, tag);
        assert_false(pb_failed(&r));
        assert_true(pb_at_end(&r));

        memset(bytes, 0x0b, PB_MAX_GROUP_DEPTH + 1);
        memset(bytes + PB_MAX_GROUP_DEPTH + 1, 0x0c, PB_MAX_GROUP_DEPTH + 1);
        pb_reader_init(&r, bytes, sizeof(bytes));
        assert_true(pb_next(&r, &tag));
        pb_skip(&r, tag);
        assert_true(pb_failed(&r));
}

static void test_failures_stick(void **state) {
        struct pb_reader r, inner;
        struct pb_tag    tag;

        (void)state;
        pb_reader_init(&r, "\x05\x01\x02", 3);
        assert_int_equal(pb_read_bytes(&r).len, 0);
        assert_true(pb_failed(&r));
        assert_true(pb_read_varint(&r) == 0);
        assert_int_equal(pb_read_fixed32(&r), 0);
        inner = pb_read_message(&r);
        assert_true(pb_failed(&inner));
        assert_false(pb_next(&inner, &tag));
        assert_false(pb_next(&r, &tag));
}

static void test_nothing_is_an_empty_message(void **state) {
        struct pb_reader r;
        struct pb_tag    tag;

        (void)state;
        pb_reader_init(&r, NULL, 0);
        assert_false(pb_next(&r, &tag));
        assert_false(pb_failed(&r));
}

static int64_t sum_of_shape(struct pb_reader *r, struct pb_tag tag) {
        struct pb_reader packed;
        int64_t          sum = 0;

        if (tag.wire == PB_WIRE_VARINT)
                return (int64_t)pb_read_varint(r);
        packed = pb_read_message(r);
        while (!pb_at_end(&packed))
                sum += (int64_t)pb_read_varint(&packed);
        assert_false(pb_failed(&packed));
        return sum;
}

/* A request as protobuf-c writes it, read by hand. */
static void test_an_inference_request(void **state) {
        static int64_t                                 shape[] = { 2, -1, 300 };
        Inference__ModelInferRequest__InferInputTensor input =
                INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
        Inference__ModelInferRequest__InferInputTensor *inputs[] = { &input };
        Inference__ModelInferRequest request = INFERENCE__MODEL_INFER_REQUEST__INIT;
        ProtobufCBinaryData          raw = { 4, (uint8_t *)"\1\2\3\4" };
        uint8_t                      bytes[256];
        struct pb_reader             r;
        struct pb_tag                tag;
        int                          n_seen = 0;

        (void)state;
        input.name = (char *)"INPUT0";
        input.shape = shape;
        input.n_shape = 3;
        request.model_name = (char *)"simple";
        request.inputs = inputs;
        request.n_inputs = 1;
        request.raw_input_contents = &raw;
        request.n_raw_input_contents = 1;
        pb_reader_init(&r, bytes, inference__model_infer_request__pack(&request, bytes));

        while (pb_next(&r, &tag)) {
                struct pb_reader inner;

                n_seen++;
                if (tag.number == 1) {
                        assert_true(str_is(pb_read_text(&r), "simple"));
                } else if (tag.number == 7) {
                        assert_true(str_is(pb_read_bytes(&r), "\1\2\3\4"));
                } else {
                        assert_int_equal(tag.number, 5);
                        inner = pb_read_message(&r);
                        assert_true(pb_next(&inner, &tag));
                        assert_int_equal(tag.number, 1);
                        assert_true(str_is(pb_read_text(&inner), "INPUT0"));
                        assert_true(pb_next(&inner, &tag));
                        assert_int_equal(tag.number, 3);
                        assert_true(sum_of_shape(&inner, tag) == 301);
                        assert_false(pb_next(&inner, &tag));
                        assert_false(pb_failed(&inner));
                }
        }
        assert_int_equal(n_seen, 3);
        assert_false(pb_failed(&r));
}

SUITE(pb_reader) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_varints),
                cmocka_unit_test(test_bad_varints),
                cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_cut_numbers),
                cmocka_unit_test(test_bytes_and_text),
                cmocka_unit_test(test_tags),
                cmocka_unit_test(test_bad_tags),
                cmocka_unit_test(test_skip),
                cmocka_unit_test(test_skip_of_what_is_cut_or_wrong),
                cmocka_unit_test(test_groups_are_nested_to_a_limit),
                cmocka_unit_test(test_failures_stick),
                cmocka_unit_test(test_nothing_is_an_empty_message),
                cmocka_unit_test(test_an_inference_request),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
