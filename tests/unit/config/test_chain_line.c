/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/error.h"
#include "base/str.h"
#include "config/chain_line.h"
#include "config/model_config.h"
#include "config/model_io.h"
#include "shortage.h"

#include <stdlib.h>
#include <string.h>

#define PARAMETER(key, value) "parameters { key: '" key "' value { string_value: '" value "' } } "

static struct model_config *config_of(const char *text) {
        struct model_config *c;
        struct error        *err = model_config_read_text(str_of(text), "config.pbtxt", &c);

        if (err != NULL)
                fail_msg("%s: %s", text, err->message);
        return c;
}

static struct chain_line read_well(const char *text) {
        struct model_config *c = config_of(text);
        struct chain_line    line;
        struct error        *err = chain_line_read(c, &line);

        if (err != NULL)
                fail_msg("%s: %s", text, err->message);
        model_config_free(c);
        return line;
}

static void expect_refusal(const char *text, const char *message) {
        struct model_config *c = config_of(text);
        struct chain_line    line;
        struct error        *err = chain_line_read(c, &line);

        assert_non_null(err);
        assert_string_equal(err->message, message);
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        model_config_free(c);
}

static void test_what_is_none(void **state) {
        struct chain_line line;

        (void)state;
        line = read_well("name: 'A'");
        assert_int_equal(line.kind, CHAIN_NONE);
        /* Taken away by a load. */
        line = read_well("name: 'A' " PARAMETER("next", "") PARAMETER("next_map", "X"));
        assert_int_equal(line.kind, CHAIN_NONE);
        assert_int_equal(line.n_stages, 0);
        chain_line_done(&line);
}

static void test_next(void **state) {
        struct chain_line line = read_well(
                "name: 'A' " PARAMETER("next", " B : 2 ") PARAMETER("next_map", "O0:I1, O1 : I0")
                        PARAMETER("chain_batching", "keep") PARAMETER("chain_allow_end", "true")
                                PARAMETER("chain_autoload", "false"));

        (void)state;
        assert_int_equal(line.kind, CHAIN_NEXT);
        assert_int_equal(line.n_stages, 1);
        assert_string_equal(line.stages[0].name, "B");
        assert_int_equal(line.stages[0].version, 2);
        assert_int_equal(line.n_map, 2);
        assert_string_equal(line.map[1].output, "O1");
        assert_string_equal(line.map[1].input, "I0");
        assert_true(line.keeps_batches);
        assert_true(line.may_end);
        assert_true(line.is_strict);
        chain_line_done(&line);
        line = read_well("name: 'A' " PARAMETER("next", "B"));
        assert_int_equal(line.stages[0].version, -1);
        assert_false(line.keeps_batches || line.may_end || line.is_strict);
        chain_line_done(&line);
}

static void test_stages(void **state) {
        struct chain_line line =
                read_well("name: 'p' platform: 'chain' " PARAMETER("stages", "a, b:3 ,a"));

        (void)state;
        assert_int_equal(line.kind, CHAIN_STAGES);
        assert_int_equal(line.n_stages, 3);
        assert_string_equal(line.stages[1].name, "b");
        assert_int_equal(line.stages[1].version, 3);
        assert_string_equal(line.stages[2].name, "a");
        chain_line_done(&line);
}

