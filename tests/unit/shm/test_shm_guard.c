/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that goes away: real faults. */
#include "suite.h"

#include "shm/shm_guard.h"
#include "shm/shm_object.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_PAGES 4

struct fixture {
        struct shm_object object;
        size_t            page;
        volatile char    *memory;
};

static void open_fixture(struct fixture *f) {
        f->page = (size_t)sysconf(_SC_PAGESIZE);
        shm_object_open(&f->object, N_PAGES * f->page);
        f->memory =
                mmap(NULL, N_PAGES * f->page, PROT_READ | PROT_WRITE, MAP_SHARED, f->object.fd, 0);
        assert_ptr_not_equal(f->memory, MAP_FAILED);
}

static void close_fixture(struct fixture *f) {
        munmap((void *)f->memory, N_PAGES * f->page);
        shm_object_close(&f->object);
}

/* Each read or write that finds nothing goes on, and what is still there stays. */
static void test_mends(void **state) {
        struct fixture f;
        uint32_t       entry;
        char           seen;

        (void)state;
        assert_null(shm_guard_start());
        open_fixture(&f);
        assert_true(shm_guard_add((void *)f.memory, N_PAGES * f.page - 100, &entry));
        assert_int_equal(f.memory[f.page], f.page % 251);
        assert_false(shm_guard_is_broken(entry));

        shm_object_resize(&f.object, f.page);
        assert_false(shm_guard_is_broken(entry));
        f.memory[2 * f.page + 1] = 7; /* from here to the end it is ours */
        assert_true(shm_guard_is_broken(entry));
        assert_int_equal(f.memory[2 * f.page + 1], 7);
        assert_int_equal(f.memory[N_PAGES * f.page - 1], 0);
        assert_int_equal(f.memory[f.page], 0);
        assert_int_equal(f.memory[2 * f.page + 1], 0); /* and once more */
        f.memory[1] = 5;                               /* still shared */
        assert_int_equal(pread(f.object.fd, &seen, 1, 1), 1);
        assert_int_equal(seen, 5);

        shm_guard_remove(entry);
        close_fixture(&f);
        shm_guard_stop();
}

/* An entry is used again, and forgets. */
static void test_entries(void **state) {
        struct fixture f;
        uint32_t       first, second;

        (void)state;
        assert_null(shm_guard_start());
        assert_null(shm_guard_start());
        open_fixture(&f);
        assert_true(shm_guard_add((void *)f.memory, f.page, &first));
        assert_true(shm_guard_add((void *)(f.memory + f.page), f.page, &second));
        assert_int_not_equal(first, second);
        shm_object_resize(&f.object, f.page);
        assert_int_equal(f.memory[f.page], 0);
        assert_false(shm_guard_is_broken(first));
        assert_true(shm_guard_is_broken(second));
        shm_guard_stop(); /* the other start still counts */
        shm_guard_remove(second);
        assert_true(shm_guard_add((void *)(f.memory + 2 * f.page), f.page, &second));
        assert_false(shm_guard_is_broken(second));
        assert_int_equal(f.memory[2 * f.page], 0);
        assert_true(shm_guard_is_broken(second));
        shm_guard_remove(first);
        shm_guard_remove(second);
        close_fixture(&f);
        shm_guard_stop();
}

static void *read_all(void *argument) {
        struct fixture *f = argument;
        uintptr_t       sum = 0;

        for (size_t i = 0; i < N_PAGES; i++)
                sum += (unsigned char)f->memory[i * f->page];
        return (void *)sum;
}

static void test_threads(void **state) {
        pthread_t      threads[4];
        struct fixture f;
        uint32_t       entry;
        void          *sum;

        (void)state;
        assert_null(shm_guard_start());
        open_fixture(&f);
        assert_true(shm_guard_add((void *)f.memory, N_PAGES * f.page, &entry));
        shm_object_resize(&f.object, 0);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, read_all, &f), 0);
        for (size_t i = 0; i < 4; i++) {
                pthread_join(threads[i], &sum);
                assert_null(sum);
        }
        assert_true(shm_guard_is_broken(entry));
        shm_guard_remove(entry);
        close_fixture(&f);
        shm_guard_stop();
}

/* What is not in the table ends the process as before; so does the signal when it is sent, which
 * is what happens without a fixture. */
static void assert_dies(struct fixture *f) {
        pid_t child = fork();
        int   status;

        if (child == 0) {
                if (f != NULL)
                        (void)f->memory[N_PAGES * f->page - 1];
                else
                        raise(SIGBUS);
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void test_others(void **state) {
        struct sigaction first = { .sa_handler = SIG_DFL }, now, before;
        struct fixture   f;
        uint32_t         entry;

        (void)state;
        sigaction(SIGBUS, &first, &before); /* the test's frame has a handler of its own */
        assert_null(shm_guard_start());
        open_fixture(&f);
        assert_true(shm_guard_add((void *)f.memory, 2 * f.page, &entry));
        shm_object_resize(&f.object, 0);
        assert_dies(&f);
        shm_guard_remove(entry);
        assert_dies(&f);
        assert_dies(NULL);
        close_fixture(&f);
        shm_guard_stop();
        sigaction(SIGBUS, NULL, &now);
        assert_true(now.sa_handler == SIG_DFL);
        sigaction(SIGBUS, &before, NULL);
}

static volatile sig_atomic_t n_signals;

static void count_signal(int number) {
        (void)number;
        n_signals++;
}

/* Whoever had the signal keeps what is his: one that was sent, for example. */
static void test_passes_on(void **state) {
        struct sigaction action = { .sa_handler = count_signal }, before;

        (void)state;
        sigaction(SIGBUS, &action, &before);
        assert_null(shm_guard_start());
        raise(SIGBUS);
        assert_int_equal(n_signals, 1);
        shm_guard_stop();
        raise(SIGBUS);
        assert_int_equal(n_signals, 2);
        sigaction(SIGBUS, &before, NULL);
}

static void test_full(void **state) {
        static uint32_t entries[SHM_GUARD_MAX];
        struct fixture  f;
        uint32_t        one_more;

        (void)state;
        assert_null(shm_guard_start());
        open_fixture(&f);
        for (size_t i = 0; i < SHM_GUARD_MAX; i++)
                assert_true(shm_guard_add((void *)f.memory, 1, &entries[i]));
        assert_false(shm_guard_add((void *)f.memory, 1, &one_more));
        for (size_t i = 0; i < SHM_GUARD_MAX; i++)
                shm_guard_remove(entries[i]);
        close_fixture(&f);
        shm_guard_stop();
}

SUITE(shm_guard) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_mends),     cmocka_unit_test(test_entries),
                cmocka_unit_test(test_threads),   cmocka_unit_test(test_others),
                cmocka_unit_test(test_passes_on), cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
