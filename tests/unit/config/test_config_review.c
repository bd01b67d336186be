/* SPDX-License-Identifier: BSD-3-Clause */
/* Mistakes that a load does not see: names, warm-up samples, what a backend may complete. */
#include "suite.h"

#include "config/config_check.h"
#include "config/config_review.h"
#include "config_rows.h"

#define INPUT(name) "input { name: '" name "' data_type: TYPE_FP32 dims: 1 }\n"
#define SAMPLE(inputs) "model_warmup { name: 'w' batch_size: 1 " inputs "}\n"
#define VALUE(type) "value { data_type: TYPE_" type " dims: 1 zero_data: true }"

static const struct row {
        const char *text;
        const char *message; /* NULL: fine */
        const char *field;
} names[] = {
        { "", NULL, NULL },
        { "name: 'm'" INPUT("A") INPUT("B") "output { name: 'A' }", NULL, NULL },
        { "name: 'm'" INPUT("A") INPUT("B") INPUT("A"),
          "input 'A' is specified more than once for m", "input[2].name" },
        { "name: 'm' output { name: 'A' } output { name: 'A' }",
          "output 'A' is specified more than once for m", "output[1].name" },
        { "name: 'm' input { } input { }", NULL, NULL }, /* that they lack names is another matter */
}, warmups[] = {
        { "name: 'm'" SAMPLE("inputs { key: 'A' " VALUE("FP32") " }"), NULL, NULL },
        { "name: 'm'" INPUT("A") SAMPLE("inputs { key: 'A' " VALUE("FP32") " }"), NULL, NULL },
        { "name: 'm'" INPUT("A") SAMPLE(""), "warmup sample 'w' lacks the input 'A' of the model 'm'",
          "model_warmup[0]" },
        { "name: 'm' input { name: 'A' data_type: TYPE_FP32 optional: true }" SAMPLE(""), NULL,
          NULL },
        { "name: 'm'" INPUT("A") "model_warmup { name: 'w' }", NULL, NULL }, /* never runs */
        { "name: 'm'" INPUT("A") SAMPLE("inputs { key: 'A' " VALUE("FP32") " }")
                  SAMPLE("inputs { key: 'B' " VALUE("FP32") " }"),
          "warmup sample 'w' has the input 'B', which the model 'm' does not have",
          "model_warmup[1].inputs[0]" },
        { "name: 'm'" INPUT("A") SAMPLE("inputs { key: 'A' " VALUE("STRING") " }"),
          "warmup sample 'w' has data type TYPE_STRING for input 'A' of the model 'm', which has "
          "TYPE_FP32",
          "model_warmup[0].inputs[0]" },
        /* What the server gives to sequences, a sample may give itself. */
        { "name: 'm'" INPUT("A") "sequence_batching { control_input { name: 'C' } state { "
                                 "input_name: 'S' } }"
                  SAMPLE("inputs { key: 'A' " VALUE("FP32") " } inputs { key: 'C' " VALUE("FP32")
                         " } inputs { key: 'S' " VALUE("FP32") " }"),
          NULL, NULL },
        { "name: 'm' input { name: 'A' dims: 1 }" SAMPLE("inputs { key: 'A' " VALUE("INT8") " }"),
          NULL, NULL }, /* the backend knows the type */
};

static void check_rows(const struct row *rows, size_t n,
                       struct error *(*review)(const struct model_config *c)) {
        for (size_t i = 0; i < n; i++) {
                AUTO_MODEL_CONFIG c = config_of(rows[i].text);
                struct error     *err = review(c);

                if (err != NULL && rows[i].field != NULL)
                        assert_text(err->field, rows[i].field, rows[i].text);
                assert_outcome(err, ERR_INVALID_ARG, rows[i].message, rows[i].text);
        }
}

static void test_names(void **state) {
        (void)state;
        check_rows(names, ARRAY_LEN(names), model_config_review_names);
}

static void test_warmup(void **state) {
        (void)state;
        check_rows(warmups, ARRAY_LEN(warmups), model_config_review_warmup);
}

static void test_assume_complete(void **state) {
        static const char text[] = "name: 'm' max_batch_size: 2\n"
                                   "input { name: 'A' reshape { shape: 3 } format: FORMAT_NCHW }\n"
                                   "output { name: 'B' data_type: TYPE_INT8 }\n"
                                   "batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE\n"
                                   "  target_name: 'B' source_input: 'A' }";
        static const char unnamed[] = "batch_input { source_input: 'A' }";
        AUTO_MODEL_CONFIG c = config_of(text);
        AUTO_MODEL_CONFIG none = config_of(unnamed);

        (void)state;
        assert_non_null(c);
        assert_accepted(model_config_assume_complete(c), text);
        assert_accepted(model_config_check_io(c), text);
        assert_int_equal(c->pb->output[0]->data_type, INFERENCE__DATA_TYPE__TYPE_INT8);
        assert_int_equal(c->pb->n_batch_output, 1);
        assert_accepted(model_config_assume_complete(none), unnamed);
        assert_accepted(model_config_check_io(none), unnamed);
}

SUITE(config_review) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_warmup),
                cmocka_unit_test(test_assume_complete),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
