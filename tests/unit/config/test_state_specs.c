/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/byte_budget.h"
#include "base/file.h"
#include "base/mem.h"
#include "config/state_specs.h"
#include "config_rows.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL(batch, states) "name: 'm' max_batch_size: " #batch " sequence_batching { " states " }"
#define STATE(type, dims, more)                                                                    \
        "state { input_name: 'I' output_name: 'O' data_type: " type " dims: [" dims "] " more " }" \
        " "
#define FROM(type, dims, file)                                                                     \
        "initial_state { name: 'i' data_type: " type " dims: [" dims "] data_file: '" file "' }"

static char  parent[] = "/tmp/neso-states-XXXXXX";
static char *folder; /* initial_state, in parent */

static void write_file(const char *directory, const char *name, const void *bytes, size_t n) {
        AUTO_CHARS path = path_join(directory, name);
        FILE      *f = fopen(path, "w");

        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
}

static void remove_in(const char *directory, const char *name) {
        AUTO_CHARS path = path_join(directory, name);

        unlink(path);
}

static int make_model(void **state) {
        (void)state;
        if (mkdtemp(parent) == NULL)
                return -1;
        folder = path_join(parent, "initial_state");
        if (mkdir(folder, 0700) != 0)
                return -1;
        write_file(parent, "outside", "12345678", 8);
        write_file(folder, "eight", "12345678", 8);
        write_file(folder, "texts", "\2\0\0\0ab\0\0\0\0", 10);
        write_file(folder, "cut", "\2\0\0\0ab\7\0\0\0abc", 13);
        return 0;
}

static int remove_model(void **state) {
        (void)state;
        remove_in(parent, "outside");
        remove_in(folder, "eight");
        remove_in(folder, "texts");
        remove_in(folder, "cut");
        rmdir(folder);
        free(folder);
        return rmdir(parent);
}

static struct error *read_specs(const char *text, struct state_specs **ret) {
        AUTO_MODEL_CONFIG config = config_of(text);

        return state_specs_new(config, parent, NULL, ret);
}

static struct state_specs *plan_of(const char *text) {
        struct state_specs *p = NULL;
        struct error       *err = read_specs(text, &p);

        if (err != NULL)
                fail_msg("%s\nin: %s", err->message, text);
        return p;
}

static void test_none(void **state) {
        (void)state;
        assert_null(plan_of("name: 'm'"));
        assert_null(plan_of("name: 'm' dynamic_batching { }"));
        assert_null(plan_of(MODEL(4, "")));
        state_specs_free(NULL);
}

static void test_zeros(void **state) {
        struct state_specs *p =
                plan_of(MODEL(4, STATE("TYPE_FP32", "2, -1", "")
                                         STATE("TYPE_STRING", "3",
                                               "use_same_buffer_for_input_output: true")));

        (void)state;
        assert_int_equal(p->n, 2);
        assert_string_equal(p->states[0].input_name, "I");
        assert_string_equal(p->states[0].output_name, "O");
        assert_int_equal(p->states[0].type, DATA_TYPE_FP32);
        assert_int_equal(p->states[0].n_dims, 3);
        assert_memory_equal(p->states[0].dims, ((int64_t[]){ 1, 2, 1 }), 24);
        assert_int_equal(p->states[0].n_bytes, 8);
        assert_null(p->states[0].initial);
        assert_false(p->states[0].is_in_place);
        assert_int_equal(p->states[1].type, DATA_TYPE_BYTES);
        assert_int_equal(p->states[1].n_bytes, 12);
        assert_true(p->states[1].is_in_place);
        state_specs_free(p);

        p = plan_of(MODEL(0, STATE("TYPE_INT64", "", "")));
        assert_int_equal(p->states[0].n_dims, 0);
        assert_int_equal(p->states[0].n_bytes, 8);
        state_specs_free(p);

        p = plan_of(MODEL(0, STATE("TYPE_INT64", "-1",
                                   "initial_state { name: 'i' data_type: TYPE_INT64 dims: 0 "
                                   "zero_data: true }")));
        assert_int_equal(p->states[0].dims[0], 0);
        assert_int_equal(p->states[0].n_bytes, 0);
        assert_null(p->states[0].initial);
        state_specs_free(p);
}

