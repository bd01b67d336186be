/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests against their model's configuration. A row is a model, a request in a few words, and
 * the message, or NULL when the request is fine:
 *
 *     A FP32 1x4        an input with as many zero bytes as its shape asks for
 *     A FP32 1x4 =12    with 12 bytes; "-" as shape: no dimensions at all
 *     raw A =16         a raw input
 *     id x              the request's id
 *     out Y             a requested output
 *
 * separated by ";".
 */
#include "suite.h"

#include "base/mem.h"
#include "config/shape.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "shortage.h"

#include <stdio.h>

struct row {
        const char *request;
        const char *message; /* NULL: accepted; else the code is INVALID_ARG */
};

static size_t parse_shape(const char *text, int64_t *dims) {
        size_t n = 0;
        char  *end = (char *)text - 1;

        if (strcmp(text, "-") == 0)
                return 0;
        do
                dims[n++] = strtoll(end + 1, &end, 10);
        while (*end == 'x');
        return n;
}

static void parse_input(struct request *req, char *const *words) {
        int64_t        dims[8];
        bool           is_raw = strcmp(words[0], "raw") == 0;
        const char    *name = words[is_raw ? 1 : 0];
        const char    *last = words[is_raw || words[3] == NULL ? 2 : 3];
        enum data_type type = data_type_from_name(str_of(words[1]));
        size_t         n_dims = is_raw ? 0 : parse_shape(words[2], dims);
        int64_t        n_bytes = is_raw ? 0 : shape_byte_size(type, dims, n_dims);

        if (is_raw)
                assert_ok(request_add_raw_input(req, name), name);
        else
                assert_ok(request_add_input(req, name, type, dims, n_dims), name);
        if (last != NULL && *last == '=')
                n_bytes = strtoll(last + 1, NULL, 10);
        if (n_bytes > 0) {
                assert_in_range(n_bytes, 1, 65536);
                append_bytes(req, name, zero_bytes(), (size_t)n_bytes);
        }
}

static struct request *parse_request(struct fake_model *fake, const char *text) {
        struct request *req = fake_request(fake);
        char           *copy = strdup(text);
        char           *next_part = NULL;

        assert_non_null(copy);
        for (char *part = strtok_r(copy, ";", &next_part); part != NULL;
             part = strtok_r(NULL, ";", &next_part)) {
                char  *words[6] = { NULL };
                char  *next_word = NULL;
                size_t n = 0;

                for (char *word = strtok_r(part, " ", &next_word); word != NULL && n < 5;
                     word = strtok_r(NULL, " ", &next_word))
                        words[n++] = word;
                if (strcmp(words[0], "id") == 0)
                        assert_ok(request_set_id(req, words[1]), words[1]);
                else if (strcmp(words[0], "out") == 0)
                        assert_ok(request_add_output(req, words[1]), words[1]);
                else
                        parse_input(req, words);
        }
        free(copy);
        return req;
}

static void run_short_row(struct request *req, const struct row *row) {
        struct error *err;
        unsigned      n = 0;

        do {
                mem_fail_once(++n);
                err = request_prepare(req);
        } while (expect_or_shortage(err, ERR_INVALID_ARG, row->message));
}

static void run_row(struct fake_model *fake, const struct row *row) {
        struct request *req = parse_request(fake, row->request);

        for (unsigned again = 0; again < 2; again++) { /* the same answer after a release */
                struct error *err = request_prepare(req);

                if ((err == NULL) != (row->message == NULL) ||
                    (err != NULL &&
                     (strcmp(err->message, row->message) != 0 || err->code != ERR_INVALID_ARG)))
                        fail_msg("in: %s\ngot      %s\nexpected %s", row->request,
                                 err != NULL ? err->message : "(accepted)",
                                 row->message != NULL ? row->message : "(accepted)");
                error_free(err);
        }
        run_short_row(req, row);
        request_free(req);
}

static void run_rows(const char *config, const struct row *rows, size_t n) {
        struct fake_model *fake = fake_model_new(config);

        for (size_t i = 0; i < n; i++)
                run_row(fake, &rows[i]);
        fake_model_free(fake);
}

