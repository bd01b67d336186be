/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/buffer_attributes.h"
#include "infer/parameter.h"

#include <string.h>

static void test_kinds(void **state) {
        char              text[] = "value";
        int64_t           integer = INT64_MIN;
        bool              boolean = true;
        double            real = -0.25;
        char              name[] = "name";
        struct parameter *s = parameter_new(name, PARAMETER_STRING, text);
        struct parameter *i = parameter_new("i", PARAMETER_INT, &integer);
        struct parameter *b = parameter_new("b", PARAMETER_BOOL, &boolean);
        struct parameter *d = parameter_new("d", PARAMETER_DOUBLE, &real);

        (void)state;
        text[0] = name[0] = 'X'; /* both were copied */
        assert_string_equal(s->name, "name");
        assert_int_equal(s->type, PARAMETER_STRING);
        assert_string_equal(parameter_value(s), "value");
        assert_true(*(const int64_t *)parameter_value(i) == INT64_MIN);
        assert_true(*(const bool *)parameter_value(b));
        assert_true(*(const double *)parameter_value(d) == -0.25);
        parameter_free(s);
        parameter_free(i);
        parameter_free(b);
        parameter_free(d);
        parameter_free(NULL);
}

static void test_bytes_are_borrowed(void **state) {
        static const char bytes[] = { 1, 2, 3 };
        struct parameter *p = parameter_new_bytes("raw", bytes, sizeof(bytes));

        (void)state;
        assert_int_equal(p->type, PARAMETER_BYTES);
        assert_ptr_equal(parameter_value(p), bytes);
        assert_int_equal(p->n_bytes, 3);
        parameter_free(p);
}

static void test_no_such_kind(void **state) {
        int64_t value = 0;

        (void)state;
        assert_null(parameter_new("p", PARAMETER_BYTES, &value));
        assert_null(parameter_new("p", (enum parameter_type)5, &value));
        assert_null(parameter_new("p", (enum parameter_type) - 1, &value));
}

static void test_list_keeps_order_and_copies(void **state) {
        char                  name[] = "b";
        char                  text[] = "two";
        struct parameter_list list = { 0 };
        struct arena          arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(parameter_list_at(&list, 0));
        assert_true(parameter_list_add(&list, &arena,
                                       &(struct parameter){
                                               .name = "a", .type = PARAMETER_INT, .integer = 1 }));
        assert_true(parameter_list_add(
                &list, &arena,
                &(struct parameter){ .name = name, .type = PARAMETER_STRING, .string = text }));
        assert_true(parameter_list_add(
                &list, &arena,
                &(struct parameter){ .name = "a", .type = PARAMETER_BOOL, .boolean = false }));
        name[0] = text[0] = 'X';
        assert_int_equal(list.n, 3);
        assert_int_equal(parameter_list_at(&list, 0)->integer, 1);
        assert_string_equal(parameter_list_at(&list, 1)->name, "b");
        assert_string_equal(parameter_list_at(&list, 1)->string, "two");
        assert_int_equal(parameter_list_at(&list, 2)->type, PARAMETER_BOOL);
        assert_null(parameter_list_at(&list, 3));
        arena_done(&arena);
}

/* Parameters come from peers: a full arena is an answer, not the end. */
static void test_list_is_full(void **state) {
        struct parameter_list list = { 0 };
        struct parameter      p = { .name = "n", .type = PARAMETER_STRING, .string = "text" };
        struct arena          arena;
        uint32_t              n = 0;

        (void)state;
        arena_init(&arena, NULL, 0, 10000);
        while (parameter_list_add(&list, &arena, &p))
                assert_in_range(++n, 1, 1000);
        assert_in_range(n, 50, 200);
        assert_int_equal(list.n, n);
        assert_non_null(parameter_list_at(&list, n - 1));
        assert_null(parameter_list_at(&list, n));
        arena_done(&arena);
}

