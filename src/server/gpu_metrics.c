/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/gpu_metrics.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "gpu/cuda_driver_api.h"
#include "gpu/gpu.h"
#include "gpu/gpu_meter.h"
#include "observe/prometheus.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_metrics {
        struct gpu_metrics_options options;
        struct gpu_meter          *meter;      /* owned; NULL: NVML is not read */
        atomic_bool                is_reading; /* one thread reads; it alone uses the next two */
        uint64_t                   read_at_ns;
        struct gpu_readings       *fresh; /* owned; one for each device */

        struct mutex         lock;     /* rank LOCK_METRIC; guards what follows */
        struct gpu_readings *readings; /* owned; those of the last reading */
};

/* ---- readings -------------------------------------------------------------------------------- */

struct gpu_metrics *gpu_metrics_new(const struct gpu_metrics_options *options) {
        struct gpu_metrics *m = mem_zalloc(sizeof(*m));
        size_t              n = gpus_count(options->gpus);

        m->options = *options;
        mutex_init(&m->lock, LOCK_METRIC);
        m->fresh = mem_zalloc((n + 1) * sizeof(*m->fresh));
        m->readings = mem_zalloc((n + 1) * sizeof(*m->readings));
        if (options->reads_nvml)
                gpu_meter_new(NVML_LIBRARY, options->gpus, &m->meter);
        return m;
}

void gpu_metrics_free(struct gpu_metrics *m) {
        gpu_meter_free(m->meter);
        mutex_done(&m->lock);
        free(m->readings);
        free(m->fresh);
        free(m);
}

static void read_all(struct gpu_metrics *m) {
        uint64_t now_ns = clock_now_ns();

        if (m->read_at_ns != 0 && now_ns - m->read_at_ns < m->options.interval_ms * NS_PER_MS)
                return;
        m->read_at_ns = now_ns;
        gpu_meter_read(m->meter, m->fresh);

        MUTEX_GUARD(&m->lock);
        memcpy(m->readings, m->fresh, gpus_count(m->options.gpus) * sizeof(*m->readings));
}

void gpu_metrics_measure(struct gpu_metrics *m) {
        if (m->meter == NULL || atomic_exchange(&m->is_reading, true))
                return;
        read_all(m);
        atomic_store(&m->is_reading, false);
}

static bool is_known_anywhere(const struct gpu_metrics *m, enum gpu_reading reading) {
        for (size_t i = 0; i < gpus_count(m->options.gpus); i++)
                if (m->readings[i].is_known[reading])
                        return true;
        return false;
}

/* A family without a value is left out. */
static void put_reading(struct gpu_metrics *m, struct strbuf *out, enum gpu_reading reading,
                        enum metric_kind kind, const char *name, const char *help) {
        MUTEX_GUARD(&m->lock);
        if (!is_known_anywhere(m, reading))
                return;
        prometheus_head(out, name, help, kind);
        for (size_t i = 0; i < gpus_count(m->options.gpus); i++) {
                struct metric_label label = { "gpu_uuid", gpus_at(m->options.gpus, i)->uuid };
                AUTO_CHARS          text = prometheus_labels_new(&label, 1);

                if (m->readings[i].is_known[reading])
                        prometheus_sample(out, name, text, m->readings[i].values[reading]);
        }
}

static void put_readings(struct gpu_metrics *m, struct strbuf *out) {
        put_reading(m, out, GPU_UTILIZATION, METRIC_GAUGE, "nv_gpu_utilization",
                    "GPU utilization rate [0.0 - 1.0)");
        put_reading(m, out, GPU_MEMORY_TOTAL, METRIC_GAUGE, "nv_gpu_memory_total_bytes",
                    "GPU total memory, in bytes");
        put_reading(m, out, GPU_MEMORY_USED, METRIC_GAUGE, "nv_gpu_memory_used_bytes",
                    "GPU used memory, in bytes");
        put_reading(m, out, GPU_POWER, METRIC_GAUGE, "nv_gpu_power_usage",
                    "GPU power usage in watts");
        put_reading(m, out, GPU_POWER_LIMIT, METRIC_GAUGE, "nv_gpu_power_limit",
                    "GPU power management limit in watts");
        put_reading(m, out, GPU_ENERGY, METRIC_COUNTER, "nv_energy_consumption",
                    "GPU energy consumption in joules since the Triton Server started");
}