#define RUN_ROWS(config, rows) run_rows(config, rows, ARRAY_LEN(rows))

#define NO_ID "[request id: <id_unknown>] "
#define NOTE                                                                                       \
        "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension "  \
        "to be prepended to each input shape. If you want to specify the full shape including "    \
        "the batch dim in your input dims config, try setting max_batch_size to zero. See the "    \
        "model configuration docs for more info on max_batch_size."

#define TWO                                                                                        \
        "name: 'm' max_batch_size: 8 "                                                             \
        "input { name: 'INPUT0' data_type: TYPE_INT32 dims: 16 } "                                 \
        "input { name: 'INPUT1' data_type: TYPE_INT32 dims: 16 } "                                 \
        "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: 16 } "                               \
        "output { name: 'OUTPUT1' data_type: TYPE_INT32 dims: 16 } "
#define BOTH "INPUT0 INT32 1x16; INPUT1 INT32 1x16"

static void test_number_and_names(void **state) {
        static const struct row rows[] = {
                { BOTH, NULL },
                { "INPUT1 INT32 8x16; INPUT0 INT32 8x16", NULL },
                { "INPUT0 INT32 1x16", NO_ID
                  "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['INPUT0'], "
                  "but missing required input(s) ['INPUT1']. Please provide all required "
                  "input(s)." },
                { "id 42",
                  "[request id: 42] expected 2 inputs but got 0 inputs for model 'm'. Got input(s) "
                  "[], but missing required input(s) ['INPUT0','INPUT1']. Please provide all "
                  "required input(s)." },
                { BOTH "; X INT32 1x16",
                  NO_ID "expected 2 inputs but got 3 inputs for model 'm'. Got input(s) "
                        "['INPUT0','INPUT1','X'], but missing required input(s) ]. Please provide "
                        "all required input(s)." },
                { "INPUT0 INT32 1x16; X INT32 1x16; Y INT32 1x16",
                  NO_ID "expected 2 inputs but got 3 inputs for model 'm'. Got input(s) "
                        "['INPUT0','X','Y'], but missing required input(s) ['INPUT1']. Please "
                        "provide all required input(s)." },
                { "INPUT0 INT32 1x16; X INT32 1x16", /* the number is right: no prefix */
                  "unexpected inference input 'X' for model 'm'" },
                { "INPUT0 INT32 1x16; input1 INT32 1x16",
                  "unexpected inference input 'input1' for model 'm'" },
        };

        (void)state;
        RUN_ROWS(TWO, rows);
}

static void test_optional_inputs(void **state) {
        static const char config[] =
                "name: 'm' max_batch_size: 8 "
                "input { name: 'O' data_type: TYPE_INT32 dims: 1 optional: true } "
                "input { name: 'R' data_type: TYPE_INT32 dims: 1 } "
                "input { name: 'S' data_type: TYPE_INT32 dims: 1 } ";
        static const struct row rows[] = {
                { "R INT32 1x1; S INT32 1x1", NULL },
                { "S INT32 1x1; O INT32 1x1; R INT32 1x1", NULL },
                { "R INT32 1x1",
                  NO_ID "expected number of inputs between 2 and 3 but got 1 inputs for model 'm'. "
                        "Got input(s) ['R'], but missing required input(s) ['S']. Please provide "
                        "all required input(s)." },
                { "R INT32 1x1; O INT32 1x1", /* enough, but not the right ones */
                  NO_ID "expected number of inputs between 2 and 3 but got 2 inputs for model 'm'. "
                        "Got input(s) ['R','O'], but missing required input(s) ['S']. Please "
                        "provide all required input(s)." },
                { "",
                  NO_ID "expected number of inputs between 2 and 3 but got 0 inputs for model 'm'. "
                        "Got input(s) [], but missing required input(s) ['R','S']. Please provide "
                        "all required input(s)." },
                { "R INT32 1x1; S INT32 1x1; O INT32 1x1; P INT32 1x1",
                  NO_ID "expected number of inputs between 2 and 3 but got 4 inputs for model 'm'. "
                        "Got input(s) ['R','S','O','P'], but missing required input(s) ]. Please "
                        "provide all required input(s)." },
                { "R INT32 1x1; S INT32 1x1; P INT32 1x1",
                  "unexpected inference input 'P' for model 'm'" },
        };

        (void)state;
        RUN_ROWS(config, rows);
}

