/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of devices, and pinned memory. */
#include "suite.h"

#include "base/thread.h"
#include "fake_gpus.h"
#include "gpu/pool_memory.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

/* ---- devices --------------------------------------------------------------------------------- */

static void test_memory_comes_from_the_pool(void **state) {
        (void)state;
        struct gpus_options   options = fake_gpus_options();
        struct fake_gpus      f;
        struct gpu_pool_usage usage;
        void                 *memory[3];

        fake_gpus_open(&f, &options);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).total_bytes, 0);
        for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
                assert_null(gpu_alloc(f.gpus, 0, 1000 * i, &memory[i]));
                assert_int_equal((uintptr_t)memory[i] % 256, 0);
        }
        assert_int_equal(fake_gpus_count(&f).n_allocations, 1);
        assert_int_equal(fake_gpus_count(&f).device_bytes, MIB);
        usage = gpu_pool_usage(f.gpus, 0);
        assert_int_equal(usage.total_bytes, MIB);
        assert_int_equal(usage.used_bytes, 256 + 1024 + 2048);
        assert_int_equal(usage.n_beyond, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, 1).total_bytes, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, 7).total_bytes, 0);
        for (size_t i = 0; i < ARRAY_LEN(memory); i++)
                gpu_free(f.gpus, 0, memory[i]);
        gpu_free(f.gpus, 0, NULL);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).used_bytes, 0);
        fake_gpus_close(&f);
}

static void test_pool_is_full(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *within, *beyond, *large;

        fake_gpus_open(&f, &options);
        assert_null(gpu_alloc(f.gpus, 1, MIB, &within));
        assert_null(gpu_alloc(f.gpus, 1, 0, &beyond));
        assert_null(gpu_alloc(f.gpus, 1, 3 * MIB, &large));
        assert_int_equal(gpu_pool_usage(f.gpus, 1).n_beyond, 2);
        assert_int_equal(fake_gpus_count(&f).n_allocations, 3);
        gpu_free(f.gpus, 1, beyond);
        gpu_free(f.gpus, 1, large);
        assert_int_equal(fake_gpus_count(&f).n_allocations, 1);
        gpu_free(f.gpus, 1, within);
        assert_null(gpu_alloc(f.gpus, 1, MIB, &within));
        assert_int_equal(gpu_pool_usage(f.gpus, 1).n_beyond, 2);
        gpu_free(f.gpus, 1, within);
        fake_gpus_close(&f);
}

static void test_memory_is_short(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory, *none = NULL;

        fake_gpus_open(&f, &options);
        assert_null(gpu_alloc(f.gpus, 0, 100, &memory));
        assert_gpu_error(gpu_alloc(f.gpus, 0, (size_t)2 << 30, &none), ERR_UNAVAILABLE,
                         "GPU 0 has no memory for 2147483648 bytes: 1072693248 of 1073741824 bytes "
                         "are free");
        f.fake_cuda_set("FAIL", "cuMemGetInfo:1:999");
        assert_gpu_error(gpu_alloc(f.gpus, 0, (size_t)2 << 30, &none), ERR_UNAVAILABLE,
                         "GPU 0 has no memory for 2147483648 bytes");
        f.fake_cuda_set("FAIL", "cuMemAlloc:1:700");
        assert_gpu_error(gpu_alloc(f.gpus, 0, 2 * MIB, &none), ERR_UNAVAILABLE,
                         "GPU 0: unable to allocate 2097152 bytes: CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_null(none);
        gpu_free(f.gpus, 0, memory);
        assert_gpu_error(gpu_alloc(f.gpus, 2, 100, &none), ERR_INVALID_ARG,
                         "GPU 2 is unknown: the GPUs are 0,1");
        assert_gpu_error(gpu_alloc(f.gpus, GPU_HOST, 100, &none), ERR_INVALID_ARG,
                         "GPU -1 is unknown: the GPUs are 0,1");
        fake_gpus_close(&f);
}

/* It is not asked for again. */
static void test_pool_cannot_be_made(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory[2];

        fake_gpus_open(&f, &options);
        f.fake_cuda_set("FAIL", "cuMemAlloc:1:2");
        assert_null(gpu_alloc(f.gpus, 0, 1000, &memory[0]));
        assert_null(gpu_alloc(f.gpus, 0, 1000, &memory[1]));
        assert_int_equal(fake_gpus_count(&f).device_bytes, 2000);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).total_bytes, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).n_beyond, 2);
        gpu_free(f.gpus, 0, memory[0]);
        gpu_free(f.gpus, 0, memory[1]);
        fake_gpus_close(&f);
}

