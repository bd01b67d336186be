/* SPDX-License-Identifier: BSD-3-Clause */
/* Who needs whom: orders of loading and unloading, cycles, and random graphs against a plain model.
 */
#include "suite.h"

#include "base/compiler.h"
#include "repo/model_graph.h"
#include "shortage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "a: b c; b: c" */
static struct model_graph *graph_of(const char *text) {
        struct model_graph *g = model_graph_new();
        char               *copy = strdup(text), *rest = NULL;

        for (char *line = strtok_r(copy, ";", &rest); line != NULL;
             line = strtok_r(NULL, ";", &rest)) {
                const char *needs[16];
                size_t      n = 0;
                char       *more = NULL;
                char       *name = strtok_r(line, " :", &more);

                for (char *word; (word = strtok_r(NULL, " :", &more)) != NULL;)
                        needs[n++] = word;
                model_graph_set(g, name, needs, n);
        }
        free(copy);
        return g;
}

static void assert_names(struct model_order *o, const char *expected) {
        char   text[256] = "";
        size_t len = 0;

        for (size_t i = 0; i < o->n; i++)
                len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
                                        o->names[i]);
        assert_string_equal(text, expected);
        model_order_done(o);
}

static void assert_order(const char *graph, const char *model, const char *expected) {
        struct model_graph *g = graph_of(graph);
        struct model_order  o;

        assert_true(model_graph_order(g, &model, 1, &o));
        assert_names(&o, expected);
        model_graph_free(g);
}

static void test_needs_come_first(void **state) {
        (void)state;
        assert_order("", "a", "a");
        assert_order("a: b", "a", "b a");
        assert_order("a: b c; b: c", "a", "c b a");
        assert_order("a: b c; b: d; c: d", "a", "d b c a"); /* a diamond: d once */
        assert_order("a: b b b", "a", "b a");
        assert_order("a: b; x: y", "a", "b a"); /* others are left alone */
}

static void test_several_keep_their_order(void **state) {
        static const char *const models[] = { "z", "a", "m", "z", "new", "new" };
        struct model_graph      *g = graph_of("a: m");
        struct model_order       o;

        (void)state;
        assert_true(model_graph_order(g, models, ARRAY_LEN(models), &o));
        assert_names(&o, "z m a new");
        model_graph_free(g);
}

static void assert_cycle(const char *graph, const char *model, const char *expected) {
        struct model_graph *g = graph_of(graph);
        struct model_order  o;
        AUTO_CHARS          text = NULL;

        assert_false(model_graph_order(g, &model, 1, &o));
        assert_null(o.names);
        model_graph_find_cycle(g, model, &o);
        text = model_order_print_cycle(&o);
        assert_string_equal(text, expected);
        {
                AUTO_ERROR err = model_order_circular_chain("m", &o);
                AUTO_CHARS of_chain = mem_printf("chain of model 'm' is circular: %s", expected);

                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, of_chain);
        }
        model_order_done(&o);
        model_graph_free(g);
}

static void test_cycles(void **state) {
        (void)state;
        assert_cycle("a: a", "a", "a -> a");
        assert_cycle("a: b; b: a", "a", "a -> b -> a");
        assert_cycle("a: b; b: c; c: d b", "a", "b -> c -> b");
}

static void test_dependents(void **state) {
        struct model_graph *g = graph_of("a: b; b: c; d: c; e: f");
        struct model_order  o;

        (void)state;
        model_graph_dependents(g, "c", &o);
        assert_names(&o, "a b d");
        model_graph_dependents(g, "a", &o);
        assert_names(&o, "");
        model_graph_dependents(g, "unknown", &o);
        assert_names(&o, "");
        model_graph_free(g);
}

static void test_dependents_in_a_cycle(void **state) {
        struct model_graph *g = graph_of("a: b; b: a; c: a");
        struct model_order  o;

        (void)state;
        model_graph_dependents(g, "a", &o);
        assert_names(&o, "b c");
        model_graph_free(g);
}

static void test_changes(void **state) {
        struct model_graph *g = graph_of("a: b c; d: a");
        struct model_order  o;

        (void)state;
        model_graph_set(g, "a", (const char *const[]){ "c", "x" }, 2);
        model_graph_dependents(g, "b", &o);
        assert_names(&o, "");
        model_graph_dependents(g, "x", &o);
        assert_names(&o, "d a");
        model_graph_remove(g, "a");
        model_graph_dependents(g, "x", &o);
        assert_names(&o, "");
        model_graph_dependents(g, "a", &o); /* d goes on needing it */
        assert_names(&o, "d");
        model_graph_set(g, "self", (const char *const[]){ "self" }, 1);
        model_graph_remove(g, "self");
        model_graph_remove(g, "d");
        model_graph_remove(g, "never");
        model_graph_dependents(g, "a", &o);
        assert_names(&o, "");
        model_graph_free(g);
}