/* A decoupled model, or a program in Python: it decides which inputs it needs. */
static void test_inputs_are_counted(void **state) {
        static const char config[] =
                "name: 'm' max_batch_size: 8 "
                "input { name: 'O' data_type: TYPE_INT32 dims: 1 optional: true } "
                "input { name: 'R' data_type: TYPE_INT32 dims: 1 } "
                "input { name: 'S' data_type: TYPE_INT32 dims: 1 } ";
        static const struct row rows[] = {
                { "R INT32 1x1; O INT32 1x1", NULL },
                { "O INT32 1x1; S INT32 1x1", NULL },
                { "R INT32 1x1",
                  NO_ID "expected number of inputs between 2 and 3 but got 1 inputs for model 'm'. "
                        "Got input(s) ['R'], but missing required input(s) ['S']. Please provide "
                        "all required input(s)." },
                { "R INT32 1x1; P INT32 1x1", "unexpected inference input 'P' for model 'm'" },
        };
        struct fake_model *fake = fake_model_new(config);

        (void)state;
        fake->model.counts_inputs = true;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                run_row(fake, &rows[i]);
        fake_model_free(fake);
}

static void test_batch_dimension(void **state) {
        static const struct row rows[] = {
                { "INPUT0 INT32 0x16; INPUT1 INT32 0x16", NULL },
                { "INPUT0 INT32 1x16; INPUT1 INT32 -",
                  NO_ID "input 'INPUT1' has no shape but model requires batch dimension for 'm'" },
                { "INPUT0 INT32 -; INPUT1 INT32 -",
                  NO_ID "input 'INPUT0' has no shape but model requires batch dimension for 'm'" },
                { "INPUT0 INT32 1x16; INPUT1 INT32 2x16",
                  NO_ID "input 'INPUT1' batch size does not match other inputs for 'm'" },
                { "INPUT1 INT32 2x16; INPUT0 INT32 1x16",
                  NO_ID "input 'INPUT0' batch size does not match other inputs for 'm'" },
                { "INPUT0 INT32 9x16; INPUT1 INT32 9x16",
                  NO_ID "inference request batch-size must be <= 8 for 'm'" },
                { "INPUT0 INT32 9223372036854775807x16 =4; INPUT1 INT32 9223372036854775807x16 =4",
                  NO_ID "inference request batch-size must be <= 8 for 'm'" },
                { "INPUT0 INT32 9x16; INPUT1 INT32 8x16", /* told first */
                  NO_ID "input 'INPUT1' batch size does not match other inputs for 'm'" },
                { "INPUT0 INT32 -1x16 =4; INPUT1 INT32 -1x16 =4",
                  NO_ID "inference request batch-size must be <= 8 for 'm'" },
                { "INPUT0 INT32 -9223372036854775808x16 =4; "
                  "INPUT1 INT32 -9223372036854775808x16 =4",
                  NO_ID "inference request batch-size must be <= 8 for 'm'" },
                { "INPUT0 INT32 -1x16 =4; INPUT1 INT32 2x16",
                  NO_ID "input 'INPUT1' batch size does not match other inputs for 'm'" },
                { "INPUT0 INT32 2x16; INPUT1 INT32 -1x16 =4",
                  NO_ID "input 'INPUT1' batch size does not match other inputs for 'm'" },
        };

        (void)state;
        RUN_ROWS(TWO, rows);
}