static void test_files(void **state) {
        struct state_specs *p;

        (void)state;
        p = plan_of(MODEL(4, STATE("TYPE_INT16", "-1, 2", FROM("TYPE_INT16", "2, 2", "eight"))));
        assert_memory_equal(p->states[0].dims, ((int64_t[]){ 1, 2, 2 }), 24);
        assert_int_equal(p->states[0].n_bytes, 8);
        assert_memory_equal(p->states[0].initial, "12345678", 8);
        state_specs_free(p);
        /* The first bytes of a file that has more. */
        p = plan_of(MODEL(0, STATE("TYPE_INT16", "3", FROM("TYPE_INT16", "3", "eight"))));
        assert_int_equal(p->states[0].n_bytes, 6);
        state_specs_free(p);
        p = plan_of(MODEL(0, STATE("TYPE_STRING", "2", FROM("TYPE_STRING", "2", "texts"))));
        assert_int_equal(p->states[0].n_bytes, 10);
        assert_memory_equal(p->states[0].initial, "\2\0\0\0ab\0\0\0\0", 10);
        state_specs_free(p);
}

static void test_refusals(void **state) {
        static const struct {
                const char     *text;
                enum error_code code;
                const char     *message; /* NULL: any */
        } rows[] = {
                { MODEL(0, STATE("TYPE_INT32", "3", FROM("TYPE_INT32", "3", "eight"))),
                  ERR_INVALID_ARG,
                  "initial_state setting expects 12 bytes, but the data provided from eightonly "
                  "has 8 bytes." },
                { MODEL(0, STATE("TYPE_STRING", "3", FROM("TYPE_STRING", "3", "texts"))),
                  ERR_INVALID_ARG,
                  "initial_state setting expects 12 bytes, but the data provided from textsonly "
                  "has 10 bytes." },
                { MODEL(0, STATE("TYPE_STRING", "2", FROM("TYPE_STRING", "2", "cut"))),
                  ERR_INVALID_ARG,
                  "initial_state of state 'I': the file 'cut' does not have 2 strings, each with "
                  "its length in 4 bytes before it" },
                { MODEL(0, STATE("TYPE_INT8", "8", FROM("TYPE_INT8", "8", "none"))), ERR_NOT_FOUND,
                  NULL },
                { MODEL(0, STATE("TYPE_INT8", "8", FROM("TYPE_INT8", "8", "../outside"))),
                  ERR_INVALID_ARG, NULL },
                { MODEL(0, STATE("TYPE_INT64", "9223372036854775807", "")), ERR_INVALID_ARG,
                  "state 'I' of model 'm' is larger than any memory" },
                { MODEL(0, STATE("TYPE_INT64", "4294967296, 4294967296", "")), ERR_INVALID_ARG,
                  "state 'I' of model 'm' is larger than any memory" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct state_specs *p = NULL;
                struct error       *err = read_specs(rows[i].text, &p);

                assert_null(p);
                if (rows[i].message != NULL) {
                        assert_outcome(err, rows[i].code, rows[i].message, rows[i].text);
                        continue;
                }
                assert_non_null(err);
                assert_int_equal(err->code, rows[i].code);
                assert_non_null(strstr(err->message, "failed to open the initial state '"));
                error_free(err);
        }
}

static void test_charges(void **state) {
        AUTO_MODEL_CONFIG config =
                config_of(MODEL(0, STATE("TYPE_STRING", "2", FROM("TYPE_STRING", "2", "texts"))));
        AUTO_MODEL_CONFIG   large = config_of(MODEL(0, STATE("TYPE_UINT8", "2147483648", "")));
        struct byte_budget  budget;
        struct state_specs *p = NULL;
        struct error       *err;

        (void)state;
        byte_budget_init(&budget, (size_t)1 << 20);
        assert_null(state_specs_new(config, parent, &budget, &p));
        assert_int_equal(byte_budget_used(&budget), p->states[0].n_bytes);
        state_specs_free(p);
        assert_int_equal(byte_budget_used(&budget), 0);
        err = state_specs_new(large, parent, &budget, &p);
        assert_non_null(err);
        assert_string_equal(err->message,
                            "the states of a sequence of model 'm' take 2147483648 bytes, but the "
                            "server has 917504 bytes for the states of all sequences");
        error_free(err);
}

static void test_no_memory(void **state) {
        (void)state;
        for (unsigned n = 1;; n++) {
                AUTO_MODEL_CONFIG config = config_of(
                        MODEL(0, STATE("TYPE_STRING", "2", FROM("TYPE_STRING", "2", "texts"))));
                struct state_specs *p = NULL;
                struct error       *err;

                mem_fail_after(n);
                err = state_specs_new(config, parent, NULL, &p);
                if (!mem_fail_was_hit()) {
                        mem_fail_after(0);
                        assert_null(err);
                        state_specs_free(p);
                        assert_true(n > 1);
                        return;
                }
                mem_fail_after(0);
                assert_non_null(err);
                assert_null(p);
                error_free(err);
        }
}

SUITE(state_specs) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_none),      cmocka_unit_test(test_zeros),
                cmocka_unit_test(test_files),     cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_no_memory), cmocka_unit_test(test_charges),
        };

        return cmocka_run_group_tests(tests, make_model, remove_model);
}
