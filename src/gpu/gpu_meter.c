/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/gpu_meter.h"

#include "base/dl.h"
#include "base/log.h"
#include "base/mem.h"
#include "gpu/cuda_driver_api.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FAILURES 3

struct nvml {
#define NVML_MEMBER(name, parameters) int(*name) parameters;
        NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
};

struct metered_gpu {
        const struct gpu_info *info;     /* borrowed */
        nvml_device            device;   /* NULL: NVML does not know it */
        unsigned long long     start_mj; /* the first reading of energy, from which it is counted */
        bool                   has_start;
        unsigned               n_failures[N_GPU_READINGS];
};

struct gpu_meter {
        struct nvml        nvml;
        size_t             n;
        struct metered_gpu gpus[];
};

/* ---- the library ----------------------------------------------------------------------------- */

static const struct {
        const char *name;
        size_t      offset;
} functions[] = {
#define NVML_ROW(name, parameters) { #name, offsetof(struct nvml, name) },
        NVML_FUNCTIONS(NVML_ROW)
#undef NVML_ROW
};

/* Drivers may lack a function of a reading, which then always fails; the others are needed. */
static bool is_of_reading(const char *name) {
        return strncmp(name, "nvmlDeviceGet", 13) == 0 &&
               strncmp(name, "nvmlDeviceGetHandle", 19) != 0;
}

static struct error *find_all(struct dl *library, struct nvml *n) {
        for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
                dl_symbol_fn function = dl_find(library, functions[i].name);

                if (function == NULL && !is_of_reading(functions[i].name))
                        return error_new(ERR_UNSUPPORTED, "%s has no function %s", dl_path(library),
                                         functions[i].name);
                memcpy((char *)n + functions[i].offset, &function, sizeof(function));
        }
        return NULL;
}

static struct error *open_library(const char *name, struct nvml *ret) {
        struct dl    *library;
        struct error *err;
        int           result;

        TRY(dl_open(name, &library));
        err = find_all(library, ret);
        dl_keep(library);
        if (err != NULL)
                return err;
        result = ret->nvmlInit_v2();
        if (result != NVML_SUCCESS)
                return error_new(ERR_UNAVAILABLE, "nvmlInit failed with NVML error %d", result);
        return NULL;
}

/* ---- devices --------------------------------------------------------------------------------- */

static nvml_device find_device(const struct nvml *n, const struct gpu_info *info) {
        nvml_device device = NULL;
        int         result = strncmp(info->uuid, "MIG-", 4) == 0
                                     ? n->nvmlDeviceGetHandleByUUID(info->uuid, &device)
                                     : n->nvmlDeviceGetHandleByPciBusId_v2(info->pci_bus_id, &device);

        if (result == NVML_SUCCESS)
                return device;
        log_warn("no metrics of GPU %d (%s): NVML error %d", info->device, info->pci_bus_id,
                 result);
        return NULL;
}

/* ---- readings -------------------------------------------------------------------------------- */

static int read_utilization(const struct nvml *n, nvml_device device, double *ret) {
        struct nvml_utilization u;
        int                     result;

        if (n->nvmlDeviceGetUtilizationRates == NULL)
                return NVML_NOT_SUPPORTED;
        result = n->nvmlDeviceGetUtilizationRates(device, &u);
        if (result == NVML_SUCCESS)
                *ret = (double)u.gpu / 100;
        return result;
}

static int read_memory(const struct nvml *n, nvml_device device, bool is_total, double *ret) {
        struct nvml_memory memory;
        int                result;

        if (n->nvmlDeviceGetMemoryInfo == NULL)
                return NVML_NOT_SUPPORTED;
        result = n->nvmlDeviceGetMemoryInfo(device, &memory);
        if (result == NVML_SUCCESS)
                *ret = (double)(is_total ? memory.total : memory.used);
        return result;
}

static int read_power(int (*function)(nvml_device device, unsigned *milliwatts), nvml_device device,
                      double *ret) {
        unsigned milliwatts;
        int      result;

        if (function == NULL)
                return NVML_NOT_SUPPORTED;
        result = function(device, &milliwatts);
        if (result == NVML_SUCCESS)
                *ret = (double)milliwatts / 1000;
        return result;
}

