/* SPDX-License-Identifier: BSD-3-Clause */
/* The cores are those that this process may use; the NUMA nodes are files of the test. */
#include "suite.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/placement.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_ok(struct error *err, const char *what) {
        if (err != NULL)
                fail_msg("%s: %s", what, err->message);
}

static void assert_error(struct error *err, enum error_code code, const char *message) {
        assert_non_null(err);
        assert_string_equal(err->message, message);
        assert_int_equal(err->code, code);
        error_free(err);
}

/* "0-3,8" of the set. */
static char *print_cores(const struct placement *p) {
        char  *text = mem_strdup("");
        size_t core = 0;

        while (core < PLACEMENT_MAX_CORES) {
                size_t first = core;
                char  *longer;

                while (core < PLACEMENT_MAX_CORES && CPU_ISSET_S(core, sizeof(p->cores), p->cores))
                        core++;
                if (core == first) {
                        core++;
                        continue;
                }
                longer = core - first == 1 ? mem_printf("%s%s%zu", text, *text ? "," : "", first)
                                           : mem_printf("%s%s%zu-%zu", text, *text ? "," : "",
                                                        first, core - 1);
                free(text);
                text = longer;
        }
        return text;
}

static char *print_cores_here(void) {
        struct placement here = { 0 };

        error_free(placement_get(&here, false)); /* on any thread: "" then */
        return print_cores(&here);
}

/* The last one that this thread may use. */
static size_t last_core(void) {
        struct placement here;
        size_t           core = PLACEMENT_MAX_CORES;

        assert_ok(placement_get(&here, false), "here");
        while (core-- > 0)
                if (CPU_ISSET_S(core, sizeof(here.cores), here.cores))
                        return core;
        fail_msg("no core");
        return 0;
}