static void test_type_and_shape(void **state) {
        static const struct row rows[] = {
                { "INPUT0 FP32 1x16; INPUT1 INT32 1x16",
                  NO_ID "inference input 'INPUT0' data-type is 'FP32', but model 'm' expects "
                        "'INT32'" },
                { "INPUT0 INT32 1x16; INPUT1 NONE 1x16",
                  NO_ID "inference input 'INPUT1' data-type is '<invalid>', but model 'm' expects "
                        "'INT32'" },
                { "INPUT0 INT32 1x-1 =4; INPUT1 INT32 1x16", NO_ID
                  "All input dimensions should be specified for input 'INPUT0' for model 'm', "
                  "got [1,-1]" },
                { "INPUT0 INT32 1x-9 =4; INPUT1 INT32 1x16", NO_ID
                  "All input dimensions should be specified for input 'INPUT0' for model 'm', "
                  "got [1,-9]" },
                { "INPUT0 INT32 1x15; INPUT1 INT32 1x16",
                  NO_ID "unexpected shape for input 'INPUT0' for model 'm'. Expected [-1,16], got "
                        "[1,15]. " NOTE },
                { "INPUT0 INT32 8; INPUT1 INT32 8x16",
                  NO_ID "unexpected shape for input 'INPUT0' for model 'm'. Expected [-1,16], got "
                        "[8]. " NOTE },
                { "INPUT0 INT32 1x16x1; INPUT1 INT32 1x16",
                  NO_ID "unexpected shape for input 'INPUT0' for model 'm'. Expected [-1,16], got "
                        "[1,16,1]. " NOTE },
                { "INPUT0 INT32 1x16 =60; INPUT1 INT32 1x16", NO_ID
                  "input byte size mismatch for input 'INPUT0' for model 'm'. Expected 64, got "
                  "60" },
                { "INPUT0 INT32 1x16; INPUT1 INT32 1x16 =0", NO_ID
                  "input byte size mismatch for input 'INPUT1' for model 'm'. Expected 64, got "
                  "0" },
                { "INPUT0 INT32 2x16 =132; INPUT1 INT32 2x16",
                  NO_ID "input byte size mismatch for input 'INPUT0' for model 'm'. Expected 128, "
                        "got 132" },
                { "INPUT0 INT32 0x16 =4; INPUT1 INT32 0x16", NO_ID
                  "input byte size mismatch for input 'INPUT0' for model 'm'. Expected 0, got "
                  "4" },
                /* Two bad inputs: the last is named. */
                { "INPUT0 INT32 1x15; INPUT1 INT32 1x14",
                  NO_ID "unexpected shape for input 'INPUT1' for model 'm'. Expected [-1,16], got "
                        "[1,14]. " NOTE },
                { "INPUT1 INT32 1x14; INPUT0 FP32 1x16",
                  NO_ID "inference input 'INPUT0' data-type is 'FP32', but model 'm' expects "
                        "'INT32'" },
                { "INPUT0 INT32 1x16 =1; X INT32 1x16",
                  "unexpected inference input 'X' for model 'm'" },
        };

        (void)state;
        RUN_ROWS(TWO, rows);
}

static void test_without_batching(void **state) {
        static const char       config[] = "name: 'm' "
                                           "input { name: 'A' data_type: TYPE_FP64 dims: [2, -1] } ";
        static const struct row rows[] = {
                { "A FP64 2x5", NULL },
                { "A FP64 2x0", NULL },
                { "A FP64 1x5", NO_ID
                  "unexpected shape for input 'A' for model 'm'. Expected [2,-1], got [1,5]. " },
                { "A FP64 -",
                  NO_ID "unexpected shape for input 'A' for model 'm'. Expected [2,-1], got []. " },
                { "A FP64 2x-1 =8",
                  NO_ID "All input dimensions should be specified for input 'A' for model 'm', got "
                        "[2,-1]" },
                { "A FP64 2x9223372036854775807 =8",
                  NO_ID "byte size overflow for input 'A' for model 'm'" },
                { "A FP64 2x2305843009213693952 =8",
                  NO_ID "byte size overflow for input 'A' for model 'm'" },
        };

        (void)state;
        RUN_ROWS(config, rows);
}

