/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "config/config_check.h"
#include "config/ensemble_models.h"
#include "config_rows.h"

#define MAX_STEPS 8

#define MAP(field, model, ensemble) field " { key: '" model "' value: '" ensemble "' } "
#define IN(name, type, dims) "input { name: '" name "' data_type: " type " dims: " dims " } "
#define OUT(name, type, dims) "output { name: '" name "' data_type: " type " dims: " dims " } "
#define STEP(model, maps) "step { model_name: '" model "' model_version: -1 " maps "} "
#define ENSEMBLE(io, steps) "name: 'e' platform: 'ensemble' " io "ensemble_scheduling { " steps "}"
#define XY IN("X", "TYPE_FP32", "4") OUT("Y", "TYPE_FP32", "4")
#define I_TO_O(from, to) MAP("input_map", "I", from) MAP("output_map", "O", to)
#define MODEL(name, rest) "name: '" name "' backend: 'b' " rest
#define IO IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_FP32", "4")
#define DECOUPLED "model_transaction_policy { decoupled: true } "

struct models_row {
        const char *ensemble;
        const char *models[MAX_STEPS]; /* by step */
        const char *message;           /* NULL: it fits */
        const char *field;             /* of the error; NULL: any */
};

static const struct models_row rows[] = {
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))), { MODEL("a", IO) }, NULL, NULL },
        /* batch sizes */
        { ENSEMBLE("max_batch_size: 4 " XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", "max_batch_size: 4 " IO) },
          NULL,
          NULL },
        { ENSEMBLE("max_batch_size: 4 " XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", "max_batch_size: 3 " IO) },
          "ensemble e allows maximum batch size 4, but it contains model a which only allows "
          "maximum batch size to be 3",
          "ensemble_scheduling.step[0].model_name" },
        /* a model without batching gets the batch as its first dimension */
        { ENSEMBLE("max_batch_size: 4 " XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", "input { name: 'I' data_type: TYPE_FP32 dims: [ -1, 4 ] } "
                       "output { name: 'O' data_type: TYPE_FP32 dims: [ -1, 4 ] } ") },
          NULL,
          NULL },
        { ENSEMBLE("max_batch_size: 4 " XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IO) },
          NULL,
          NULL },
        { ENSEMBLE("max_batch_size: 4 " XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", "input { name: 'I' data_type: TYPE_FP32 dims: [ 2, 5 ] } " OUT(
                               "O", "TYPE_FP32", "4")) },
          "in ensemble e, ensemble tensor X: inconsistent shape: [-1,4] is inferred from model e "
          "while [2,5] is inferred from model a",
          "ensemble_scheduling.step[0].input_map[0]" },
        /* names */
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y") MAP("input_map", "J", "X"))),
          { MODEL("a", IO) },
          "in ensemble e, ensemble tensor X is mapping to non-existing input J in model a",
          "ensemble_scheduling.step[0].input_map[1]" },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IO IN("J", "TYPE_FP32", "4")) },
          "in ensemble e, input J in model a is not mapped to any ensemble tensors",
          "ensemble_scheduling.step[0]" },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IO "input { name: 'J' data_type: TYPE_FP32 dims: 4 optional: true } ") },
          NULL,
          NULL },
        { ENSEMBLE(XY, STEP("a", MAP("input_map", "I", "X") MAP("output_map", "P", "Y"))),
          { MODEL("a", IO) },
          "in ensemble e, ensemble tensor Y is mapped from non-existing output P in model a",
          "ensemble_scheduling.step[0].output_map[0]" },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IO OUT("O", "TYPE_FP32", "4")) },
          "in ensemble e, multiple outputs in model a are mapped to the same ensemble tensor Y",
          "ensemble_scheduling.step[0].output_map[0]" },
        { ENSEMBLE(XY, "step { model_name: 'a' model_namespace: 'n' " I_TO_O("X", "Y") "}"),
          { MODEL("a", IO IN("J", "TYPE_FP32", "4")) },
          "in ensemble e, input J in model n::a is not mapped to any ensemble tensors",
          NULL },
        /* types */
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IN("I", "TYPE_INT32", "4") OUT("O", "TYPE_FP32", "4")) },
          "in ensemble e, ensemble tensor X: inconsistent data type: TYPE_FP32 is inferred from "
          "model e while TYPE_INT32 is inferred from model a",
          "ensemble_scheduling.step[0].input_map[0]" },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { MODEL("a", IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_STRING", "4")), MODEL("b", IO) },
          "in ensemble e, ensemble tensor T: inconsistent data type: TYPE_STRING is inferred from "
          "model a while TYPE_FP32 is inferred from model b",
          "ensemble_scheduling.step[1].input_map[0]" },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_BF16", "4")) },
          "in ensemble e, ensemble tensor Y: inconsistent data type: TYPE_FP32 is inferred from "
          "model e while TYPE_BF16 is inferred from model a",
          "ensemble_scheduling.step[0].output_map[0]" },
        /* shapes: -1 fits all */
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { MODEL("a", IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_FP32", "[ -1, 16 ]")),
            MODEL("b", IN("I", "TYPE_FP32", "[ 3, 16 ]") OUT("O", "TYPE_FP32", "4")) },
          NULL,
          NULL },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { MODEL("a", IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_FP32", "[ -1, 16 ]")),
            MODEL("b", IN("I", "TYPE_FP32", "[ -1, 8 ]") OUT("O", "TYPE_FP32", "4")) },
          "in ensemble e, ensemble tensor T: inconsistent shape: [-1,16] is inferred from model a "
          "while [-1,8] is inferred from model b",
          "ensemble_scheduling.step[1].input_map[0]" },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { MODEL("a", "max_batch_size: 8 " IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_FP32", "16")),
            MODEL("b", IN("I", "TYPE_FP32", "[ -1, 16 ]") OUT("O", "TYPE_FP32", "4")) },
          NULL,
          NULL },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { MODEL("a", "max_batch_size: 8 " IN("I", "TYPE_FP32", "4") OUT("O", "TYPE_FP32", "16")),
            MODEL("b", IN("I", "TYPE_FP32", "8") OUT("O", "TYPE_FP32", "4")) },
          "in ensemble e, ensemble tensor T: inconsistent shape: [-1,16] is inferred from model a "
          "while [8] is inferred from model b",
          NULL },
        /* the ensemble's own reshape is what its steps see */
        { ENSEMBLE("input { name: 'X' data_type: TYPE_FP32 dims: 4 reshape { shape: [ 2, 2 ] } "
                   "} " OUT("Y", "TYPE_FP32", "4"),
                   STEP("a", I_TO_O("X", "Y"))),
          { MODEL("a", IN("I", "TYPE_FP32", "[ 2, 2 ]") OUT("O", "TYPE_FP32", "4")) },
          NULL,
          NULL },
        /* decoupled models */
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { MODEL("a", IO DECOUPLED), MODEL("b", IO DECOUPLED) },
          NULL,
          NULL },
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T"))
                               STEP("b", I_TO_O("T", "Y") MAP("input_map", "J", "X"))),
          { MODEL("a", IO DECOUPLED), MODEL("b", IO IN("J", "TYPE_FP32", "4")) },
          "in ensemble e, step of model 'b' receives inputs originated from different decoupled "
          "models",
          "ensemble_scheduling.step[1].input_map[1]" },
        { ENSEMBLE(XY OUT("T", "TYPE_FP32", "4"),
                   STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("X", "Y"))),
          { MODEL("a", IO DECOUPLED), MODEL("b", IO) },
          "in ensemble e, step of model 'e' receives inputs originated from different decoupled "
          "models",
          "output[1]" },
        /* a model that nobody knows is not checked */
        { ENSEMBLE(XY, STEP("a", I_TO_O("X", "T")) STEP("b", I_TO_O("T", "Y"))),
          { NULL, MODEL("b", IO) },
          NULL,
          NULL },
};

