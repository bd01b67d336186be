/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/gpu.h"

#include "base/mem.h"

#include <string.h>

#define PINNED_ALIGNMENT 64

struct error *gpus_open(const struct gpus_options *options, struct gpus **ret) {
        (void)options;
        *ret = NULL;
        return NULL;
}

void gpus_close(struct gpus *g) {
        (void)g;
}

size_t gpus_count(const struct gpus *g) {
        (void)g;
        return 0;
}

const struct gpu_info *gpus_at(const struct gpus *g, size_t index) {
        (void)g;
        (void)index;
        return NULL;
}

const struct gpu_info *gpus_find(const struct gpus *g, int64_t device) {
        (void)g;
        (void)device;
        return NULL;
}

const char *gpus_list(const struct gpus *g) {
        (void)g;
        return "";
}

static struct error *unknown_device(const struct gpus *g, int device) {
        (void)g;
        return error_new(ERR_INVALID_ARG, "GPU %d is unknown: no GPUs are available", device);
}

struct error *gpu_enter(struct gpus *g, int device) {
        return unknown_device(g, device);
}

struct error *gpu_memory_left(struct gpus *g, int device, uint64_t *ret_free, uint64_t *ret_total) {
        (void)ret_free;
        (void)ret_total;
        return unknown_device(g, device);
}

struct error *gpu_alloc(struct gpus *g, int device, size_t bytes, void **ret) {
        (void)bytes;
        (void)ret;
        return unknown_device(g, device);
}

void gpu_free(struct gpus *g, int device, void *memory) {
        (void)g;
        (void)device;
        (void)memory;
}

struct error *gpu_pinned_alloc(struct gpus *g, size_t bytes, void **ret, bool *ret_is_pinned) {
        void *memory = try_aligned_alloc(PINNED_ALIGNMENT, bytes);

        (void)g;
        if (memory == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory: %zu bytes", bytes);
        *ret = memory;
        *ret_is_pinned = false;
        return NULL;
}

void gpu_pinned_free(struct gpus *g, void *memory) {
        (void)g;
        free(memory);
}

struct gpu_pool_usage gpu_pool_usage(const struct gpus *g, int device) {
        (void)g;
        (void)device;
        return (struct gpu_pool_usage){ 0 };
}

struct error *gpu_growable_new(struct gpus *g, int device, uint64_t max_bytes,
                               struct gpu_growable **ret) {
        (void)max_bytes;
        (void)ret;
        return unknown_device(g, device);
}

void gpu_growable_free(struct gpu_growable *b) {
        (void)b;
}

struct error *gpu_growable_reserve(struct gpu_growable *b, size_t bytes) {
        (void)b;
        (void)bytes;
        return error_new(ERR_INTERNAL, "there is no growable memory without GPUs");
}

void *gpu_growable_memory(const struct gpu_growable *b) {
        (void)b;
        return NULL;
}

struct error *gpu_copy_all(struct gpus *g, const struct gpu_copy *copies, size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (copies[i].to_device != GPU_HOST)
                        return unknown_device(g, copies[i].to_device);
                if (copies[i].from_device != GPU_HOST)
                        return unknown_device(g, copies[i].from_device);
        }
        for (size_t i = 0; i < n; i++)
                if (copies[i].bytes > 0)
                        memcpy(copies[i].to, copies[i].from, copies[i].bytes);
        return NULL;
}

struct error *gpu_zero(struct gpus *g, int device, void *memory, size_t bytes) {
        if (device != GPU_HOST)
                return unknown_device(g, device);
        if (bytes > 0)
                memset(memory, 0, bytes);
        return NULL;
}

struct gpu_traffic gpus_traffic(const struct gpus *g) {
        (void)g;
        return (struct gpu_traffic){ 0 };
}

struct error *gpu_share(struct gpus *g, int device, const void *memory,
                        unsigned char ret[GPU_SHARE_BYTES]) {
        (void)memory;
        (void)ret;
        return unknown_device(g, device);
}

struct error *gpu_open_shared(struct gpus *g, int device,
                              const unsigned char handle[GPU_SHARE_BYTES], uint64_t bytes,
                              void **ret) {
        (void)handle;
        (void)bytes;
        (void)ret;
        return unknown_device(g, device);
}

void gpu_close_shared(struct gpus *g, int device, void *memory) {
        (void)g;
        (void)device;
        (void)memory;
}