/* The count begins anew when the driver's did, which a reset of the device does. */
static int read_energy(const struct nvml *n, struct metered_gpu *g, double *ret) {
        unsigned long long millijoules;
        int                result;

        if (n->nvmlDeviceGetTotalEnergyConsumption == NULL)
                return NVML_NOT_SUPPORTED;
        result = n->nvmlDeviceGetTotalEnergyConsumption(g->device, &millijoules);
        if (result != NVML_SUCCESS)
                return result;
        if (!g->has_start)
                g->start_mj = millijoules;
        else if (millijoules < g->start_mj)
                g->start_mj = 0;
        g->has_start = true;
        *ret = (double)(millijoules - g->start_mj) / 1000;
        return result;
}

static int read_one(const struct nvml *n, struct metered_gpu *g, enum gpu_reading reading,
                    double *ret) {
        nvml_device device = g->device;

        switch (reading) {
        case GPU_UTILIZATION: return read_utilization(n, device, ret);
        case GPU_MEMORY_TOTAL: return read_memory(n, device, true, ret);
        case GPU_MEMORY_USED: return read_memory(n, device, false, ret);
        case GPU_POWER: return read_power(n->nvmlDeviceGetPowerUsage, device, ret);
        case GPU_POWER_LIMIT: return read_power(n->nvmlDeviceGetEnforcedPowerLimit, device, ret);
        case GPU_ENERGY: return read_energy(n, g, ret);
        case N_GPU_READINGS: break;
        }
        return NVML_NOT_SUPPORTED;
}

static const char *reading_name(enum gpu_reading reading) {
        static const char *const names[N_GPU_READINGS] = {
                [GPU_UTILIZATION] = "utilization", [GPU_MEMORY_TOTAL] = "total memory",
                [GPU_MEMORY_USED] = "used memory", [GPU_POWER] = "power usage",
                [GPU_POWER_LIMIT] = "power limit", [GPU_ENERGY] = "energy consumption",
        };

        return names[reading];
}

/* True when the reading is known now. */
static bool read_value(const struct nvml *n, struct metered_gpu *g, enum gpu_reading reading,
                       double *ret) {
        int result;

        if (g->device == NULL || g->n_failures[reading] == MAX_FAILURES)
                return false;
        result = read_one(n, g, reading, ret);
        if (result == NVML_SUCCESS) {
                g->n_failures[reading] = 0;
                return true;
        }
        if (++g->n_failures[reading] == MAX_FAILURES)
                log_warn("the %s of GPU %d could not be read %d times in a row (NVML error %d): it "
                         "is not read any more",
                         reading_name(reading), g->info->device, MAX_FAILURES, result);
        return false;
}

void gpu_meter_read(struct gpu_meter *m, struct gpu_readings *ret) {
        if (m == NULL)
                return;
        for (size_t i = 0; i < m->n; i++)
                for (enum gpu_reading k = 0; k < N_GPU_READINGS; k++)
                        ret[i].is_known[k] =
                                read_value(&m->nvml, &m->gpus[i], k, &ret[i].values[k]);
}

/* ---- the meter ------------------------------------------------------------------------------- */

/* A failure counts as none: the first reading that succeeds is the start then. */
static void start_energy(struct gpu_meter *m) {
        double joules;

        for (size_t i = 0; i < m->n; i++)
                if (m->gpus[i].device != NULL)
                        (void)read_energy(&m->nvml, &m->gpus[i], &joules);
}

void gpu_meter_new(const char *library, const struct gpus *gpus, struct gpu_meter **ret) {
        size_t            n = gpus_count(gpus);
        AUTO_ERROR        err = NULL;
        struct gpu_meter *m;
        struct nvml       nvml;

        *ret = NULL;
        if (n == 0)
                return;
        err = open_library(library, &nvml);
        if (err != NULL) {
                log_info("no metrics of GPUs: %s", err->message);
                return;
        }
        m = mem_zalloc(sizeof(*m) + n * sizeof(m->gpus[0]));
        m->nvml = nvml;
        m->n = n;
        for (size_t i = 0; i < n; i++)
                m->gpus[i] = (struct metered_gpu){ .info = gpus_at(gpus, i),
                                                   .device = find_device(&nvml, gpus_at(gpus, i)) };
        start_energy(m);
        *ret = m;
}

void gpu_meter_free(struct gpu_meter *m) {
        if (m == NULL)
                return;
        (void)m->nvml.nvmlShutdown();
        free(m);
}