static void test_no_pools(void **state) {
        (void)state;
        static const struct gpu_bytes pools[] = { { 0, 0 } };
        struct gpus_options           options = { .pools = pools, .n_pools = 1 };
        struct fake_gpus              f;
        void                         *memory, *pinned;
        bool                          is_pinned = true;

        fake_gpus_open(&f, &options);
        assert_null(gpu_alloc(f.gpus, 0, 1000, &memory));
        assert_null(gpu_pinned_alloc(f.gpus, 1000, &pinned, &is_pinned));
        assert_false(is_pinned);
        assert_int_equal(fake_gpus_count(&f).device_bytes, 1000);
        assert_int_equal(fake_gpus_count(&f).n_pinned, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).n_beyond, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).n_beyond, 0);
        gpu_free(f.gpus, 0, memory);
        gpu_pinned_free(f.gpus, pinned);
        fake_gpus_close(&f);
}

static void test_default_sizes(void **state) {
        (void)state;
        struct gpus_options options = { 0 };
        struct fake_gpus    f;
        void               *memory;

        fake_gpus_open(&f, &options);
        assert_null(gpu_alloc(f.gpus, 2, 1, &memory));
        assert_int_equal(gpu_pool_usage(f.gpus, 2).total_bytes, GPU_POOL_BYTES);
        gpu_free(f.gpus, 2, memory);
        fake_gpus_close(&f);
}

/* A mistake of a backend is reported, and the pool stays as it is. */
static void test_freed_twice(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory, *other;

        fake_gpus_open(&f, &options);
        assert_null(gpu_alloc(f.gpus, 0, 100, &memory));
        assert_null(gpu_alloc(f.gpus, 0, 100, &other));
        gpu_free(f.gpus, 0, memory);
        gpu_free(f.gpus, 0, memory);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).used_bytes, 256);
        gpu_free(f.gpus, 0, other);
        gpu_free(f.gpus, 5, other);
        fake_gpus_close(&f);
}

/* ---- pinned memory --------------------------------------------------------------------------- */

static void test_pinned_memory(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory, *large;
        bool                is_pinned = false;

        fake_gpus_open(&f, &options);
        assert_null(gpu_pinned_alloc(f.gpus, 1000, &memory, &is_pinned));
        assert_true(is_pinned);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 7, 1000);
        assert_int_equal(fake_gpus_count(&f).pinned_bytes, MIB);
        assert_int_equal(fake_gpus_count(&f).n_contexts, 1);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).total_bytes, MIB);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).used_bytes, 1024);
        assert_null(gpu_pinned_alloc(f.gpus, MIB, &large, &is_pinned));
        assert_false(is_pinned);
        memset(large, 7, MIB);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).n_beyond, 1);
        gpu_pinned_free(f.gpus, memory);
        gpu_pinned_free(f.gpus, large);
        gpu_pinned_free(f.gpus, NULL);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).used_bytes, 0);
        assert_gpu_error(gpu_pinned_alloc(f.gpus, SIZE_MAX / 2, &memory, &is_pinned),
                         ERR_UNAVAILABLE, "out of memory: 9223372036854775807 bytes");
        fake_gpus_close(&f);
}

/* No further context is made for it. */
static void test_pinned_memory_needs_any_context(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory;
        bool                is_pinned = false;

        fake_gpus_open(&f, &options);
        assert_null(gpu_enter(f.gpus, 1));
        assert_null(gpu_pinned_alloc(f.gpus, 1000, &memory, &is_pinned));
        assert_true(is_pinned);
        assert_int_equal(fake_gpus_count(&f).n_contexts, 1);
        gpu_pinned_free(f.gpus, memory);
        fake_gpus_close(&f);
}