static void open_models(const struct models_row *row, struct model_config **configs,
                        struct ensemble_step_model *models, bool may_be_completed) {
        for (unsigned i = 0; i < MAX_STEPS; i++) {
                configs[i] = row->models[i] != NULL ? config_of(row->models[i]) : NULL;
                models[i] = (struct ensemble_step_model){ .may_be_completed = may_be_completed };
                if (configs[i] == NULL)
                        continue;
                models[i].pb = configs[i]->pb;
                models[i].is_decoupled = model_config_is_decoupled(configs[i]);
        }
}

static void run_models(const struct models_row *row, bool may_be_completed) {
        struct model_config       *ensemble = config_of(row->ensemble);
        struct model_config       *configs[MAX_STEPS];
        struct ensemble_step_model models[MAX_STEPS];
        struct ensemble_graph     *g;
        struct error              *err;
        unsigned                   n = 0;

        open_models(row, configs, models, may_be_completed);
        assert_null(ensemble_graph_new(ensemble->pb, &g));
        assert_accepted(ensemble_graph_check(g), row->ensemble);
        do {
                mem_fail_once(++n);
                err = ensemble_models_check(g, models);
        } while (expect_or_shortage(err, ERR_INVALID_ARG, row->message));
        err = ensemble_models_check(g, models);
        if (err != NULL && row->field != NULL)
                assert_string_equal(err->field, row->field);
        assert_outcome(err, ERR_INVALID_ARG, row->message, row->ensemble);
        ensemble_graph_free(g);
        for (unsigned i = 0; i < MAX_STEPS; i++)
                model_config_free(configs[i]);
        model_config_free(ensemble);
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                run_models(&rows[i], false);
}

