/* SPDX-License-Identifier: BSD-3-Clause */
/* Readings of GPUs: utilization, memory, power, energy. They come from NVML (libnvidia-ml.so.1), which is
 * opened at run time and finds the devices by their PCI bus ids, parts of a device (MIG) by their UUIDs.
 *
 * A reading that fails three times in a row ends for that device, with one warning: what a driver does not
 * support would otherwise be read and logged at each scrape.
 *
 * Ownership.  The server's.
 * Threads.  One at a time; the functions may block for some milliseconds.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct gpu_meter;
struct gpus;

enum gpu_reading {
        GPU_UTILIZATION,  /* 0 to 1 */
        GPU_MEMORY_TOTAL, /* bytes */
        GPU_MEMORY_USED,  /* bytes, of all processes */
        GPU_POWER,        /* watts */
        GPU_POWER_LIMIT,  /* watts */
        GPU_ENERGY,       /* joules since the meter was made */
        N_GPU_READINGS
};

struct gpu_readings {
        double values[N_GPU_READINGS];
        bool   is_known[N_GPU_READINGS];
};

/* `library` is NVML_LIBRARY. *ret is NULL when there are no GPUs, or NVML cannot be used: then one line in
 * the log says why, and gpu_meter_read() reads nothing. */
void gpu_meter_new(const char *library, const struct gpus *gpus, struct gpu_meter **ret);
void gpu_meter_free(struct gpu_meter *m); /* NULL is fine, as below */

/* Reads all devices; ret has one element for each device of the GPUs, in their order. */
void gpu_meter_read(struct gpu_meter *m, struct gpu_readings *ret);