/* No recursion: a line of many models. */
static void test_deep(void **state) {
        enum { N = 20000 };
        struct model_graph *g = model_graph_new();
        struct model_order  o;
        char                name[16], next[16];
        const char         *need = next, *first = "m0";

        (void)state;
        for (unsigned i = 0; i < N; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                snprintf(next, sizeof(next), "m%u", i + 1);
                model_graph_set(g, name, &need, 1);
        }
        assert_true(model_graph_order(g, &first, 1, &o));
        assert_int_equal(o.n, N + 1);
        assert_string_equal(o.names[0], next);
        assert_string_equal(o.names[N], "m0");
        model_order_done(&o);
        model_graph_dependents(g, next, &o);
        assert_int_equal(o.n, N);
        assert_string_equal(o.names[0], "m0");
        model_order_done(&o);
        model_graph_free(g);
}

/* ---- random graphs --------------------------------------------------------------------------- */

#define N_NODES 9

static unsigned place_of(const struct model_order *o, unsigned node) {
        char name[2] = { (char)('a' + node), '\0' };

        for (unsigned i = 0; i < o->n; i++)
                if (strcmp(o->names[i], name) == 0)
                        return i;
        return UINT32_MAX;
}

/* reaches[i][j]: i needs j, directly or not. */
static void close_over(bool reaches[N_NODES][N_NODES]) {
        for (unsigned k = 0; k < N_NODES; k++)
                for (unsigned i = 0; i < N_NODES; i++)
                        for (unsigned j = 0; j < N_NODES; j++)
                                reaches[i][j] |= reaches[i][k] && reaches[k][j];
}

static void check_node(struct model_graph *g, bool needs[N_NODES][N_NODES], unsigned node) {
        bool               reaches[N_NODES][N_NODES];
        bool               has_cycle = false;
        char               name[2] = { (char)('a' + node), '\0' };
        const char        *model = name;
        struct model_order o;

        memcpy(reaches, needs, sizeof(reaches));
        close_over(reaches);
        for (unsigned i = 0; i < N_NODES; i++)
                has_cycle |= reaches[i][i] && (i == node || reaches[node][i]);
        assert_true(model_graph_order(g, &model, 1, &o) != has_cycle);
        for (unsigned i = 0; i < N_NODES && !has_cycle; i++) {
                assert_true((place_of(&o, i) != UINT32_MAX) == (i == node || reaches[node][i]));
                for (unsigned j = 0; j < N_NODES; j++)
                        if (needs[i][j] && place_of(&o, i) != UINT32_MAX)
                                assert_true(place_of(&o, j) < place_of(&o, i));
        }
        model_order_done(&o);
        model_graph_dependents(g, name, &o);
        for (unsigned i = 0; i < N_NODES; i++) {
                if (i != node)
                        assert_true((place_of(&o, i) != UINT32_MAX) == reaches[i][node]);
                for (unsigned j = 0; j < N_NODES; j++)
                        if (needs[i][j] && !reaches[j][i] && place_of(&o, i) != UINT32_MAX &&
                            place_of(&o, j) != UINT32_MAX)
                                assert_true(place_of(&o, i) < place_of(&o, j));
        }
        model_order_done(&o);
}

static void test_random_graphs(void **state) {
        uint64_t random = UINT64_C(0x9e3779b97f4a7c15);

        (void)state;
        for (unsigned round = 0; round < 2000; round++) {
                struct model_graph *g = model_graph_new();
                bool                needs[N_NODES][N_NODES] = { { false } };

                for (unsigned change = 0; change < 12; change++) {
                        const char *names[4];
                        char        texts[4][2];
                        unsigned    node, n;

                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        node = (unsigned)(random >> 8) % N_NODES;
                        n = (unsigned)(random >> 16) % 4;
                        memset(needs[node], 0, sizeof(needs[node]));
                        for (unsigned i = 0; i < n; i++) {
                                unsigned other = (unsigned)(random >> (20 + 4 * i)) % N_NODES;

                                needs[node][other] = true;
                                texts[i][0] = (char)('a' + other);
                                texts[i][1] = '\0';
                                names[i] = texts[i];
                        }
                        texts[3][0] = (char)('a' + node);
                        texts[3][1] = '\0';
                        if (n == 0 && change % 2 == 0)
                                model_graph_remove(g, texts[3]);
                        else
                                model_graph_set(g, texts[3], names, n);
                }
                for (unsigned node = 0; node < N_NODES; node++)
                        check_node(g, needs, node);
                model_graph_free(g);
        }
}

SUITE(model_graph) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_needs_come_first),
                cmocka_unit_test(test_several_keep_their_order),
                cmocka_unit_test(test_cycles),
                cmocka_unit_test(test_dependents),
                cmocka_unit_test(test_dependents_in_a_cycle),
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_deep),
                cmocka_unit_test(test_random_graphs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