static void test_strings(void **state) {
        static const char       config[] = "name: 'm' max_batch_size: 4 "
                                           "input { name: 'S' data_type: TYPE_STRING dims: -1 } ";
        static const struct row rows[] = {
                { "S BYTES 1x3 =12", NULL }, /* three empty strings */
                { "S BYTES 4x0", NULL },
                { "S BYTES 1x3 =8",
                  NO_ID "expected 3 string elements for inference input 'S' for model 'm', got 2" },
                { "S BYTES 1x1 =8",
                  NO_ID "expected 1 string elements for inference input 'S' for model 'm', got 2" },
                { "S BYTES 1x2 =7",
                  NO_ID "incomplete string length indicator for inference input 'S' for model 'm', "
                        "expecting 4 bytes but only 3 bytes available. Please make sure the string "
                        "length indicator is in one buffer." },
                { "S BYTES 4x9223372036854775807 =4",
                  NO_ID "byte size overflow for input 'S' for model 'm'" },
                { "S BYTES 2 =8",
                  NO_ID "unexpected shape for input 'S' for model 'm'. Expected [-1,-1], got "
                        "[2]. " NOTE },
        };

        (void)state;
        RUN_ROWS(config, rows);
}

static void test_shape_tensors(void **state) {
        static const char config[] =
                "name: 'm' max_batch_size: 4 "
                "input { name: 'S' data_type: TYPE_INT32 dims: 2 is_shape_tensor: true } "
                "input { name: 'X' data_type: TYPE_INT32 dims: 1 } ";
        static const struct row rows[] = {
                { "S INT32 2; X INT32 4x1", NULL }, /* no batch dimension of its own */
                { "X INT32 4x1; S INT32 2", NULL },
                { "S INT32 3; X INT32 4x1",
                  NO_ID "unexpected shape for input 'S' for model 'm'. Expected [2], got [3]. " },
                { "S INT32 2; X INT32 5x1",
                  NO_ID "inference request batch-size must be <= 4 for 'm'" },
        };

        (void)state;
        RUN_ROWS(config, rows);
}

static void test_outputs(void **state) {
        static const struct row rows[] = {
                { BOTH "; out OUTPUT1", NULL },
                { BOTH "; out OUTPUT1; out OUTPUT0", NULL },
                { BOTH "; out OUTPUT0; out Z", "unexpected inference output 'Z' for model 'm'" },
                { "X INT32 1x1; out INPUT0", /* told before anything about inputs */
                  "unexpected inference output 'INPUT0' for model 'm'" },
        };

        (void)state;
        RUN_ROWS(TWO, rows);
}

#define RAW(type, dims)                                                                            \
        "name: 'm' max_batch_size: 4 input { name: 'A' data_type: TYPE_" type " dims: " dims " } "

static void test_raw_errors(void **state) {
        static const struct row two_inputs[] = {
                { "raw INPUT0 =64",
                  NO_ID "Raw request must only have 1 input (found 1) to be deduced but got 2 "
                        "inputs in 'm' model configuration" },
        };
        static const struct row two_variable[] = {
                { "raw A =64",
                  NO_ID "The shape of the raw input 'A' can not be deduced because there are more "
                        "than one variable-sized dimension" },
        };
        static const struct row strings[] = {
                { "raw A =64",
                  NO_ID "For BYTE datatype raw input 'A', the model must have input shape [1]" },
        };
        static const struct row fixed[] = {
                { "raw A =16", NULL },
                { "raw A =12",
                  NO_ID "input byte size mismatch for input 'A' for model 'm'. Expected 16, got "
                        "12" },
                { "raw A =16; B FP32 1x4",
                  NO_ID "expected 1 inputs but got 2 inputs for model 'm'. Got input(s) ['A','B'], "
                        "but missing required input(s) ]. Please provide all required input(s)." },
        };
        static const struct row variable[] = {
                { "raw A =24", NULL },
                { "raw A =0", NULL },
                { "raw A =28",
                  NO_ID "input byte size mismatch for input 'A' for model 'm'. Expected 24, got "
                        "28" },
        };

        (void)state;
        RUN_ROWS(TWO, two_inputs);
        RUN_ROWS(RAW("FP32", "[-1, -1]"), two_variable);
        RUN_ROWS(RAW("STRING", "-1"), strings);
        RUN_ROWS(RAW("STRING", "[1, 2]"), strings);
        RUN_ROWS(RAW("FP32", "4"), fixed);
        RUN_ROWS(RAW("FP32", "[-1, 2]"), variable);
}