static void test_refusals(void **state) {
        (void)state;
        expect_refusal("name: 'A' " PARAMETER("next", "B,C"),
                       "parameter 'next' of model 'A' is 'B,C': chains are linear; use "
                       "ensemble_scheduling");
        expect_refusal("name: 'A' " PARAMETER("next", "A:2"),
                       "chain of model 'A' is circular: A -> A");
        expect_refusal("name: 'A' " PARAMETER("next", ":2"),
                       "parameter 'next' of model 'A' has an empty name");
        expect_refusal("name: 'A' " PARAMETER("next", "B:0"),
                       "parameter 'next' of model 'A': '0' is no version, expected <model> or "
                       "<model>:<version>");
        expect_refusal("name: 'A' " PARAMETER("next", "B") PARAMETER("next_map", "X"),
                       "parameter 'next_map' of model 'A': 'X' is not <output>:<input>");
        expect_refusal("name: 'A' " PARAMETER("next", "B") PARAMETER("next_map", "X:I,Y:I"),
                       "parameter 'next_map' of model 'A' names input 'I' twice");
        expect_refusal("name: 'A' " PARAMETER("next", "B") PARAMETER("chain_batching", "hold"),
                       "parameter 'chain_batching' of model 'A' must be 'rebatch' or 'keep', got "
                       "'hold'");
        expect_refusal("name: 'A' " PARAMETER("next", "B") PARAMETER("chain_allow_end", "yes"),
                       "parameter 'chain_allow_end' of model 'A' must be 'false' or 'true', got "
                       "'yes'");
        expect_refusal(
                "name: 'e' platform: 'ensemble' ensemble_scheduling { } " PARAMETER("next", "B"),
                "parameter 'next' is not supported for ensemble 'e': make a model of platform "
                "'chain' with it as a stage");
        expect_refusal("name: 'p' platform: 'chain'",
                       "must specify parameter 'stages' for chain 'p'");
        expect_refusal("name: 'p' platform: 'chain' " PARAMETER("stages", "a,,b"),
                       "parameter 'stages' of model 'p' has an empty name");
        expect_refusal("name: 'p' platform: 'chain' " PARAMETER("stages", "a,p"),
                       "chain of model 'p' is circular: p -> p");
        expect_refusal("name: 'p' platform: 'chain' " PARAMETER("stages", "a")
                               PARAMETER("next", "b"),
                       "parameter 'next' of model 'p' does not go with platform 'chain', which has "
                       "'stages'");
        expect_refusal(
                "name: 'p' platform: 'chain' instance_group { count: 1 } " PARAMETER("stages", "a"),
                "instance group should not be specified for chain 'p'");
        expect_refusal("name: 'p' platform: 'chain' dynamic_batching { } " PARAMETER("stages", "a"),
                       "scheduling should not be specified for chain 'p': its stages have their "
                       "own");
}

/* ---- edges ----------------------------------------------------------------------------------- */

static struct model_io_set *io_of(const char *text) {
        struct model_config *c = config_of(text);
        struct model_io_set *io;

        assert_null(model_io_set_new(c, &io));
        model_config_free(c);
        return io;
}

#define IN(name, type, dims) "input { name: '" name "' data_type: " type " dims: " dims " } "
#define OUT(name, type, dims) "output { name: '" name "' data_type: " type " dims: " dims " } "
#define BATCH "max_batch_size: 4 "

struct edge_row {
        const char       *from;
        const char       *to;
        struct chain_pair map;     /* none when its output is NULL */
        const char       *outputs; /* the index of the output for each input, '-' for none */
        enum chain_bridge bridge;  /* of the first input */
        const char       *message; /* instead */
};

static void check_edge(const struct edge_row *row) {
        struct model_io_set *from = io_of(row->from), *to = io_of(row->to);
        struct chain_end     ends[] = { { "A", from }, { "B", to } };
        struct chain_edge   *edge = NULL;
        struct error        *err;
        unsigned             n = 0;

        do {
                free(STEAL(edge));
                mem_fail_once(++n);
                err = chain_edge_new(&ends[0], &ends[1], &row->map, row->map.output != NULL, &edge);
        } while (expect_or_shortage(err, ERR_INVALID_ARG, row->message));
        free(STEAL(edge));
        err = chain_edge_new(&ends[0], &ends[1], &row->map, row->map.output != NULL, &edge);
        if (row->message != NULL) {
                assert_non_null(err);
                assert_string_equal(err->message, row->message);
        } else {
                if (err != NULL)
                        fail_msg("%s", err->message);
                assert_int_equal(edge->n_inputs, strlen(row->outputs));
                for (uint32_t i = 0; i < edge->n_inputs; i++) {
                        assert_int_equal(edge->inputs[i].is_linked, row->outputs[i] != '-');
                        if (edge->inputs[i].is_linked)
                                assert_int_equal(edge->inputs[i].output, row->outputs[i] - '0');
                }
                assert_int_equal(edge->inputs[0].bridge, row->bridge);
        }
        error_free(err);
        free(edge);
        model_io_set_free(from);
        model_io_set_free(to);
}

