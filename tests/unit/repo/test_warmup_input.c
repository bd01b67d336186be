/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/warmup.h"

#include <unistd.h>

#define KIND(kind) INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_##kind

static struct temp_tree tree;

static int setup(void **state) {
        (void)state;
        tree = temp_tree_make();
        return 0;
}

static int teardown(void **state) {
        (void)state;
        temp_tree_remove(&tree);
        return 0;
}

static Inference__ModelWarmup__Input input_of(enum data_type                                   type,
                                              Inference__ModelWarmup__Input__InputDataTypeCase kind,
                                              size_t n_dims, int64_t *dims) {
        Inference__ModelWarmup__Input input = INFERENCE__MODEL_WARMUP__INPUT__INIT;

        input.data_type = (Inference__DataType)type;
        input.input_data_type_case = kind;
        input.dims = dims;
        input.n_dims = n_dims;
        return input;
}

static struct error *read_input(const Inference__ModelWarmup__Input *input,
                                struct warmup_bytes                 *ret) {
        return warmup_input_read(input, "IN", tree.path, NULL, ret);
}

static void test_zeros(void **state) {
        static const struct {
                enum data_type type;
                size_t         n_dims;
                int64_t        dims[3];
                size_t         n_bytes;
        } rows[] = {
                { DATA_TYPE_FP32, 2, { 2, 3 }, 24 },   { DATA_TYPE_INT8, 1, { 5 }, 5 },
                { DATA_TYPE_INT64, 0, { 0 }, 8 }, /* a scalar */
                { DATA_TYPE_FP16, 3, { 2, 1, 2 }, 8 }, { DATA_TYPE_FP32, 1, { 0 }, 0 },
                { DATA_TYPE_BYTES, 1, { 3 }, 12 }, /* three empty strings: their lengths */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (int is_random = 0; is_random < 2; is_random++) {
                        int64_t                       dims[3];
                        Inference__ModelWarmup__Input input;
                        struct warmup_bytes           bytes;

                        memcpy(dims, rows[i].dims, sizeof(dims));
                        input = input_of(rows[i].type,
                                         is_random ? KIND(RANDOM_DATA) : KIND(ZERO_DATA),
                                         rows[i].n_dims, dims);
                        assert_ok(read_input(&input, &bytes), "read");
                        assert_int_equal(bytes.n, rows[i].n_bytes);
                        if (!is_random || rows[i].type == DATA_TYPE_BYTES)
                                for (size_t k = 0; k < bytes.n; k++)
                                        assert_int_equal(bytes.bytes[k], 0);
                        free(bytes.bytes);
                }
}

static void test_random(void **state) {
        int64_t                       dims[] = { 1000 };
        Inference__ModelWarmup__Input input = input_of(DATA_TYPE_UINT8, KIND(RANDOM_DATA), 1, dims);
        struct warmup_bytes           bytes, again;
        unsigned                      seen[64] = { 0 };
        unsigned                      n_values = 0;

        (void)state;
        assert_ok(read_input(&input, &bytes), "read");
        assert_int_equal(bytes.n, 1000);
        for (size_t i = 0; i < bytes.n; i++) {
                assert_in_range(bytes.bytes[i], 0, 63);
                n_values += seen[(unsigned char)bytes.bytes[i]]++ == 0;
        }
        assert_true(n_values > 32);
        /* The same each time: a load that fails, fails again. */
        assert_ok(read_input(&input, &again), "read");
        assert_memory_equal(bytes.bytes, again.bytes, 1000);
        free(bytes.bytes);
        free(again.bytes);
}

static struct error *read_file(const char *name, size_t n_elements, struct warmup_bytes *ret) {
        int64_t                       dims[] = { (int64_t)n_elements };
        Inference__ModelWarmup__Input input =
                input_of(DATA_TYPE_INT16, KIND(INPUT_DATA_FILE), 1, dims);

        input.input_data_file = (char *)name;
        return read_input(&input, ret);
}

static void test_files(void **state) {
        struct warmup_bytes bytes;

        (void)state;
        temp_tree_write(&tree, "warmup/raw", "abcdef");
        temp_tree_write(&tree, "warmup/sub/raw", "ghijkl");
        assert_ok(read_file("raw", 3, &bytes), "raw");
        assert_int_equal(bytes.n, 6);
        assert_memory_equal(bytes.bytes, "abcdef", 6);
        free(bytes.bytes);
        assert_ok(read_file("sub/raw", 3, &bytes), "sub/raw");
        assert_memory_equal(bytes.bytes, "ghijkl", 6);
        free(bytes.bytes);
        /* More than the shape says is for the check of the request to judge. */
        assert_ok(read_file("raw", 2, &bytes), "longer");
        assert_int_equal(bytes.n, 6);
        free(bytes.bytes);
}

static void test_files_that_are_short(void **state) {
        struct warmup_bytes bytes = { 0 };

        (void)state;
        temp_tree_write(&tree, "warmup/raw", "abcde");
        temp_tree_write(&tree, "warmup/empty", "");
        /* The reference server's text has no blank there. */
        assert_error(read_file("raw", 3, &bytes), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] warmup setting expects 6 bytes, but the data "
                     "provided from rawonly has 5 bytes");
        assert_error(read_file("empty", 3, &bytes), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] warmup setting expects 6 bytes, but the data "
                     "provided from emptyonly has 0 bytes");
        assert_null(bytes.bytes);
}