static void test_pinned_memory_is_short(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        void               *memory;
        bool                is_pinned = true;

        fake_gpus_open(&f, &options);
        f.fake_cuda_set("PINNED_LIMIT", "1000");
        assert_null(gpu_pinned_alloc(f.gpus, 1000, &memory, &is_pinned));
        assert_false(is_pinned);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).total_bytes, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).n_beyond, 1);
        gpu_pinned_free(f.gpus, memory);
        fake_gpus_close(&f);
}

/* ---- many ------------------------------------------------------------------------------------ */

#define N_STEPS 10000
#define N_LIVE 64
#define N_THREADS 4

struct user {
        struct gpus *gpus;
        uint64_t     seed;
        size_t       n_steps;
};

static uint64_t random_of(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

/* Device 0, device 1 or pinned memory, by place. */
static void give_back(struct gpus *g, size_t place, void **memory) {
        if (place % 3 == 2)
                gpu_pinned_free(g, *memory);
        else
                gpu_free(g, (int)(place % 3), *memory);
        *memory = NULL;
}

static void use(void *arg) {
        struct user *u = arg;
        void        *live[N_LIVE] = { NULL };

        for (size_t step = 0; step < u->n_steps; step++) {
                const size_t place = random_of(&u->seed) % N_LIVE;
                const size_t bytes = random_of(&u->seed) % (random_of(&u->seed) % 60000 + 1);
                bool         is_pinned;

                if (live[place] != NULL)
                        give_back(u->gpus, place, &live[place]);
                else if (place % 3 == 2)
                        assert_null(gpu_pinned_alloc(u->gpus, bytes, &live[place], &is_pinned));
                else
                        assert_null(gpu_alloc(u->gpus, (int)(place % 3), bytes, &live[place]));
        }
        for (size_t i = 0; i < N_LIVE; i++)
                give_back(u->gpus, i, &live[i]);
}

static void test_many_allocations(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        struct user         user = { .seed = 4101842887655102017u, .n_steps = N_STEPS };

        fake_gpus_open(&f, &options);
        user.gpus = f.gpus;
        use(&user);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).used_bytes, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, 1).used_bytes, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).used_bytes, 0);
        assert_int_equal(fake_gpus_count(&f).n_allocations, 2);
        assert_int_equal(fake_gpus_count(&f).n_pinned, 1);
        fake_gpus_close(&f);
}

static void test_threads(void **state) {
        (void)state;
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    f;
        struct user         users[N_THREADS];
        struct thread       threads[N_THREADS];

        fake_gpus_open(&f, &options);
        for (size_t i = 0; i < N_THREADS; i++) {
                users[i] = (struct user){ f.gpus, 88172645463325252u + i, N_STEPS / N_THREADS };
                assert_null(thread_start(&threads[i], "user", use, &users[i]));
        }
        for (size_t i = 0; i < N_THREADS; i++)
                thread_join(&threads[i]);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).used_bytes, 0);
        assert_int_equal(fake_gpus_count(&f).n_contexts, 2);
        assert_int_equal(fake_gpus_count(&f).n_allocations, 2);
        assert_int_equal(fake_gpus_count(&f).n_pinned, 1);
        fake_gpus_close(&f);
}

SUITE(gpu_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_memory_comes_from_the_pool),
                cmocka_unit_test(test_pool_is_full),
                cmocka_unit_test(test_memory_is_short),
                cmocka_unit_test(test_pool_cannot_be_made),
                cmocka_unit_test(test_no_pools),
                cmocka_unit_test(test_default_sizes),
                cmocka_unit_test(test_freed_twice),
                cmocka_unit_test(test_pinned_memory),
                cmocka_unit_test(test_pinned_memory_needs_any_context),
                cmocka_unit_test(test_pinned_memory_is_short),
                cmocka_unit_test(test_many_allocations),
                cmocka_unit_test(test_threads),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
