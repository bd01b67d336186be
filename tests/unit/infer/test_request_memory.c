/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/thread.h"
#include "infer/request_memory.h"

#include <malloc.h>
#include <string.h>

#define N_BLOCKS (REQUEST_MEMORY_MAX_KEPT + 10)

static void take_and_give(void *unused) {
        struct request_memory *blocks[N_BLOCKS];

        (void)unused;
        for (size_t i = 0; i < N_BLOCKS; i++) {
                blocks[i] = request_memory_take();
                assert_non_null(blocks[i]);
                memset(blocks[i], (int)i, sizeof(*blocks[i]));
        }
        for (size_t i = 0; i < N_BLOCKS; i++)
                request_memory_give(blocks[i]);
}

static void test_keeps_few(void **state) {
        struct request_memory *block;

        (void)state;
        take_and_give(NULL);
        assert_int_equal(request_memory_count_kept(), REQUEST_MEMORY_MAX_KEPT);
        block = request_memory_take();
        if (REQUEST_MEMORY_MAX_KEPT > 0)
                assert_int_equal(request_memory_count_kept(), REQUEST_MEMORY_MAX_KEPT - 1);
        request_memory_give(block);
        assert_int_equal(request_memory_count_kept(), REQUEST_MEMORY_MAX_KEPT);
}

static void test_short_memory(void **state) {
        (void)state;
        take_and_give(NULL);
        mem_fail_after(1);
        assert_null(request_memory_take()); /* what is kept is left alone */
        mem_fail_after(0);
        assert_int_equal(request_memory_count_kept(), REQUEST_MEMORY_MAX_KEPT);
}

static void run_thread(thread_fn run, void *arg) {
        struct thread t = { 0 };

        assert_null(thread_start(&t, "memory", run, arg));
        thread_join(&t);
}

static void give(void *block) {
        request_memory_give(block);
        assert_int_equal(request_memory_count_kept(), MIN(1, REQUEST_MEMORY_MAX_KEPT));
}

static void test_given_by_another_thread(void **state) {
        unsigned n_kept;

        (void)state;
        take_and_give(NULL);
        n_kept = request_memory_count_kept();
        run_thread(give, request_memory_take());
        assert_int_equal(request_memory_count_kept(), n_kept > 0 ? n_kept - 1 : 0);
}

/* Of twenty threads not even a block each is left. */
static void test_ends_with_its_thread(void **state) {
        size_t before;

        (void)state;
        run_thread(take_and_give, NULL); /* what the first thread costs for good */
        before = mallinfo2().uordblks;
        for (int i = 0; i < 20; i++)
                run_thread(take_and_give, NULL);
        assert_true(mallinfo2().uordblks < before + 20 * sizeof(struct request_memory));
}

SUITE(request_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_keeps_few),
                cmocka_unit_test(test_short_memory),
                cmocka_unit_test(test_given_by_another_thread),
                cmocka_unit_test(test_ends_with_its_thread),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