static void test_files_elsewhere(void **state) {
        static const struct {
                const char     *name;
                enum error_code code;
        } rows[] = {
                { "../secret", ERR_INVALID_ARG },     { "sub/../../secret", ERR_INVALID_ARG },
                { "/etc/hostname", ERR_INVALID_ARG }, { "", ERR_INVALID_ARG },
                { "link", ERR_INVALID_ARG },          { "missing", ERR_NOT_FOUND },
        };
        AUTO_CHARS secret = temp_tree_path(&tree, "secret");
        AUTO_CHARS link = temp_tree_path(&tree, "warmup/link");

        (void)state;
        temp_tree_write(&tree, "secret", "abcdef");
        temp_tree_folder(&tree, "warmup/sub");
        assert_int_equal(symlink(secret, link), 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct warmup_bytes bytes = { 0 };
                struct error       *err = read_file(rows[i].name, 3, &bytes);

                if (err == NULL)
                        fail_msg("'%s' was read", rows[i].name);
                assert_int_equal(err->code, rows[i].code);
                error_free(err);
                assert_null(bytes.bytes);
        }
}

static void test_no_folder(void **state) {
        struct warmup_bytes bytes = { 0 };
        struct error       *err = read_file("raw", 3, &bytes);

        (void)state;
        assert_non_null(err);
        assert_int_equal(err->code, ERR_NOT_FOUND);
        assert_non_null(strstr(err->message, "/warmup"));
        error_free(err);
}

static void check_shape_is_refused(enum data_type type, int64_t first, int64_t second,
                                   const char *text) {
        int64_t                       dims[] = { first, second };
        Inference__ModelWarmup__Input input = input_of(type, KIND(ZERO_DATA), 2, dims);
        struct warmup_bytes           bytes = { 0 };

        assert_error(read_input(&input, &bytes), ERR_INVALID_ARG, text);
        assert_null(bytes.bytes);
}

static void test_shapes_that_are_refused(void **state) {
        const char *variable = "warmup setting expects all variable-size dimensions are specified "
                               "for input 'IN'";
        const char *large = "warmup setting has dimensions out of range for input 'IN': its tensor "
                            "may have at most 2147483648 bytes";

        (void)state;
        check_shape_is_refused(DATA_TYPE_FP32, -1, 2, variable);
        check_shape_is_refused(DATA_TYPE_FP32, 2, -1, variable);
        check_shape_is_refused(DATA_TYPE_BYTES, -1, 2, variable);
        check_shape_is_refused(DATA_TYPE_FP64, -2, 1, large);
        check_shape_is_refused(DATA_TYPE_FP64, INT64_MAX, INT64_MAX, large);
        check_shape_is_refused(DATA_TYPE_FP64, INT64_MAX, 1, large);
        check_shape_is_refused(DATA_TYPE_UINT8, (int64_t)1 << 31, 2, large);
}

static void test_kind_is_not_set(void **state) {
        int64_t                       dims[] = { 1 };
        Inference__ModelWarmup__Input input = input_of(DATA_TYPE_FP32, KIND(_NOT_SET), 1, dims);
        struct warmup_bytes           bytes = { 0 };

        (void)state;
        assert_error(read_input(&input, &bytes), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] warmup setting expects input 'IN' to have "
                     "input_data_type set");
        assert_null(bytes.bytes);
}

static void test_out_of_memory(void **state) {
        int64_t                       dims[] = { 16 };
        Inference__ModelWarmup__Input input = input_of(DATA_TYPE_FP32, KIND(ZERO_DATA), 1, dims);
        struct warmup_bytes           bytes = { 0 };
        struct error                 *err;

        (void)state;
        mem_fail_after(1);
        err = read_input(&input, &bytes);
        mem_fail_after(0);
        assert_out_of_memory(err);
        assert_null(bytes.bytes);
}

SUITE(warmup_input) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_zeros, setup, teardown),
                cmocka_unit_test_setup_teardown(test_random, setup, teardown),
                cmocka_unit_test_setup_teardown(test_files, setup, teardown),
                cmocka_unit_test_setup_teardown(test_files_that_are_short, setup, teardown),
                cmocka_unit_test_setup_teardown(test_files_elsewhere, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_folder, setup, teardown),
                cmocka_unit_test_setup_teardown(test_shapes_that_are_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(test_kind_is_not_set, setup, teardown),
                cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
