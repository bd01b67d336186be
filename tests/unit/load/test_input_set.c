/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs from JSON, and made ones. */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/compiler.h"
#include "base/strbuf.h"
#include "codec/data_types.h"
#include "load/input_json.h"
#include "load/input_set.h"
#include "load/input_set_private.h"

#include <stdio.h>
#include <string.h>

static const char metadata[] =
        "{\"name\":\"m\",\"versions\":[\"1\",\"3\"],\"inputs\":["
        "{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[-1,2]},"
        "{\"name\":\"T\",\"datatype\":\"BYTES\",\"shape\":[-1,-1]},"
        "{\"name\":\"H\",\"datatype\":\"FP16\",\"shape\":[-1,1]},"
        "{\"name\":\"F\",\"datatype\":\"FP32\",\"shape\":[-1,-1]}],"
        "\"outputs\":[{\"name\":\"O\",\"datatype\":\"INT32\",\"shape\":[-1,2]}]}";
static const char config[] =
        "{\"max_batch_size\":4,\"input\":[{\"name\":\"A\"},{\"name\":\"T\"},"
        "{\"name\":\"H\",\"optional\":true},{\"name\":\"F\",\"optional\":true}]}";

static void read_model(struct load_model *m) {
        assert_null(load_model_read("m", NULL, str_of(metadata), str_of(config), m));
}

static void test_model(void **state) {
        struct load_model m;

        (void)state;
        read_model(&m);
        assert_int_equal(m.max_batch, 4);
        assert_int_equal(m.n_inputs, 4);
        assert_string_equal(m.found_version, "3");
        assert_int_equal(m.inputs[0].shape.n, 1);
        assert_int_equal(m.inputs[0].shape.dims[0], 2);
        assert_int_equal(m.inputs[1].element_bytes, 0);
        assert_true(m.inputs[2].is_optional);
        assert_false(m.is_sequence);
        load_model_done(&m);
}

/* clang-format off */
#define ROW(name, value, config_name, bytes, json) { #name, bytes },
static const struct {
        const char *name;
        size_t      bytes;
} types[] = {
        DATA_TYPES(ROW)
};
/* clang-format on */

static void test_types(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
                struct load_model m;
                char              text[128];

                (void)snprintf(text, sizeof(text),
                               "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"%s\",\"shape\":[1]}]}",
                               types[i].name);
                assert_null(load_model_read("m", NULL, str_of(text), STR_LIT("{}"), &m));
                assert_string_equal(m.inputs[0].datatype, types[i].name);
                assert_int_equal(m.inputs[0].element_bytes, types[i].bytes);
                load_model_done(&m);
        }
}

