/* SPDX-License-Identifier: BSD-3-Clause */
/* Each call of the driver that can fail while GPUs are opened and used fails once. What was made is
 * freed afterwards: nothing is left on the devices, and no context stays current. */
#include "suite.h"

#include "base/mem.h"
#include "fake_gpus.h"

#include <stdio.h>
#include <string.h>

#define MAX_CALLS 60 /* of one function in the story below: more than there are */
#define MAX_UNNOTICED 2
/* With peers nothing depends on the size. Without: larger than what is copied at a time through the host. */
#define FEW_BYTES 5000
#define BYTES (((size_t)4 << 20) + 3)

/* Not those that free: what the driver does not free stays. Nor cuStreamSynchronize(): copies may be in flight. */
#define FUNCTION_NAME(name, parameters) #name,
static const char *const functions[] = { CUDA_FUNCTIONS(FUNCTION_NAME) };
#undef FUNCTION_NAME
static const char *const left_out[] = {
        "cuMemFree_v2",        "cuMemFreeHost",       "cuStreamDestroy_v2",
        "cuEventDestroy_v2",   "cuMemAddressFree",    "cuMemUnmap",
        "cuMemRelease",        "cuIpcCloseMemHandle", "cuDevicePrimaryCtxRelease_v2",
        "cuStreamSynchronize",
};

struct story {
        void                *on_0, *on_1, *pinned;
        struct gpu_growable *growing;
        bool                 has_failed;
};

static void note(struct story *s, struct error *err) {
        s->has_failed = s->has_failed || err != NULL;
        error_free(err);
}

static void use(struct gpus *g, struct story *s, char *bytes, size_t n) {
        unsigned char handle[GPU_SHARE_BYTES];
        uint64_t      n_free, n_total, offset;
        bool          is_pinned;

        note(s, gpu_alloc(g, 0, n, &s->on_0));
        note(s, gpu_alloc(g, 1, n, &s->on_1));
        note(s, gpu_pinned_alloc(g, 100, &s->pinned, &is_pinned));
        note(s, gpu_memory_left(g, 1, &n_free, &n_total));
        note(s, gpu_growable_new(g, 1, 8 << 20, &s->growing));
        if (s->growing != NULL) {
                note(s, gpu_growable_reserve(s->growing, 1));
                note(s, gpu_growable_reserve(s->growing, 5 << 20));
        }
        if (s->on_0 == NULL || s->on_1 == NULL)
                return;
        struct gpu_copy copies[] = {
                { s->on_0, bytes, 0, GPU_HOST, n },
                { s->on_1, s->on_0, 1, 0, n },
                { bytes, s->on_1, GPU_HOST, 1, n },
                { s->on_0, (char *)s->on_0 + 100, 0, 0, 100 },
        };

        for (size_t i = 0; i < 4; i++)
                note(s, gpu_copy_all(g, &copies[i], 1));
        note(s, gpu_zero(g, 1, s->on_1, n));
        note(s, gpu_share(g, 0, s->on_0, handle, &offset));
}

static void end(struct gpus *g, struct story *s) {
        gpu_growable_free(s->growing);
        gpu_free(g, 0, s->on_0);
        gpu_free(g, 1, s->on_1);
        gpu_pinned_free(g, s->pinned);
}

/* Returns whether some call of gpu.h failed: a failure may also be absorbed, as that of pinned memory is. */
static bool fails_once(const char *function, unsigned n, unsigned code, bool has_peers,
                       char *bytes) {
        struct gpus_options options = fake_gpus_options();
        struct story        s = { 0 };
        struct fake_gpus    f;
        AUTO_CHARS          failure = mem_printf("%s:%u:%u", function, n, code);

        options.enable_peer_access = has_peers;
        fake_gpus_find(&f);
        f.fake_cuda_set("FAIL", failure);
        f.fake_cuda_set("DELAY_US", "20");
        assert_null(gpus_open(&options, &f.gpus));
        if (gpus_count(f.gpus) == 2)
                use(f.gpus, &s, bytes, has_peers ? FEW_BYTES : BYTES);
        f.fake_cuda_set("FAIL", NULL);
        f.fake_cuda_set("DELAY_US", NULL);
        if (gpus_count(f.gpus) < 2) { /* a device that cannot be read is left out */
                gpus_close(f.gpus);
                return true;
        }
        if (strcmp(function, "cuCtxSetCurrent") ==
            0) /* the call that makes the former one current again may fail */
                f.cuCtxSetCurrent(NULL);
        assert_no_context(&f);
        end(f.gpus, &s);
        assert_int_equal(gpu_pool_usage(f.gpus, GPU_HOST).used_bytes, 0);
        assert_int_equal(gpu_pool_usage(f.gpus, 0).used_bytes, 0);
        fake_gpus_close(&f);
        return s.has_failed;
}

static bool is_left_out(const char *function) {
        for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
                if (strcmp(left_out[i], function) == 0)
                        return true;
        return false;
}

/* Until a few failures in a row were not noticed: there are no further calls, or they are absorbed. */
static void fail_each_call(const char *function, unsigned code, bool has_peers, char *bytes) {
        unsigned n_unnoticed = 0;

        for (unsigned n = 1; n_unnoticed < MAX_UNNOTICED; n++) {
                assert_true(n < MAX_CALLS);
                n_unnoticed = fails_once(function, n, code, has_peers, bytes) ? 0 : n_unnoticed + 1;
        }
}

/* The copies through the host differ, and nothing else does without peers. */
static bool is_of_copies(const char *function) {
        return strstr(function, "cuEvent") != NULL || strstr(function, "cuStream") != NULL ||
               strstr(function, "cuMemcpy") != NULL || strstr(function, "cuMemHostAlloc") != NULL;
}

static void run(unsigned code, bool has_peers) {
        char *bytes = mem_zalloc(BYTES);

        for (size_t i = 0; i < ARRAY_LEN(functions); i++)
                if (!is_left_out(functions[i]) && (has_peers || is_of_copies(functions[i])))
                        fail_each_call(functions[i], code, has_peers, bytes);
        free(bytes);
}

static void test_with_peers(void **state) {
        (void)state;
        run(CU_ILLEGAL_ADDRESS, true);
}

static void test_without_peers(void **state) {
        (void)state;
        run(CU_OUT_OF_MEMORY, false);
}

SUITE(gpu_failures) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_with_peers),
                cmocka_unit_test(test_without_peers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