static void test_list_short_of_memory(void **state) {
        char                  text[6000];
        struct parameter      p = { .name = text, .type = PARAMETER_STRING, .string = text };
        struct parameter_list list = { 0 };
        struct arena          arena;
        unsigned              n_failed = 0;
        bool                  is_added = false;

        (void)state;
        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        arena_init(&arena, NULL, 0, 0);
        while (!is_added) {
                arena_reset(&arena);
                mem_fail_after(++n_failed);
                is_added = parameter_list_add(&list, &arena, &p);
                mem_fail_after(0);
                assert_int_equal(list.n, is_added);
        }
        assert_in_range(n_failed, 2, 10);
        assert_string_equal(list.first->string, text);
        arena_done(&arena);
}

static void test_list_set_replaces(void **state) {
        struct parameter_list list = { 0 };
        struct parameter      p = { .name = "a", .type = PARAMETER_INT, .integer = 1 };
        struct arena          arena;
        const char           *next;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        assert_null(parameter_list_find(&list, "a"));
        assert_true(parameter_list_set(&list, &arena, &p));
        p = (struct parameter){ .name = "b", .type = PARAMETER_STRING, .string = "a longer text" };
        assert_true(parameter_list_set(&list, &arena, &p));
        assert_int_equal(list.n, 2);

        /* Another value and another type; the place in the list stays. */
        p = (struct parameter){ .name = "a", .type = PARAMETER_BOOL, .boolean = true };
        assert_true(parameter_list_set(&list, &arena, &p));
        assert_int_equal(list.n, 2);
        assert_ptr_equal(parameter_list_at(&list, 0), parameter_list_find(&list, "a"));
        assert_int_equal(parameter_list_at(&list, 0)->type, PARAMETER_BOOL);
        assert_true(parameter_list_at(&list, 0)->boolean);

        /* Texts that fit take the memory of those before, also after something else was there. */
        next = arena.next;
        for (unsigned i = 0; i < 100; i++) {
                p = (struct parameter){ .name = "b",
                                        .type = i % 2 ? PARAMETER_STRING : PARAMETER_DOUBLE };
                if (i % 2)
                        p.string = i % 4 == 1 ? "short" : "the same length";
                else
                        p.real = 0.5;
                if (i == 3)
                        next = arena.next; /* the first that is longer may move */
                assert_true(parameter_list_set(&list, &arena, &p));
        }
        assert_in_range(arena.next - next, 0, 64);
        assert_string_equal(parameter_list_find(&list, "b")->string, "the same length");
        assert_int_equal(list.n, 2);
        arena_done(&arena);
}

static void test_new_short_of_memory(void **state) {
        struct parameter *p = NULL;
        unsigned          n = 0;

        (void)state;
        while (p == NULL && n < 10) {
                mem_fail_after(++n);
                p = parameter_new("name", PARAMETER_STRING, "text");
                mem_fail_after(0);
        }
        assert_in_range(n, 4, 4); /* the struct, the name, the text; then it passes */
        parameter_free(p);
}

static void test_names(void **state) {
        (void)state;
        assert_string_equal(parameter_type_name(PARAMETER_STRING), "STRING");
        assert_string_equal(parameter_type_name(PARAMETER_INT), "INT");
        assert_string_equal(parameter_type_name(PARAMETER_BOOL), "BOOL");
        assert_string_equal(parameter_type_name(PARAMETER_DOUBLE), "DOUBLE");
        assert_string_equal(parameter_type_name(PARAMETER_BYTES), "BYTES");
        assert_string_equal(parameter_type_name((enum parameter_type)5), "<invalid>");
        assert_string_equal(memory_type_name(MEMORY_CPU), "CPU");
        assert_string_equal(memory_type_name(MEMORY_CPU_PINNED), "CPU_PINNED");
        assert_string_equal(memory_type_name(MEMORY_GPU), "GPU");
        assert_string_equal(memory_type_name((enum memory_type)3), "<invalid>");
}

SUITE(parameter) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_bytes_are_borrowed),
                cmocka_unit_test(test_no_such_kind),
                cmocka_unit_test(test_list_keeps_order_and_copies),
                cmocka_unit_test(test_list_is_full),
                cmocka_unit_test(test_list_short_of_memory),
                cmocka_unit_test(test_list_set_replaces),
                cmocka_unit_test(test_new_short_of_memory),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
