/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "config/model_io.h"
#include "config_rows.h"

static const char two_in_two_out[] =
        "name: 'm' max_batch_size: 8"
        " input { name: 'A' data_type: TYPE_FP32 dims: [3, 4] reshape { shape: 12 } }"
        " input { name: 'B' data_type: TYPE_INT64 dims: [-1, 2] optional: true"
        "   allow_ragged_batch: true is_shape_tensor: true }"
        " input { name: 'AB' data_type: TYPE_STRING dims: 5 }"
        " output { name: 'A' data_type: TYPE_BF16 dims: 7 label_filename: 'l.txt' }"
        " output { name: 'Z' data_type: TYPE_BOOL dims: 1 reshape { } is_shape_tensor: true }";

static void test_compile(void **state) {
        struct model_config   *c = config_of(two_in_two_out);
        struct model_io_set   *s = NULL;
        const struct model_io *io;

        (void)state;
        assert_null(model_io_set_new(c, &s));
        model_config_free(c); /* the set has copies */
        assert_int_equal(s->n_inputs, 3);
        assert_int_equal(s->n_required_inputs, 2);
        assert_int_equal(s->n_outputs, 2);
        assert_int_equal(s->max_batch_size, 8);

        io = &s->inputs[0];
        assert_string_equal(io->name, "A");
        assert_int_equal(io->name_len, 1);
        assert_int_equal(io->type, DATA_TYPE_FP32);
        assert_true(shape_equal(io->dims, io->n_dims, (int64_t[]){ 3, 4 }, 2));
        assert_true(io->has_reshape);
        assert_true(shape_equal(io->reshape, io->n_reshape, (int64_t[]){ 12 }, 1));
        assert_false(io->is_optional || io->is_ragged || io->is_variable || io->is_shape_tensor);
        assert_null(io->label_filename);

        io = &s->inputs[1];
        assert_int_equal(io->type, DATA_TYPE_INT64);
        assert_true(io->is_optional && io->is_ragged && io->is_variable && io->is_shape_tensor);
        assert_false(io->has_reshape);
        assert_int_equal(io->n_reshape, 0);

        assert_int_equal(s->inputs[2].type, DATA_TYPE_BYTES);
        assert_false(s->inputs[2].is_variable);

        assert_string_equal(s->outputs[0].label_filename, "l.txt");
        assert_true(s->outputs[1].has_reshape && s->outputs[1].is_shape_tensor);
        assert_int_equal(s->outputs[1].n_reshape, 0);
        assert_null(s->outputs[1].label_filename);
        model_io_set_free(s);
}

static void test_find(void **state) {
        struct model_config *c = config_of(two_in_two_out);
        struct model_io_set *s = NULL;

        (void)state;
        assert_null(model_io_set_new(c, &s));
        for (uint32_t hint = 0; hint < 5; hint++) {
                assert_ptr_equal(model_io_find_input(s, STR_LIT("A"), hint), &s->inputs[0]);
                assert_ptr_equal(model_io_find_input(s, STR_LIT("B"), hint), &s->inputs[1]);
                assert_ptr_equal(model_io_find_input(s, STR_LIT("AB"), hint), &s->inputs[2]);
                assert_ptr_equal(model_io_find_output(s, STR_LIT("A"), hint), &s->outputs[0]);
                assert_ptr_equal(model_io_find_output(s, STR_LIT("Z"), hint), &s->outputs[1]);
                assert_null(model_io_find_input(s, STR_LIT("Z"), hint));
                assert_null(model_io_find_output(s, STR_LIT("B"), hint));
                assert_ptr_equal(model_io_find_output_named(s, "A", hint), &s->outputs[0]);
                assert_ptr_equal(model_io_find_output_named(s, "Z", hint), &s->outputs[1]);
                assert_null(model_io_find_output_named(s, "B", hint));
                assert_null(model_io_find_input(s, STR_LIT("ABC"), hint));
                assert_null(model_io_find_input(s, STR_LIT(""), hint));
        }
        model_io_set_free(s);
        model_config_free(c);
}

/* So many that they are found by a hash. */
static void test_find_among_many(void **state) {
        struct model_config *c;
        struct model_io_set *s = NULL;
        AUTO_STRBUF          text = { 0 };

        (void)state;
        for (int i = 0; i < 100; i++)
                strbuf_printf(&text,
                              "input { name: 'I%d' data_type: TYPE_FP32 dims: 1 } "
                              "output { name: 'O%d' data_type: TYPE_FP32 dims: 1 } ",
                              i, i);
        strbuf_puts(&text, "input { name: 'I7' data_type: TYPE_FP32 dims: 1 } ");
        c = config_of(strbuf_cstr(&text));
        assert_null(model_io_set_new(c, &s));
        for (uint32_t i = 0; i < 100; i++) {
                AUTO_CHARS input = mem_printf("I%u", i);
                AUTO_CHARS output = mem_printf("O%u", i);

                for (uint32_t hint = i; hint < i + 2; hint++) {
                        assert_ptr_equal(model_io_find_input(s, str_of(input), hint),
                                         &s->inputs[i]);
                        assert_ptr_equal(model_io_find_output(s, str_of(output), hint),
                                         &s->outputs[i]);
                        assert_ptr_equal(model_io_find_output_named(s, output, hint),
                                         &s->outputs[i]);
                }
                assert_null(model_io_find_input(s, str_of(output), i));
                assert_null(model_io_find_output(s, str_of(input), i));
        }
        assert_null(model_io_find_input(s, STR_LIT(""), 0));
        assert_null(model_io_find_input(s, STR_LIT("I100"), 200));
        model_io_set_free(s);
        model_config_free(c);
}

static void test_empty(void **state) {
        struct model_config *c = model_config_new();
        struct model_io_set *s = NULL;

        (void)state;
        assert_null(model_io_set_new(c, &s));
        assert_int_equal(s->n_inputs + s->n_outputs + s->n_required_inputs, 0);
        assert_null(model_io_find_input(s, STR_LIT("A"), 0));
        model_io_set_free(s);
        model_io_set_free(NULL);
        model_config_free(c);
}

static void test_too_large(void **state) {
        static const char    text[] = "input { name: 'A' data_type: TYPE_FP32"
                                      " dims: [4611686018427387904, 1] }";
        struct model_config *c = config_of(text);
        struct model_io_set *s = NULL;

        (void)state;
        assert_outcome(model_io_set_new(c, &s), ERR_INVALID_ARG,
                       "tensor 'A' has more bytes than can be counted", text);
        assert_null(s);
        model_config_free(c);
}

static void test_memory_short(void **state) {
        struct model_config *c = config_of(two_in_two_out);
        struct error        *err;
        unsigned             n = 0;

        (void)state;
        do {
                struct model_io_set *s = NULL;

                mem_fail_after(++n);
                err = model_io_set_new(c, &s);
                mem_fail_after(0);
                assert_int_equal(err == NULL, s != NULL);
                model_io_set_free(s);
                if (err != NULL)
                        assert_outcome(err, ERR_UNAVAILABLE, "out of memory", two_in_two_out);
        } while (err != NULL);
        assert_true(n > 1);
        model_config_free(c);
}

SUITE(model_io) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_compile),         cmocka_unit_test(test_find),
                cmocka_unit_test(test_find_among_many), cmocka_unit_test(test_empty),
                cmocka_unit_test(test_too_large),       cmocka_unit_test(test_memory_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