static void test_edges(void **state) {
        static const struct edge_row rows[] = {
                /* By name, whatever the order; by position; the map wins. */
                { .from = BATCH OUT("X", "TYPE_FP32", "1") OUT("Y", "TYPE_FP32", "1"),
                  .to = BATCH   IN("Y", "TYPE_FP32", "1") IN("X", "TYPE_FP32", "1"),
                  .outputs = "10" },
                { .from = BATCH OUT("P", "TYPE_FP32", "1") OUT("Q", "TYPE_FP32", "1"),
                  .to = BATCH   IN("Y", "TYPE_FP32", "1") IN("X", "TYPE_FP32", "1"),
                  .outputs = "01" },
                { .from = BATCH OUT("X", "TYPE_FP32", "1") OUT("Y", "TYPE_FP32", "1"),
                  .to = BATCH   IN("X", "TYPE_FP32", "1"),
                  .map = { (char *)"Y", (char *)"X" },
                  .outputs = "1" },
                /* An optional input needs nothing. */
                { .from = BATCH OUT("X", "TYPE_FP32", "1"),
                  .to = BATCH   IN("X", "TYPE_FP32",
                                   "1") "input { name: 'Z' data_type: TYPE_FP32 dims: 1 "
                                        "optional: true }",
                  .outputs = "0-" },
                /* Dims that are not known fit. */
                { .from = BATCH OUT("X", "TYPE_FP32", "[-1, 3]"),
                  .to = BATCH   IN("X", "TYPE_FP32", "[2, -1]"),
                  .outputs = "0" },
                /* The batch dimension. */
                { .from = OUT("X", "TYPE_FP32", "3"),
                  .to = BATCH IN("X", "TYPE_FP32", "3"),
                  .outputs = "0",
                  .bridge = CHAIN_ADD_ONE },
                { .from = BATCH OUT("X", "TYPE_FP32", "3"),
                  .to = IN("X", "TYPE_FP32", "3"),
                  .outputs = "0",
                  .bridge = CHAIN_DROP_ONE },
                { .from = OUT("X", "TYPE_FP32", "[-1, 3]"),
                  .to = BATCH IN("X", "TYPE_FP32", "3"),
                  .outputs = "0" },
                { .from = BATCH OUT("X", "TYPE_FP32", "3"),
                  .to = IN("X", "TYPE_FP32", "[8, 3]"),
                  .outputs = "0" },
                /* What does not fit. */
                { .from = BATCH OUT("X", "TYPE_FP32", "1"),
                  .to = BATCH   IN("X", "TYPE_INT64", "1"),
                  .message =
                          "output 'X' of model 'A' does not fit input 'X' of its next model 'B': "
                          "data types FP32 and INT64" },
                { .from = BATCH OUT("X", "TYPE_FP32", "3"),
                  .to = BATCH   IN("X", "TYPE_FP32", "4"),
                  .message =
                          "output 'X' of model 'A' does not fit input 'X' of its next model 'B': "
                          "shapes [-1,3] and [-1,4]" },
                { .from = BATCH OUT("X", "TYPE_FP32", "1"),
                  .to = BATCH   IN("P", "TYPE_FP32", "1") IN("Q", "TYPE_FP32", "1"),
                  .message = "outputs ['X'] of model 'A' match inputs ['P','Q'] of its next model "
                             "'B' neither by name nor by position; give 'next_map'" },
                { .from = BATCH OUT("X", "TYPE_FP32", "1"),
                  .to = BATCH   IN("P", "TYPE_FP32", "1"),
                  .map = { (char *)"W", (char *)"P" },
                  .message = "'next_map' names output 'W', which model 'A' does not have" },
                { .from = BATCH OUT("X", "TYPE_FP32", "1"),
                  .to = BATCH   IN("P", "TYPE_FP32", "1"),
                  .map = { (char *)"X", (char *)"W" },
                  .message = "'next_map' names input 'W', which next model 'B' does not have" },
                { .from = BATCH OUT("X", "TYPE_FP32", "1"),
                  .to = BATCH   IN("P", "TYPE_FP32", "1") IN("Q", "TYPE_FP32", "1"),
                  .map = { (char *)"X", (char *)"P" },
                  .message = "'next_map' of model 'A' does not name input 'Q' of its next model "
                             "'B'" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                check_edge(&rows[i]);
}

SUITE(chain_line) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_none), cmocka_unit_test(test_next),
                cmocka_unit_test(test_stages),       cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_edges),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