/* ---- what a request looks like afterwards ---------------------------------------------------- */

static void assert_shape(const struct request_input *in, const char *expected) {
        struct strbuf got;

        strbuf_init(&got, 0);
        shape_print(in->shape, in->n_dims, &got);
        assert_string_equal(strbuf_cstr(&got), expected);
        strbuf_done(&got);
}

/* The shape of the first input after a request that must be right. */
static void assert_prepared(const char *config, const char *request, const char *shape,
                            uint64_t batch_size) {
        struct fake_model *fake = fake_model_new(config);
        struct request    *req = parse_request(fake, request);

        for (unsigned again = 0; again < 2; again++) {
                assert_ok(request_prepare(req), request);
                assert_shape(req->first_input, shape);
                assert_int_equal(req->batch_size, batch_size);
                assert_string_equal(req->first_input->io->name, "A");
                assert_string_equal(req->first_input->name, "A");
        }
        request_free(req);
        fake_model_free(fake);
}

static void test_prepared_inputs(void **state) {
        (void)state;
        assert_prepared(RAW("FP32", "4"), "A FP32 3x4", "[3,4]", 3);
        assert_prepared(RAW("FP32", "4"), "A FP32 0x4", "[0,4]", 0);
        assert_prepared("name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: [3, 4] }",
                        "A FP32 3x4", "[3,4]", 0);
        /* The configuration's reshape, with and without a batch dimension. */
        assert_prepared(RAW("FP32", "1 reshape { shape: [] }"), "A FP32 3x1", "[3]", 3);
        assert_prepared(RAW("FP32", "[2, -1] reshape { shape: [1, -1, 2] }"), "A FP32 3x2x5",
                        "[3,1,5,2]", 3);
        assert_prepared("name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: [-1, 4, -1] "
                        "reshape { shape: [-1, 2, 2, -1] } }",
                        "A FP32 5x4x6", "[5,2,2,6]", 0);
        /* Raw inputs, whatever they are called. */
        assert_prepared(RAW("FP32", "4"), "raw raw_input =16", "[1,4]", 1);
        assert_prepared(RAW("FP32", "[-1, 2]"), "raw raw_input =24", "[1,3,2]", 1);
        assert_prepared(RAW("FP32", "-1"), "raw A", "[1,0]", 1);
        assert_prepared("name: 'm' input { name: 'A' data_type: TYPE_INT8 dims: -1 }", "raw A =7",
                        "[7]", 0);
        assert_prepared(RAW("STRING", "1"), "raw A =9", "[1,1]", 1);
        assert_prepared(RAW("STRING", "[1, 1]"), "raw A", "[1,1,1]", 1);
        assert_prepared(RAW("FP32", "[2, -1] reshape { shape: [-1, 2] }"), "raw A =24", "[1,3,2]",
                        1);
}

/* The length goes before the bytes, once. */
static void test_raw_strings(void **state) {
        struct fake_model          *fake = fake_model_new(RAW("STRING", "1"));
        struct request             *req = fake_request(fake);
        const struct request_input *in;

        (void)state;
        assert_ok(request_add_raw_input(req, "raw_input"), "raw");
        append_bytes(req, "raw_input", "hello", 3);
        append_bytes(req, "raw_input", "lo", 2);
        for (unsigned again = 0; again < 2; again++)
                assert_ok(request_prepare(req), "prepare");
        in = req->first_input;
        assert_string_equal(in->name, "A");
        assert_int_equal(in->byte_size, 9);
        assert_int_equal(in->n_chunks, 3);
        assert_int_equal(in->first_chunk->attributes.byte_size, 4);
        assert_memory_equal(in->first_chunk->base, "\5\0\0\0", 4);
        assert_memory_equal(in->first_chunk->next->base, "hel", 3);
        assert_memory_equal(in->last_chunk->base, "lo", 2);
        request_free(req);
        fake_model_free(fake);
}