static const struct row {
        const char *json;
        const char *
                expected; /* bytes of A in hex, the shape of T, the number of its bytes; or the error */
} rows[] = {
        { "{\"data\":[{\"A\":[1,-2],\"T\":[\"ab\",\"c\"]}]}", "01000000feffffff T[2] 11;" },
        { "{\"data\":[{\"A\":[[1],[258]],\"T\":{\"content\":[\"x\"],\"shape\":[1]}}]}",
          "0100000002010000 T[1] 5;" },
        { "{\"data\":[{\"A\":{\"b64\":\"AQAAAAIAAAA=\"},\"T\":{\"b64\":\"AQAAAHg=\"},\"H\":[1.5]}]"
          "}",
          "0100000002000000 T[1] 5;" },
        { "{\"data\":[[{\"A\":[1,2],\"T\":[]},{\"A\":[3,4],\"T\":[]}]]}",
          "0100000002000000 T[0] 0;0300000004000000 T[0] 0;" },
        { "{\"data\":[{\"A\":[2147483647,-2147483648.0],\"T\":[]}]}", "ffffff7f00000080 T[0] 0;" },
        { "{\"data\":[{\"A\":[1,2147483648],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[-2147483649,1],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[1e30,1],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[1,2]}]}", "data[0].T: the entry has no such member" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[]},{\"A\":[1],\"T\":[]}]}",
          "data[1].A: 'A' has 1 elements, its shape has 2" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[],\"B\":[1]}]}",
          "data[0].B: model 'm' has no such input" },
        { "{\"data\":[[{\"A\":[1,\"x\"],\"T\":[]}]]}",
          "data[0][0].A: a value of INT32 must be a number" },
        { "{\"data\":[{\"A\":[2147483647,-2147483648],\"T\":[]},{\"A\":[1.0,-2e1],\"T\":[]}]}",
          "ffffff7f00000080 T[0] 0;01000000ecffffff T[0] 0;" },
        { "{\"data\":[{\"A\":[1,2147483648],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[-2147483649,1],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[1,2.5],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[1,1e300],\"T\":[]}]}",
          "data[0].A: a value of INT32 must be an integer that it holds" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[],\"H\":[65519]}]}", "0100000002000000 T[0] 0;" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[],\"H\":[65520]}]}",
          "data[0].H: a value of FP16 must be a number that it holds" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[],\"H\":[-1e39]}]}",
          "data[0].H: a value of FP16 must be a number that it holds" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[],\"F\":[3.4e38,3.5e38]}]}",
          "data[0].F: a value of FP32 must be a number that it holds" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[],\"F\":[Infinity]}]}", "0100000002000000 T[0] 0;" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[3]}]}", "data[0].T: a value of BYTES must be a string" },
        { "{\"data\":[{\"A\":{\"b64\":\"???\"},\"T\":[]}]}", "data[0].A: b64 is no base64" },
        { "{\"data\":[{\"A\":{\"b64\":\"AQAA\"},\"T\":[]}]}",
          "data[0].A: 'A': its bytes end within an element of INT32" },
        { "{\"data\":[7]}", "data[0] is neither an object nor an array" },
        { "{\"dat\":[]}", "it has no array 'data'" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[]}],\"validation_data\":[{\"P\":[1,2]}]}",
          "validation_data[0].P: model 'm' has no such output" },
        { "{\"data\":[{\"A\":[1,2],\"T\":[]}],\"validation_data\":[{},{}]}",
          "validation_data[1]: there is no such entry of the data" },
};

static void print(const struct input_set *s, struct strbuf *out) {
        for (size_t i = 0; i < s->n_entries; i++) {
                const struct input_values *a = &s->entries[i].inputs[0],
                                          *t = &s->entries[i].inputs[1];

                for (size_t k = 0; k < a->bytes.len; k++)
                        strbuf_printf(out, "%02x", (unsigned char)a->bytes.ptr[k]);
                strbuf_printf(out, " T[%lld] %zu;", (long long)t->shape.dims[0], t->bytes.len);
        }
}

static void read_row(const struct load_model *m, const char *json, struct strbuf *out) {
        struct input_set  s = { 0 };
        struct load_shape shapes[4];
        AUTO_ERROR        err = NULL;

        for (size_t i = 0; i < 4; i++)
                shapes[i] = m->inputs[i].shape;
        arena_init(&s.arena, NULL, 0, INPUT_SET_MAX_BYTES);
        err = input_json_read(&s, m, shapes, str_of(json));
        if (err != NULL)
                strbuf_puts(out, err->message);
        else
                print(&s, out);
        input_set_done(&s);
}

static void test_json(void **state) {
        struct load_model m;

        (void)state;
        read_model(&m);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF out = { 0 };

                strbuf_init(&out, 0);
                read_row(&m, rows[i].json, &out);
                if (strcmp(strbuf_cstr(&out), rows[i].expected) != 0)
                        fail_msg("row %zu: '%s'", i, strbuf_cstr(&out));
        }
        load_model_done(&m);
}