/* What a backend may still complete is not missed; what is there already counts. */
static void test_incomplete_models(void **state) {
        static const struct models_row incomplete[] = {
                { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))), { MODEL("a", "") }, NULL, NULL },
                { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
                  { MODEL("a", "input { name: 'I' } output { name: 'O' } ") },
                  NULL,
                  NULL },
                { ENSEMBLE("max_batch_size: 4 " XY, STEP("a", I_TO_O("X", "Y"))),
                  { MODEL("a", IO) },
                  NULL,
                  NULL },
                { ENSEMBLE(XY, STEP("a", I_TO_O("X", "Y"))),
                  { MODEL("a", "input { name: 'I' data_type: TYPE_INT8 } output { name: 'O' } ") },
                  "in ensemble e, ensemble tensor X: inconsistent data type: TYPE_FP32 is inferred "
                  "from model e while TYPE_INT8 is inferred from model a",
                  NULL },
                { ENSEMBLE(XY, STEP("a", MAP("input_map", "J", "X") MAP("output_map", "O", "Y"))),
                  { MODEL("a", "input { name: 'I' } ") },
                  "in ensemble e, ensemble tensor X is mapping to non-existing input J in model a",
                  NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(incomplete); i++)
                run_models(&incomplete[i], true);
}

/* The text format keeps one entry of a map for each key; a message that code made may have two. */
static void test_input_mapped_twice(void **state) {
        static const char          text[] = ENSEMBLE(XY IN("Z", "TYPE_FP32", "4"),
                                                     STEP("a", I_TO_O("X", "Y") MAP("input_map", "J", "Z")));
        struct model_config       *ensemble = config_of(text);
        struct model_config       *model = config_of(MODEL("a", IO));
        struct ensemble_step_model models[] = { { .pb = model->pb } };
        struct ensemble_graph     *g;
        struct error              *err;

        (void)state;
        ensemble->pb->ensemble_scheduling->step[0]->input_map[1]->key[0] = 'I';
        assert_null(ensemble_graph_new(ensemble->pb, &g));
        err = ensemble_models_check(g, models);
        assert_non_null(err);
        assert_string_equal(err->field, "ensemble_scheduling.step[0].input_map[1]");
        assert_outcome(err, ERR_INVALID_ARG,
                       "in ensemble e, input I in model a is mapped to multiple ensemble tensors",
                       text);
        ensemble_graph_free(g);
        model_config_free(model);
        model_config_free(ensemble);
}

/* X -> a -> T -> d* -> U -> a -> V, and U -> d* -> W */
static void test_streams(void **state) {
        static const struct models_row row = {
                ENSEMBLE(IN("X", "TYPE_FP32", "4") OUT("W", "TYPE_FP32", "4"),
                         STEP("b", I_TO_O("U", "V")) STEP("d", I_TO_O("V", "W"))
                                 STEP("a", I_TO_O("X", "T")) STEP("d", I_TO_O("T", "U"))),
                { MODEL("b", IO), MODEL("d", IO DECOUPLED), MODEL("a", IO),
                  MODEL("d", IO DECOUPLED) },
                NULL,
                NULL
        };
        static const struct {
                const char *tensor;
                uint32_t    stream;
        } expected[] = { { "X", 0 }, { "T", 0 }, { "U", 1 }, { "V", 1 }, { "W", 2 } };
        struct model_config       *ensemble = config_of(row.ensemble);
        struct model_config       *configs[MAX_STEPS];
        struct ensemble_step_model models[MAX_STEPS];
        struct ensemble_graph     *g;
        uint32_t                   streams[5], n;

        (void)state;
        open_models(&row, configs, models, false);
        assert_null(ensemble_graph_new(ensemble->pb, &g));
        assert_int_equal(g->n_tensors, 5);
        assert_null(ensemble_models_streams(g, models, streams, &n));
        assert_int_equal(n, 2);
        for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
                uint32_t t = 0;

                while (strcmp(g->tensors[t].name, expected[i].tensor) != 0)
                        t++;
                assert_int_equal(streams[t], expected[i].stream);
        }
        ensemble_graph_free(g);
        for (unsigned i = 0; i < MAX_STEPS; i++)
                model_config_free(configs[i]);
        model_config_free(ensemble);
}

static void test_memory_short(void **state) {
        struct model_config       *ensemble = config_of(rows[0].ensemble);
        struct model_config       *configs[MAX_STEPS];
        struct ensemble_step_model models[MAX_STEPS];
        struct ensemble_graph     *g;
        struct error              *err;
        unsigned                   n = 0;

        (void)state;
        open_models(&rows[0], configs, models, false);
        assert_null(ensemble_graph_new(ensemble->pb, &g));
        do {
                mem_fail_after(++n);
                err = ensemble_models_check(g, models);
                mem_fail_after(0);
                if (err != NULL)
                        assert_outcome(err, ERR_UNAVAILABLE, "out of memory", rows[0].ensemble);
        } while (err != NULL);
        assert_true(n > 1);
        ensemble_graph_free(g);
        for (unsigned i = 0; i < MAX_STEPS; i++)
                model_config_free(configs[i]);
        model_config_free(ensemble);
}

SUITE(ensemble_models) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_incomplete_models),
                cmocka_unit_test(test_input_mapped_twice),
                cmocka_unit_test(test_streams),
                cmocka_unit_test(test_memory_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