static void put_info(const struct gpus *gpus, struct strbuf *out) {
        static const char name[] = "neso_gpu_info";

        prometheus_head(out, name, "The GPUs of the server; the value is always 1", METRIC_GAUGE);
        for (size_t i = 0; i < gpus_count(gpus); i++) {
                const struct gpu_info *info = gpus_at(gpus, i);
                AUTO_CHARS             capability = mem_printf("%d.%d", info->major, info->minor);
                AUTO_CHARS             device = mem_printf("%d", info->device);
                const struct metric_label labels[] = { { "compute_capability", capability },
                                                       { "device", device },
                                                       { "gpu_uuid", info->uuid },
                                                       { "name", info->name },
                                                       { "pci_bus_id", info->pci_bus_id } };
                AUTO_CHARS                text = prometheus_labels_new(labels, ARRAY_LEN(labels));

                prometheus_sample(out, name, text, 1);
        }
}

/* ---- pools and copies ------------------------------------------------------------------------ */

static void put_family(struct strbuf *out, enum metric_kind kind, const char *name,
                       const char *help, double value) {
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

        put_family(out, METRIC_COUNTER, "neso_pinned_memory_pool_full_total",
                   "Allocations that the pinned memory pool had no room for",
                   (double)pinned.n_beyond);
        put_devices(out, gpus, METRIC_GAUGE, "neso_gpu_memory_pool_total_bytes",
                    "Size of the memory pool of a GPU, in bytes; 0 until it is first used",
                    total_of);
        put_devices(out, gpus, METRIC_GAUGE, "neso_gpu_memory_pool_used_bytes",
                    "Used memory of the memory pool of a GPU, in bytes", used_of);
        put_devices(out, gpus, METRIC_COUNTER, "neso_gpu_memory_pool_full_total",
                    "Allocations that the memory pool of a GPU had no room for", beyond_of);
        put_copied(out, gpus);
}

void gpu_metrics_print(struct gpu_metrics *m, struct strbuf *out) {
        const struct gpus *gpus = m->options.gpus;

        put_family(out, METRIC_GAUGE, "nv_pinned_memory_pool_total_bytes",
                   "Pinned memory pool total memory size, in bytes",
                   (double)m->options.pinned_pool_bytes);
        put_family(out, METRIC_GAUGE, "nv_pinned_memory_pool_used_bytes",
                   "Pinned memory pool used memory size, in bytes",
                   (double)gpu_pool_usage(gpus, GPU_HOST).used_bytes);
        if (gpus == NULL)
                return;
        put_readings(m, out);
        put_info(gpus, out);
        put_gpus(out, gpus);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Unknown values are left out. */
static void put_known(struct json_writer *w, const struct gpu_readings *readings) {
        static const char *const keys[N_GPU_READINGS] = {
                [GPU_UTILIZATION] = "utilization",       [GPU_MEMORY_TOTAL] = NULL,
                [GPU_MEMORY_USED] = "memory_used_bytes", [GPU_POWER] = "power_watts",
                [GPU_POWER_LIMIT] = "power_limit_watts", [GPU_ENERGY] = "energy_joules",
        };

        for (size_t i = 0; i < N_GPU_READINGS; i++)
                if (readings->is_known[i] && keys[i] != NULL) {
                        json_key(w, keys[i]);
                        if (i == GPU_MEMORY_USED)
                                json_put_u64(w, (uint64_t)readings->values[i]);
                        else
                                json_put_f64(w, readings->values[i]);
                }
}

static void put_gpu(struct json_writer *w, const struct gpus *gpus, const struct gpu_info *info,
                    const struct gpu_readings *readings) {
        struct gpu_pool_usage usage = gpu_pool_usage(gpus, info->device);
        char                  capability[32];

        (void)snprintf(capability, sizeof(capability), "%d.%d", info->major, info->minor);
        json_begin_object(w);
        json_member_i64(w, "device", info->device);
        json_member_string(w, "name", info->name);
        json_member_string(w, "uuid", info->uuid);
        json_member_string(w, "pci_bus_id", info->pci_bus_id);
        json_member_string(w, "compute_capability", capability);
        json_member_u64(w, "memory_total_bytes", info->total_bytes);
        put_known(w, readings);
        json_member_u64(w, "pool_total_bytes", usage.total_bytes);
        json_member_u64(w, "pool_used_bytes", usage.used_bytes);
        json_end_object(w);
}

void gpu_metrics_print_json(struct gpu_metrics *m, struct strbuf *out) {
        const struct gpus *gpus = m->options.gpus;
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_array(&w, "gpus");
        mutex_lock(&m->lock);
        for (size_t i = 0; i < gpus_count(gpus); i++)
                put_gpu(&w, gpus, gpus_at(gpus, i), &m->readings[i]);
        mutex_unlock(&m->lock);
        json_end_array(&w);
        json_end_object(&w);
}
