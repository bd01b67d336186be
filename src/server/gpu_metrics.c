/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/gpu_metrics.h"

#include "base/mem.h"
#include "gpu/gpu.h"
#include "observe/prometheus.h"

static void put(struct strbuf *out, enum metric_kind kind, const char *name, const char *help,
                double value) {
        prometheus_head(out, name, help, kind);
        prometheus_sample(out, name, "", value);
}

/* A family with a value for each device. */
static void put_devices(struct strbuf *out, const struct gpus *gpus, enum metric_kind kind,
                        const char *name, const char *help,
                        double (*value_of)(const struct gpu_pool_usage *usage)) {
        prometheus_head(out, name, help, kind);
        for (size_t i = 0; i < gpus_count(gpus); i++) {
                const struct gpu_info *info = gpus_at(gpus, i);
                struct gpu_pool_usage  usage = gpu_pool_usage(gpus, info->device);
                struct metric_label    label = { "gpu_uuid", info->uuid };
                AUTO_CHARS             text = prometheus_labels_new(&label, 1);

                prometheus_sample(out, name, text, value_of(&usage));
        }
}

static double total_of(const struct gpu_pool_usage *usage) {
        return (double)usage->total_bytes;
}

static double used_of(const struct gpu_pool_usage *usage) {
        return (double)usage->used_bytes;
}

static double beyond_of(const struct gpu_pool_usage *usage) {
        return (double)usage->n_beyond;
}

static void put_copied(struct strbuf *out, const struct gpus *gpus) {
        static const char        name[] = "neso_gpu_copied_bytes_total";
        const struct gpu_traffic t = gpus_traffic(gpus);

        prometheus_head(out, name, "Bytes that the server copied to, from and between GPUs",
                        METRIC_COUNTER);
        prometheus_sample(out, name, "{direction=\"to_device\"}", (double)t.to_device);
        prometheus_sample(out, name, "{direction=\"to_host\"}", (double)t.to_host);
        prometheus_sample(out, name, "{direction=\"within_device\"}", (double)t.within_device);
        prometheus_sample(out, name, "{direction=\"between_devices\"}", (double)t.between_devices);
}

static void put_gpus(struct strbuf *out, const struct gpus *gpus) {
        const struct gpu_pool_usage pinned = gpu_pool_usage(gpus, GPU_HOST);

        put(out, METRIC_COUNTER, "neso_pinned_memory_pool_full_total",
            "Allocations that the pinned memory pool had no room for", (double)pinned.n_beyond);
        put_devices(out, gpus, METRIC_GAUGE, "neso_gpu_memory_pool_total_bytes",
                    "Size of the memory pool of a GPU, in bytes; 0 until it is first used",
                    total_of);
        put_devices(out, gpus, METRIC_GAUGE, "neso_gpu_memory_pool_used_bytes",
                    "Used memory of the memory pool of a GPU, in bytes", used_of);
        put_devices(out, gpus, METRIC_COUNTER, "neso_gpu_memory_pool_full_total",
                    "Allocations that the memory pool of a GPU had no room for", beyond_of);
        put_copied(out, gpus);
}

void gpu_metrics_print(const struct gpus *gpus, uint64_t pinned_pool_bytes, struct strbuf *out) {
        put(out, METRIC_GAUGE, "nv_pinned_memory_pool_total_bytes",
            "Pinned memory pool total memory size, in bytes", (double)pinned_pool_bytes);
        put(out, METRIC_GAUGE, "nv_pinned_memory_pool_used_bytes",
            "Pinned memory pool used memory size, in bytes",
            (double)gpu_pool_usage(gpus, GPU_HOST).used_bytes);
        if (gpus != NULL)
                put_gpus(out, gpus);
}
