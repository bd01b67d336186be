/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/fake_gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define N_DEVICES 2

static void allow(char *memory, int access) {
        assert_int_equal(mprotect(memory, FAKE_GPU_BYTES, access), 0);
}

void fake_gpus_open(struct gpus *g) {
        *g = (struct gpus){ 0 };
        for (size_t i = 0; i < FAKE_N_ALLOCATIONS; i++) {
                g->memory[i] = mmap(NULL, FAKE_GPU_BYTES, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                assert_ptr_not_equal(g->memory[i], MAP_FAILED);
                for (size_t at = 0; at < FAKE_GPU_BYTES; at++)
                        g->memory[i][at] = (char)(at % 251);
                allow(g->memory[i], PROT_NONE);
        }
}

void fake_gpus_close(struct gpus *g) {
        assert_int_equal(fake_gpus_n_open(g), 0);
        for (size_t i = 0; i < FAKE_N_ALLOCATIONS; i++)
                munmap(g->memory[i], FAKE_GPU_BYTES);
}

void fake_gpus_handle(size_t allocation, unsigned char ret[GPU_SHARE_BYTES]) {
        memset(ret, 'h', GPU_SHARE_BYTES);
        ret[0] = (unsigned char)allocation;
}

unsigned fake_gpus_n_open(const struct gpus *g) {
        unsigned n = 0;

        for (size_t i = 0; i < FAKE_N_ALLOCATIONS; i++)
                n += g->n_open[i];
        return n;
}

const struct gpu_info *gpus_find(const struct gpus *g, int64_t device) {
        static const struct gpu_info infos[N_DEVICES] = {
                { .device = 0, .total_bytes = FAKE_GPU_TOTAL_BYTES },
                { .device = 1, .total_bytes = FAKE_GPU_TOTAL_BYTES }
        };

        return g != NULL && device >= 0 && device < N_DEVICES ? &infos[device] : NULL;
}

const char *gpus_list(const struct gpus *g) {
        return g != NULL ? "0,1" : "";
}

struct error *gpu_open_shared(struct gpus *g, int device,
                              const unsigned char handle[GPU_SHARE_BYTES], uint64_t bytes,
                              void **ret) {
        unsigned char known[GPU_SHARE_BYTES];
        size_t        i = handle[0];

        assert_non_null(gpus_find(g, device));
        if (g->is_lost)
                return error_new(ERR_UNAVAILABLE, "GPU %d is lost", device);
        fake_gpus_handle(i, known);
        if (i >= FAKE_N_ALLOCATIONS || memcmp(known, handle, sizeof(known)) != 0)
                return error_new(ERR_INVALID_ARG, "invalid resource handle");
        if (bytes > FAKE_GPU_BYTES)
                return error_new(ERR_INVALID_ARG, "the allocation is smaller");
        g->n_open[i]++;
        g->n_opened++;
        *ret = g->memory[i];
        return NULL;
}

struct error *gpu_shared_bytes(struct gpus *g, int device, const void *memory, uint64_t *ret) {
        assert_non_null(gpus_find(g, device));
        assert_non_null(memory);
        *ret = FAKE_GPU_BYTES;
        return NULL;
}

void gpu_close_shared(struct gpus *g, int device, void *memory) {
        size_t i = 0;

        assert_non_null(gpus_find(g, device));
        while (g->memory[i] != memory)
                assert_true(++i < FAKE_N_ALLOCATIONS);
        assert_true(g->n_open[i]-- > 0);
}

/* From one allocation to the host. */
struct error *gpu_copy_all(struct gpus *g, const struct gpu_copy *copies, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const struct gpu_copy *c = &copies[i];
                size_t                 at = 0;

                assert_int_equal(c->to_device, GPU_HOST);
                assert_non_null(gpus_find(g, c->from_device));
                if (g->fails_to_copy)
                        return error_new(ERR_UNAVAILABLE, "GPU %d is lost", c->from_device);
                while ((const char *)c->from < g->memory[at] ||
                       (const char *)c->from + c->bytes > g->memory[at] + FAKE_GPU_BYTES)
                        assert_true(++at < FAKE_N_ALLOCATIONS);
                allow(g->memory[at], PROT_READ);
                memcpy(c->to, c->from, c->bytes);
                allow(g->memory[at], PROT_NONE);
        }
        return NULL;
}