/* As decimals and with exponents; no digit is rounded. */
static void test_wide_integers(void **state) {
        static const char type[] =
                "{\"name\":\"m\",\"inputs\":[{\"name\":\"A\",\"datatype\":\"%s\","
                "\"shape\":[1]}],\"outputs\":[]}";
        static const struct {
                const char *datatype, *value;
                uint64_t    expected;
                bool        is_right;
        } integers[] = {
                { "INT64", "1e18", 1000000000000000000, true },
                { "INT64", "-1E+18", (uint64_t)-1000000000000000000, true },
                { "INT64", "9.223372036854775807e18", INT64_MAX, true },
                { "INT64", "9007199254740993.0", 9007199254740993, true },
                { "INT64", "-9223372036854775808.0", (uint64_t)INT64_MIN, true },
                { "INT64", "100000e-5", 1, true },
                { "INT64", "-0.0", 0, true },
                { "INT64", "0e999", 0, true },
                { "INT64", "7.0000000000000000000000000", 7, true },
                { "UINT64", "1.8e19", 18000000000000000000U, true },
                { "INT64", "1e19", 0, false },
                { "UINT64", "1e20", 0, false },
                { "UINT64", "-1e0", 0, false },
                { "INT64", "-9223372036854775809", 0, false },
                { "INT64", "1e-1", 0, false },
                { "INT64", "9007199254740993.5", 0, false },
                { "INT64", "NaN", 0, false },
                { "INT64", "Infinity", 0, false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(integers); i++) {
                struct input_set  s = { 0 };
                struct load_model m;
                char              text[256];
                struct error     *err;

                (void)snprintf(text, sizeof(text), type, integers[i].datatype);
                assert_null(load_model_read("m", NULL, str_of(text), STR_LIT("{}"), &m));
                (void)snprintf(text, sizeof(text), "{\"data\":[{\"A\":[%s]}]}", integers[i].value);
                arena_init(&s.arena, NULL, 0, INPUT_SET_MAX_BYTES);
                err = input_json_read(&s, &m, &m.inputs[0].shape, str_of(text));
                if ((err == NULL) != integers[i].is_right)
                        fail_msg("%s %s", integers[i].datatype, integers[i].value);
                if (err == NULL)
                        assert_memory_equal(s.entries[0].inputs[0].bytes.ptr, &integers[i].expected,
                                            sizeof(uint64_t));
                error_free(err);
                input_set_done(&s);
                load_model_done(&m);
        }
}

/* Entries of sequences keep their streams, and expected outputs their entries. */
static void test_streams(void **state) {
        static const char json[] = "{\"data\":[[{\"A\":[1,2],\"T\":[]},{\"A\":[3,4],\"T\":[]}],"
                                   "[{\"A\":[5,6],\"T\":[]}]],"
                                   "\"validation_data\":[[{\"O\":[1,2]},{}],[{\"O\":[5,6]}]]}";
        struct load_model m;
        struct input_set  s = { 0 };
        struct load_shape shapes[4];

        (void)state;
        read_model(&m);
        for (size_t i = 0; i < 4; i++)
                shapes[i] = m.inputs[i].shape;
        arena_init(&s.arena, NULL, 0, INPUT_SET_MAX_BYTES);
        assert_null(input_json_read(&s, &m, shapes, str_of(json)));
        assert_int_equal(s.n_streams, 2);
        assert_int_equal(s.streams[0].n, 2);
        assert_int_equal(s.streams[1].first, 2);
        assert_true(s.has_validation);
        assert_null(s.entries[1].outputs[0].bytes.ptr);
        assert_memory_equal(s.entries[2].outputs[0].bytes.ptr, "\x05\0\0\0\x06\0\0\0", 8);
        input_set_done(&s);
        load_model_done(&m);
}

static void test_made(void **state) {
        char                *shapes[] = { "T:3" }, *zero[] = { "zero" };
        struct input_options o = {
                .shapes = shapes, .n_shapes = 1, .string_length = 10, .n_distinct = 5, .seed = 1
        };
        struct load_model m;
        struct input_set  s;

        (void)state;
        read_model(&m);
        assert_null(input_set_make(&m, &o, &s));
        assert_int_equal(s.n_entries, 5);
        assert_int_equal(s.entries[0].inputs[1].bytes.len, 3 * (4 + 10));
        assert_false(str_equal(s.entries[0].inputs[1].bytes, s.entries[1].inputs[1].bytes));
        assert_null(s.entries[0].inputs[2].bytes.ptr); /* optional */
        input_set_done(&s);
        o.sources = zero;
        o.n_sources = 1;
        assert_null(input_set_make(&m, &o, &s));
        assert_int_equal(s.n_entries, 1);
        assert_memory_equal(s.entries[0].inputs[0].bytes.ptr, "\0\0\0\0\0\0\0\0", 8);
        input_set_done(&s);
        load_model_done(&m);
}

/* Each line of a file is an element of BYTES; an empty file has none. */
static void test_lines_of_files(void **state) {
        static const struct {
                const char *text, *shape;
                size_t      n_bytes;
        } files[] = { { "", "T:0", 0 },     { "\n", "T:1", 4 },      { "ab", "T:1", 6 },
                      { "ab\n", "T:1", 6 }, { "ab\n\n", "T:2", 10 }, { "\nab", "T:2", 10 } };
        struct temp_tree  tree = temp_tree_make();
        struct load_model m;

        (void)state;
        read_model(&m);
        temp_tree_write(&tree, "A", "12345678");
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                char                *shapes[] = { (char *)(uintptr_t)files[i].shape };
                char                *sources[] = { tree.path };
                struct input_options o = {
                        .shapes = shapes, .n_shapes = 1, .sources = sources, .n_sources = 1
                };
                struct input_set s;

                temp_tree_write(&tree, "T", files[i].text);
                assert_null(input_set_make(&m, &o, &s));
                assert_int_equal(s.entries[0].inputs[1].bytes.len, files[i].n_bytes);
                input_set_done(&s);
        }
        load_model_done(&m);
        temp_tree_remove(&tree);
}

