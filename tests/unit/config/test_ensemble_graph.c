/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "config/ensemble_graph.h"
#include "config_rows.h"

/* A diamond whose steps are in the wrong order, one of which reads a tensor twice; T is an output,
 * too. */
static const char diamond[] =
        "name: 'e' platform: 'ensemble' "
        "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
        "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } "
        "output { name: 'T' data_type: TYPE_FP32 dims: 1 } "
        "ensemble_scheduling { "
        "step { model_name: 'join' model_version: 3 model_namespace: 'n' "
        "input_map { key: 'A' value: 'T' } input_map { key: 'B' value: 'U' } "
        "input_map { key: 'C' value: 'T' } output_map { key: 'O' value: 'Y' } } "
        "step { model_name: 'left' model_version: -1 input_map { key: 'I' value: 'X' } "
        "output_map { key: 'O' value: 'T' } } "
        "step { model_name: 'right' model_version: -1 input_map { key: 'I' value: 'X' } "
        "output_map { key: 'O' value: 'U' } } }";

static const struct ensemble_tensor *find_tensor(const struct ensemble_graph *g, const char *name) {
        for (uint32_t i = 0; i < g->n_tensors; i++)
                if (strcmp(g->tensors[i].name, name) == 0)
                        return &g->tensors[i];
        fail_msg("there is no tensor %s", name);
        return NULL;
}

static void assert_readers(const struct ensemble_tensor *t, const uint32_t *steps, uint32_t n) {
        assert_int_equal(t->n_readers, n);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(t->readers[i], steps[i]);
}

static void test_diamond(void **state) {
        struct model_config          *c = config_of(diamond);
        struct ensemble_graph        *g;
        const struct ensemble_tensor *x, *y, *t, *u;

        (void)state;
        assert_null(ensemble_graph_new(c->pb, &g));
        assert_null(ensemble_graph_check(g));
        assert_int_equal(g->n_steps, 3);
        assert_string_equal(g->steps[0].model, "join");
        assert_string_equal(g->steps[0].namespace, "n");
        assert_int_equal(g->steps[0].version, 3);
        assert_int_equal(g->steps[0].n_inputs, 3);
        assert_string_equal(g->steps[0].inputs[2].name, "C");
        assert_string_equal(g->tensors[g->steps[0].inputs[2].tensor].name, "T");
        assert_string_equal(g->steps[1].namespace, "");

        x = find_tensor(g, "X");
        y = find_tensor(g, "Y");
        t = find_tensor(g, "T");
        u = find_tensor(g, "U");
        assert_int_equal(g->n_tensors, 4);
        assert_int_equal(x->writer, ENSEMBLE_NONE);
        assert_int_equal(x->input, 0);
        assert_int_equal(x->output, ENSEMBLE_NONE);
        assert_readers(x, (uint32_t[]){ 1, 2 }, 2);
        assert_int_equal(t->writer, 1);
        assert_int_equal(t->output, 1);
        assert_readers(t, (uint32_t[]){ 0 }, 1); /* once, though it is read twice */
        assert_int_equal(u->writer, 2);
        assert_int_equal(u->output, ENSEMBLE_NONE);
        assert_int_equal(y->writer, 0);
        assert_int_equal(y->output, 0);
        assert_readers(y, NULL, 0);
        assert_ptr_equal(&g->tensors[g->inputs[0]], x);
        assert_ptr_equal(&g->tensors[g->outputs[0]], y);
        assert_ptr_equal(&g->tensors[g->outputs[1]], t);

        assert_int_equal(g->n_ordered, 3);
        assert_int_equal(g->order[0] + g->order[1], 3); /* left and right, in either order */
        assert_int_equal(g->order[2], 0);
        ensemble_graph_free(g);
        model_config_free(c);
}

/* What is not connected is in the graph, and not in the order. */
static void test_unconnected(void **state) {
        struct model_config *c =
                config_of("name: 'e' input { name: 'X' } input { name: 'N' } output { name: 'Y' } "
                          "output { name: 'M' } ensemble_scheduling { "
                          "step { model_name: 'a' input_map { key: 'I' value: 'X' } "
                          "output_map { key: 'O' value: 'Y' } } "
                          "step { model_name: 'b' input_map { key: 'I' value: 'T' } "
                          "output_map { key: 'O' value: 'T' } } }");
        struct ensemble_graph *g;

        (void)state;
        assert_null(ensemble_graph_new(c->pb, &g));
        assert_int_equal(g->n_ordered, 1);
        assert_int_equal(g->order[0], 0);
        assert_true(g->steps[0].is_connected);
        assert_false(g->steps[1].is_connected);
        assert_int_equal(g->inputs[1], ENSEMBLE_NONE);
        assert_int_equal(g->outputs[1], ENSEMBLE_NONE);
        assert_false(find_tensor(g, "T")->is_connected);
        ensemble_graph_free(g);
        model_config_free(c);
}

/* Short of memory there is no graph, and nothing is lost. */
static void test_memory_short(void **state) {
        struct model_config   *c = config_of(diamond);
        struct ensemble_graph *g;
        struct error          *err;
        unsigned               n = 0;

        (void)state;
        do {
                mem_fail_after(++n);
                err = ensemble_graph_new(c->pb, &g);
                mem_fail_after(0);
                if (err != NULL)
                        assert_outcome(err, ERR_UNAVAILABLE, "out of memory", diamond);
        } while (err != NULL);
        assert_true(n > 1);
        ensemble_graph_free(g);
        model_config_free(c);
}

SUITE(ensemble_graph) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_diamond),
                cmocka_unit_test(test_unconnected),
                cmocka_unit_test(test_memory_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
