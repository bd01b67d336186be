/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_gpus.h"

#include "base/log.h"
#include "gpu/gpu.h"

/* Options of GPUs stand in many command lines; on a machine without one they are not worth the server. */
static void report_device(const struct gpus *g, const char *option, int device) {
        if (g != NULL && gpus_find(g, device) == NULL)
                log_warn("--%s has no effect for GPU %d: the GPUs are %s", option, device,
                         gpus_list(g));
}

static void report_bytes(const struct gpus *g, const char *option, const struct gpu_bytes *settings,
                         size_t n) {
        if (g == NULL && n > 0)
                log_warn("--%s has no effect: this server has no GPUs", option);
        for (size_t i = 0; i < n; i++)
                report_device(g, option, settings[i].device);
}

static void report_limits(const struct gpus *g, const struct gpu_fraction *limits, size_t n) {
        if (g == NULL && n > 0)
                log_warn("--model-load-gpu-limit has no effect: this server has no GPUs");
        for (size_t i = 0; i < n; i++)
                report_device(g, "model-load-gpu-limit", limits[i].device);
}

struct error *server_gpus_open(const struct server_options *o, struct gpus **ret) {
        const struct gpus_options options = {
                .min_compute_capability = o->min_compute_capability,
                .enable_peer_access = o->peer_access,
                .pinned_pool_bytes = (uint64_t)o->pinned_pool_bytes,
                .pools = o->cuda_pools,
                .n_pools = o->n_cuda_pools,
                .virtual_sizes = o->cuda_virtual_sizes,
                .n_virtual_sizes = o->n_cuda_virtual_sizes,
                .load_limits = o->load_limits,
                .n_load_limits = o->n_load_limits,
        };
        struct gpus *g;

        TRY(gpus_open(&options, &g));
        report_bytes(g, "cuda-memory-pool-byte-size", o->cuda_pools, o->n_cuda_pools);
        report_bytes(g, "cuda-virtual-address-size", o->cuda_virtual_sizes,
                     o->n_cuda_virtual_sizes);
        report_limits(g, o->load_limits, o->n_load_limits);
        *ret = g;
        return NULL;
}
