/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_gpus.h"

#include <dlfcn.h>
#include <string.h>

static const char *const settings[] = { "DEVICES",     "CAPABILITIES", "MEMORY", "VIRTUAL", "PEERS",
                                        "ALLOC_LIMIT", "PINNED_LIMIT", "FAIL",   "SEED" };

struct gpus_options fake_gpus_options(void) {
        static const struct gpu_bytes pools[] = { { 0, 1 << 20 }, { 1, 1 << 20 } };

        return (struct gpus_options){ .min_compute_capability = 6,
                                      .enable_peer_access = true,
                                      .pinned_pool_bytes = 1 << 20,
                                      .is_quiet = true,
                                      .pools = pools,
                                      .n_pools = 2 };
}

static void look_up(void *library, const char *name, void *ret_function) {
        void *symbol = dlsym(library, name);

        if (symbol == NULL)
                fail_msg("the stand-in has no %s", name);
        memcpy(ret_function, &symbol, sizeof(symbol));
}

void fake_gpus_find(struct fake_gpus *f) {
        void *library = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);

        if (library == NULL)
                fail_msg("%s; build/tests/gpu must be in LD_LIBRARY_PATH", dlerror());
        memset(f, 0, sizeof(*f));
#define FAKE_LOOK_UP(result, name, parameters) look_up(library, #name, &f->name);
        FAKE_CUDA_FUNCTIONS(FAKE_LOOK_UP)
#undef FAKE_LOOK_UP
#define CUDA_LOOK_UP(name, parameters) look_up(library, #name, &f->name);
        CUDA_FUNCTIONS(CUDA_LOOK_UP)
#undef CUDA_LOOK_UP
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
                f->fake_cuda_set(settings[i], NULL);
}

void fake_gpus_open(struct fake_gpus *f, const struct gpus_options *options) {
        fake_gpus_find(f);
        assert_null(gpus_open(options, &f->gpus));
        assert_non_null(f->gpus);
}

void fake_gpus_close(struct fake_gpus *f) {
        struct fake_cuda_counts counts;

        gpus_close(f->gpus);
        f->fake_cuda_set("FAIL", NULL);
        f->fake_cuda_check_leaks();
        counts = fake_gpus_count(f);
        assert_int_equal(counts.n_allocations, 0);
        assert_int_equal(counts.n_pinned, 0);
        assert_int_equal(counts.n_streams, 0);
        assert_int_equal(counts.n_events, 0);
        assert_int_equal(counts.n_contexts, 0);
        assert_no_context(f);
}

struct fake_cuda_counts fake_gpus_count(const struct fake_gpus *f) {
        struct fake_cuda_counts counts;

        f->fake_cuda_count(&counts);
        return counts;
}

void assert_gpu_error(struct error *err, enum error_code code, const char *part) {
        if (err == NULL)
                fail_msg("there is no error '%s'", part);
        if (strstr(err->message, part) == NULL)
                fail_msg("'%s' is not in '%s'", part, err->message);
        assert_int_equal(err->code, code);
        error_free(err);
}

void assert_no_context(const struct fake_gpus *f) {
        cu_context context = NULL;

        assert_int_equal(f->cuCtxGetCurrent(&context), CU_SUCCESS);
        assert_null(context);
}

void put_bytes(struct gpus *g, int device, void *to, const void *from, size_t bytes) {
        assert_null(gpu_copy_all(g,
                                 &(struct gpu_copy){ .to = to,
                                                     .from = from,
                                                     .to_device = device,
                                                     .from_device = GPU_HOST,
                                                     .bytes = bytes },
                                 1));
}

void get_bytes(struct gpus *g, int device, void *to, const void *from, size_t bytes) {
        assert_null(gpu_copy_all(g,
                                 &(struct gpu_copy){ .to = to,
                                                     .from = from,
                                                     .to_device = GPU_HOST,
                                                     .from_device = device,
                                                     .bytes = bytes },
                                 1));
}

void fill_bytes(void *memory, size_t bytes, unsigned seed) {
        unsigned char *at = memory;

        for (size_t i = 0; i < bytes; i++)
                at[i] = (unsigned char)(i * 31 + i / 251 + seed);
}
