/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "observe/batch_counts.h"

static const struct metric_label labels[] = { { "model", "m" }, { "version", "1" } };

static void assert_page(struct batch_counts *c, const char *expected) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        for (size_t i = 0; i < N_BATCH_FAMILIES; i++)
                if (batch_counts_has(c, i))
                        batch_counts_print(c, i, &text);
        assert_string_equal(strbuf_str(&text).ptr, expected);
}

static void test_a_model_without_members(void **state) {
        struct batch_counts *c = batch_counts_new(labels, ARRAY_LEN(labels));

        (void)state;
        batch_counts_add_batch(c, 1);
        batch_counts_add_batch(c, 1);
        batch_counts_add_batch(c, 3);
        assert_page(c,
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"due\",version=\"1\"} 0\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"full\",version=\"1\"} 2\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"idle\",version=\"1\"} 0\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"flow\",version=\"1\"} 1\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"drain\",version=\"1\"} 0\n");
        batch_counts_free(c);
}

static void note_member(void *userp, const char *name, const struct member_counts *m) {
        struct strbuf *text = userp;

        strbuf_printf(text, "%s %u-%u x%u; ", name, m->min_rows, m->max_rows, m->n_instances);
}

static void test_members_are_visited(void **state) {
        struct batch_counts  *c = batch_counts_new(labels, ARRAY_LEN(labels));
        AUTO_STRBUF           text = { 0 };
        struct member_counts *b4;

        (void)state;
        strbuf_init(&text, 0);
        assert_false(batch_counts_have_members(c));
        batch_counts_visit(c, note_member, &text);
        assert_string_equal(strbuf_cstr(&text), "");
        b4 = batch_counts_member(c, "b4");
        b4->min_rows = 4;
        b4->max_rows = 8;
        b4->n_instances = 2;
        batch_counts_member(c, "a");
        assert_true(batch_counts_have_members(c));
        batch_counts_visit(c, note_member, &text);
        assert_string_equal(strbuf_cstr(&text), "b4 4-8 x2; a 0-0 x0; ");
        batch_counts_free(c);
}

static void test_members(void **state) {
        struct batch_counts   *c = batch_counts_new(labels, ARRAY_LEN(labels));
        struct member_counts  *b1 = batch_counts_member(c, "b1");
        struct virtual_counts *first = batch_counts_virtual_instance(c, 0);

        (void)state;
        assert_ptr_not_equal(batch_counts_member(c, "b4"), b1);
        assert_ptr_equal(batch_counts_member(c, "b1"), b1);
        assert_ptr_equal(batch_counts_virtual_instance(c, 0), first);
        assert_ptr_not_equal(batch_counts_virtual_instance(c, 1), first);
        b1->n_executions = 2;
        b1->n_rows = 3;
        b1->busy_ns = 4999;
        first->n_running = 1;
        batch_counts_add_split(c);
        assert_page(c, "neso_batch_dispatch_reason{model=\"m\",reason=\"due\",version=\"1\"} 0\n"
                       "neso_batch_dispatch_reason{model=\"m\",reason=\"full\",version=\"1\"} 0\n"
                       "neso_batch_dispatch_reason{model=\"m\",reason=\"idle\",version=\"1\"} 0\n"
                       "neso_batch_dispatch_reason{model=\"m\",reason=\"flow\",version=\"1\"} 0\n"
                       "neso_batch_dispatch_reason{model=\"m\",reason=\"drain\",version=\"1\"} 0\n"
                       "neso_member_exec_count{member=\"b1\",model=\"m\",version=\"1\"} 2\n"
                       "neso_member_exec_count{member=\"b4\",model=\"m\",version=\"1\"} 0\n"
                       "neso_member_rows{member=\"b1\",model=\"m\",version=\"1\"} 3\n"
                       "neso_member_rows{member=\"b4\",model=\"m\",version=\"1\"} 0\n"
                       "neso_member_busy_us{member=\"b1\",model=\"m\",version=\"1\"} 4\n"
                       "neso_member_busy_us{member=\"b4\",model=\"m\",version=\"1\"} 0\n"
                       "neso_request_split{model=\"m\",version=\"1\"} 1\n"
                       "neso_virtual_instance_busy{index=\"0\",model=\"m\",version=\"1\"} 1\n"
                       "neso_virtual_instance_busy{index=\"1\",model=\"m\",version=\"1\"} 0\n");
        batch_counts_free(c);
}

static void test_labels_without_memory(void **state) {
        struct batch_counts *c;

        (void)state;
        mem_fail_after(1);
        c = batch_counts_new(labels, ARRAY_LEN(labels));
        mem_fail_after(0);
        assert_page(c,
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"due\",version=\"1\"} 0\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"full\",version=\"1\"} 0\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"idle\",version=\"1\"} 0\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"flow\",version=\"1\"} 0\n"
                    "neso_batch_dispatch_reason{model=\"m\",reason=\"drain\",version=\"1\"} 0\n");
        batch_counts_free(c);
}

SUITE(batch_counts) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_model_without_members),
                cmocka_unit_test(test_labels_without_memory),
                cmocka_unit_test(test_members_are_visited),
                cmocka_unit_test(test_members),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