static void assert_output_names(const struct request *req, const char *names) {
        char got[64] = "";

        for (uint32_t i = 0; i < req->n_output_names; i++) {
                strcat(got, req->output_names[i]);
                strcat(got, " ");
        }
        assert_string_equal(got, names);
}

static void test_prepared_outputs(void **state) {
        struct fake_model *fake = fake_model_new(TWO);
        struct request    *req = parse_request(fake, BOTH);

        (void)state;
        assert_ok(request_prepare(req), "all");
        assert_output_names(req, "OUTPUT0 OUTPUT1 ");
        assert_ok(request_add_output(req, "OUTPUT1"), "OUTPUT1");
        assert_ok(request_prepare(req), "one");
        assert_output_names(req, "OUTPUT1 ");
        assert_ok(request_add_output(req, "OUTPUT0"), "OUTPUT0");
        assert_ok(request_prepare(req), "both");
        assert_output_names(req, "OUTPUT1 OUTPUT0 ");
        request_remove_all_outputs(req);
        assert_ok(request_prepare(req), "all");
        assert_output_names(req, "OUTPUT0 OUTPUT1 ");
        request_free(req);
        fake_model_free(fake);
}

/* A request may be used again for ever: its memory does not grow. */
static void test_prepared_again_and_again(void **state) {
        struct fake_model *fake = fake_model_new(
                RAW("FP32", "[2, -1] reshape { shape: [-1, 2] }") "output { name: 'Y' data_type: "
                                                                  "TYPE_FP32 dims: 4 }");
        struct request *req = parse_request(fake, "A FP32 3x2x5");
        const char     *next;

        (void)state;
        assert_ok(request_prepare(req), "first");
        next = req->arena.next;
        for (unsigned i = 0; i < 100; i++)
                assert_ok(request_prepare(req), "again");
        assert_ptr_equal(req->arena.next, next);
        request_free(req);
        fake_model_free(fake);
}

static void test_short_of_memory(void **state) {
        struct fake_model *fake = fake_model_new(
                "name: 'm' max_batch_size: 8 input { name: 'A' data_type: TYPE_STRING dims: 1 "
                "reshape { shape: [1, 1] } } output { name: 'Y' data_type: TYPE_FP32 dims: 4 }");
        char          filler[1100];
        struct error *err;
        unsigned      n = 0;

        (void)state;
        memset(filler, 'i', sizeof(filler) - 1);
        filler[sizeof(filler) - 1] = '\0';
        do {
                struct request *req = parse_request(fake, "raw A =5");

                /* The memory inside of the struct is used up, and so is the first block. */
                assert_ok(request_set_id(req, filler), "id");
                req->arena.next = req->arena.end;
                mem_fail_after(++n);
                err = request_prepare(req);
                mem_fail_after(0);
                if (err != NULL)
                        assert_out_of_memory(err);
                else
                        assert_shape(req->first_input, "[1,1,1]");
                request_free(req);
        } while (err != NULL && n < 20);
        assert_in_range(n, 2, 19);
        fake_model_free(fake);
}

SUITE(request_prepare) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_number_and_names),
                cmocka_unit_test(test_optional_inputs),
                cmocka_unit_test(test_inputs_are_counted),
                cmocka_unit_test(test_batch_dimension),
                cmocka_unit_test(test_type_and_shape),
                cmocka_unit_test(test_without_batching),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_shape_tensors),
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_raw_errors),
                cmocka_unit_test(test_prepared_inputs),
                cmocka_unit_test(test_raw_strings),
                cmocka_unit_test(test_prepared_outputs),
                cmocka_unit_test(test_prepared_again_and_again),
                cmocka_unit_test(test_short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