static void test_lists_of_cores(void **state) {
        static const char *const rows[][2] = {
                { "0", "0" },
                { "3-3", "3" },
                { "0-3,8", "0-3,8" },
                { "8,0-3", "0-3,8" },
                { "0-1,1-2,4", "0-2,4" },
                { "1023-1024,8191", "1023-1024,8191" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct placement p = { 0 };

                assert_ok(placement_read_cores(&p, rows[i][0]), rows[i][0]);
                AUTO_CHARS text = print_cores(&p);

                assert_string_equal(text, rows[i][1]);
                assert_true(p.has_cores);
                assert_false(p.has_memory);
        }
}

static void test_lists_that_are_wrong(void **state) {
        static const char *const rows[][2] = {
                { "", "" },
                { "a", "a" },
                { "1,", "" },
                { ",1", "" },
                { "0,x,1", "x" },
                { "3-1", "3-1" },
                { "1-2-3", "1-2-3" },
                { "-1", "-1" },
                { "1-", "1-" },
                { "8192", "8192" },
                { "0-8192", "0-8192" },
                { "99999999999999999999", "99999999999999999999" },
                { "1 2", "1 2" },
                { "+1", "+1" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct placement p = { 0 };
                AUTO_CHARS       text =
                        mem_printf("'%s' is not a core below 8192 or a range of cores, as in 0-3,8",
                                   rows[i][1]);

                assert_error(placement_read_cores(&p, rows[i][0]), ERR_INVALID_ARG, text);
        }
}

static void note_cores(void *arg) {
        *(char **)arg = print_cores_here();
}

static void *note_cores_inside(void *arg) {
        note_cores(arg);
        return NULL;
}

/* What a backend does: a thread of its own, of which nobody here knows. */
static void note_cores_of_a_child(void *arg) {
        pthread_t child;

        if (pthread_create(&child, NULL, note_cores_inside, arg) == 0)
                pthread_join(child, NULL);
}

static void test_runs_there(void **state) {
        thread_fn const  runs[] = { note_cores, note_cores_of_a_child };
        AUTO_CHARS       before = print_cores_here();
        AUTO_CHARS       core = mem_printf("%zu", last_core());
        struct placement p = { 0 };

        (void)state;
        assert_ok(placement_read_cores(&p, core), core);
        for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
                char *seen = NULL;

                assert_ok(placement_run(&p, "there", runs[i], &seen), "run");
                assert_non_null(seen);
                assert_string_equal(seen, core);
                free(seen);
        }
        /* Nothing is left of it here. */
        AUTO_CHARS after = print_cores_here();

        assert_string_equal(after, before);
}

static void test_nowhere_is_here(void **state) {
        AUTO_CHARS    here = print_cores_here();
        char         *seen = NULL;
        struct thread t = { .is_started = false };

        (void)state;
        assert_ok(placement_run(NULL, "here", note_cores, &seen), "run");
        assert_string_equal(seen, here);
        free(seen);
        assert_ok(placement_start_thread(NULL, &t, "here", note_cores, &seen), "start");
        thread_join(&t);
        assert_string_equal(seen, here);
        free(seen);
}

static void count_run(void *arg) {
        ++*(unsigned *)arg;
}

/* Alone, and beside one that is there: the kernel itself would take those without a word. */
static void test_cores_that_are_not_there(void **state) {
        AUTO_CHARS        beside = mem_printf("%zu,8191", last_core());
        const char *const lists[] = { "8191", beside };
        unsigned          n_runs = 0;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
                struct thread    t = { .is_started = false };
                struct placement p = { 0 };

                assert_ok(placement_read_cores(&p, lists[i]), lists[i]);
                assert_error(placement_run(&p, "no", count_run, &n_runs), ERR_INVALID_ARG,
                             "core 8191 is not there, or this process may not use it");
                assert_error(placement_start_thread(&p, &t, "no", count_run, &n_runs),
                             ERR_INVALID_ARG,
                             "core 8191 is not there, or this process may not use it");
                assert_false(t.is_started);
        }
        assert_int_equal(n_runs, 0);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* nodes/node<n>/cpulist */
struct nodes {
        char root[32];
};

static void node_write(const struct nodes *nodes, unsigned n, const char *cpulist) {
        AUTO_CHARS directory = mem_printf("%s/node%u", nodes->root, n);
        AUTO_CHARS path = mem_printf("%s/cpulist", directory);
        FILE      *file;

        mkdir(directory, 0755);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(cpulist, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void nodes_begin(struct nodes *nodes) {
        *nodes = (struct nodes){ "/tmp/neso_nodes_XXXXXX" };
        assert_non_null(mkdtemp(nodes->root));
}

static void nodes_end(const struct nodes *nodes, unsigned n) {
        AUTO_CHARS directory = mem_printf("%s/node%u", nodes->root, n);
        AUTO_CHARS path = mem_printf("%s/cpulist", directory);

        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(directory), 0);
        assert_int_equal(rmdir(nodes->root), 0);
}

static void test_nodes(void **state) {
        struct placement p = { 0 };
        struct nodes     nodes;

        (void)state;
        nodes_begin(&nodes);
        node_write(&nodes, 65, "4-7,12\n");
        assert_ok(placement_read_node(&p, "65", nodes.root), "65");
        AUTO_CHARS cores = print_cores(&p);

        assert_string_equal(cores, "4-7,12");
        assert_true(p.has_memory);
        assert_int_equal(p.memory_nodes[1], 2);
        assert_int_equal(p.memory_nodes[0], 0);

        /* Memory only. */
        node_write(&nodes, 65, "\n");
        assert_ok(placement_read_node(&p, "65", nodes.root), "65");
        assert_false(p.has_cores);
        assert_true(p.has_memory);

        /* Cores that are given replace those of the node. */
        node_write(&nodes, 65, "4-7\n");
        assert_ok(placement_read_node(&p, "65", nodes.root), "65");
        assert_ok(placement_read_cores(&p, "5"), "5");
        AUTO_CHARS fewer = print_cores(&p);

        assert_string_equal(fewer, "5");
        assert_true(p.has_memory);
        nodes_end(&nodes, 65);
}

static void test_nodes_that_are_wrong(void **state) {
        static const char *const numbers[] = {
                "", "a", "-1", "1024", "0,1", "99999999999999999999"
        };
        struct placement p = { 0 };
        struct nodes     nodes;

        (void)state;
        nodes_begin(&nodes);
        node_write(&nodes, 1, "0-x\n");
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
                AUTO_CHARS text =
                        mem_printf("'%s' is not a number of a NUMA node below 1024", numbers[i]);

                assert_error(placement_read_node(&p, numbers[i], nodes.root), ERR_INVALID_ARG,
                             text);
        }
        assert_error(placement_read_node(&p, "0", nodes.root), ERR_INVALID_ARG,
                     "this machine has no NUMA node 0");
        AUTO_CHARS text = mem_printf("%s/node1/cpulist: '0-x' is not a core below 8192 or a range "
                                     "of cores, as in 0-3,8",
                                     nodes.root);

        assert_error(placement_read_node(&p, "1", nodes.root), ERR_INVALID_ARG, text);
        nodes_end(&nodes, 1);
}

static void note_placement(void *arg) {
        error_free(placement_get(arg, true)); /* nothing is noted then */
}

/* False where a container forbids it, or the kernel knows no nodes. */
static bool can_place_memory(void) {
        struct placement here;
        AUTO_ERROR       err = placement_get(&here, true);

        return err == NULL;
}

static void test_memory_of_a_node(void **state) {
        AUTO_CHARS       core = mem_printf("%zu", last_core());
        AUTO_CHARS       with_others = mem_printf("%s,8191\n", core);
        struct placement before, p = { 0 }, seen = { 0 }, after;
        struct nodes     nodes;

        (void)state;
        if (!can_place_memory())
                skip();
        assert_ok(placement_get(&before, true), "before");
        nodes_begin(&nodes);
        node_write(&nodes, 0, with_others);
        assert_ok(placement_read_node(&p, "0", nodes.root), "0");
        assert_ok(placement_run(&p, "there", note_placement, &seen), "run");
        AUTO_CHARS cores = print_cores(&seen);

        assert_string_equal(cores, core); /* of the node's, those that this process may use */
        assert_int_equal(seen.memory_mode, p.memory_mode);
        assert_memory_equal(seen.memory_nodes, p.memory_nodes, sizeof(p.memory_nodes));
        assert_int_not_equal(seen.memory_mode, before.memory_mode);
        assert_ok(placement_get(&after, true), "after");
        assert_int_equal(after.memory_mode, before.memory_mode);

        /* And back again. */
        assert_ok(placement_run(&before, "back", note_placement, &seen), "back");
        assert_int_equal(seen.memory_mode, before.memory_mode);
        nodes_end(&nodes, 0);
}

static void test_nodes_that_cannot_be_had(void **state) {
        struct placement p = { 0 };
        struct nodes     nodes;
        unsigned         n_runs = 0;

        (void)state;
        if (!can_place_memory())
                skip();
        nodes_begin(&nodes);
        node_write(&nodes, 1023, "\n");
        assert_ok(placement_read_node(&p, "1023", nodes.root), "1023");
        assert_error(placement_run(&p, "no", count_run, &n_runs), ERR_INVALID_ARG,
                     "the NUMA node has no memory, or none that this process may use");
        node_write(&nodes, 1023, "8190-8191\n");
        assert_ok(placement_read_node(&p, "1023", nodes.root), "1023");
        assert_error(placement_run(&p, "no", count_run, &n_runs), ERR_INVALID_ARG,
                     "this process may use none of the cores");
        assert_int_equal(n_runs, 0);
        nodes_end(&nodes, 1023);
}

SUITE(placement) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lists_of_cores),
                cmocka_unit_test(test_lists_that_are_wrong),
                cmocka_unit_test(test_runs_there),
                cmocka_unit_test(test_nowhere_is_here),
                cmocka_unit_test(test_cores_that_are_not_there),
                cmocka_unit_test(test_nodes),
                cmocka_unit_test(test_nodes_that_are_wrong),
                cmocka_unit_test(test_memory_of_a_node),
                cmocka_unit_test(test_nodes_that_cannot_be_had),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