/* What does not fit is an error, and not a file with fewer lines. */
static void test_too_many_lines(void **state) {
        struct input_set s = { 0 };
        struct str       lines;
        struct error    *err;

        (void)state;
        arena_init(&s.arena, NULL, 0, INPUT_SET_MAX_BYTES);
        assert_null(input_lines_read(&s, STR_LIT("a\nb\nc\n"), 15, &lines));
        assert_int_equal(lines.len, 15);
        err = input_lines_read(&s, STR_LIT("a\nb\nc\nd\n"), 15, &lines);
        assert_non_null(err);
        assert_non_null(strstr(err->message, "the inputs have more than 1024 MiB"));
        error_free(err);
        input_set_done(&s);
}

static void test_wrong_shapes(void **state) {
        static const struct {
                const char *shape, *message;
        } wrong[] = {
                { NULL, "input 'T' has a variable shape: --shape T:d,d,..." },
                { "T", "--shape T: expected NAME:d,d,..." },
                { "X:1", "--shape X:1: model 'm' has no input 'X'" },
                { "A:3", "--shape A:3: it does not fit the model's dimensions" },
                { "T:1,2", "--shape T:1,2: it does not fit the model's dimensions" },
                { "T:x", "--shape T:x: 'x' is not a shape such as 3,224,224" },
        };
        struct load_model m;

        (void)state;
        read_model(&m);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                char                *shapes[] = { (char *)(uintptr_t)wrong[i].shape };
                struct input_options o = { .shapes = shapes,
                                           .n_shapes = wrong[i].shape != NULL,
                                           .n_distinct = 1 };
                struct input_set     s;
                AUTO_ERROR           err = input_set_make(&m, &o, &s);

                assert_non_null(err);
                assert_string_equal(err->message, wrong[i].message);
        }
        load_model_done(&m);
}

SUITE(input_set) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_model),          cmocka_unit_test(test_types),
                cmocka_unit_test(test_json),           cmocka_unit_test(test_wide_integers),
                cmocka_unit_test(test_streams),        cmocka_unit_test(test_made),
                cmocka_unit_test(test_lines_of_files), cmocka_unit_test(test_too_many_lines),
                cmocka_unit_test(test_wrong_shapes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
