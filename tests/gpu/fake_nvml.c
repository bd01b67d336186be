/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in of NVML: devices of the same names as the driver's stand-in has, and values that a test sets.
 *
 * NESO_FAKE_NVML_FILE names a file that each call reads: lines "<device>.<value>=<number>" or
 * "<device>.<value>=fail" (also "fail:<code>"), "*" for all devices. README.md lists the values. */
#include "fake_identity.h"
#include "gpu/cuda_driver_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#define EXPORT __attribute__((visibility("default")))
#define DECLARE(name, parameters) EXPORT int name parameters;
NVML_FUNCTIONS(DECLARE)

#define DEVICE_BASE ((uintptr_t)0x9A900000)
#define MAX_LINE 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned        n_inits;

/* ---- values ---------------------------------------------------------------------------------- */

/* The last line that names device and value counts. */
static bool find_line(const char *device, const char *value, char ret[MAX_LINE]) {
        const char *path = getenv("NESO_FAKE_NVML_FILE");
        FILE       *file = path != NULL ? fopen(path, "re") : NULL;
        char        line[MAX_LINE], wanted[64], all[64];
        bool        is_found = false;

        if (file == NULL)
                return false;
        (void)snprintf(wanted, sizeof(wanted), "%s.%s=", device, value);
        (void)snprintf(all, sizeof(all), "*.%s=", value);
        while (fgets(line, sizeof(line), file) != NULL) {
                const char *key = strncmp(line, wanted, strlen(wanted)) == 0 ? wanted
                                  : strncmp(line, all, strlen(all)) == 0     ? all
                                                                             : NULL;

                if (key == NULL)
                        continue;
                line[strcspn(line, "\n")] = '\0';
                (void)snprintf(ret, MAX_LINE, "%s", line + strlen(key));
                is_found = true;
        }
        (void)fclose(file);
        return is_found;
}

static int read_value(const char *device, const char *value, unsigned long long *number) {
        char  text[MAX_LINE];
        char *end;

        if (!find_line(device, value, text))
                return NVML_SUCCESS;
        if (strncmp(text, "fail:", 5) == 0)
                return atoi(text + 5);
        if (strcmp(text, "fail") == 0)
                return NVML_UNKNOWN;
        *number = strtoull(text, &end, 10);
        return *end == '\0' ? NVML_SUCCESS : NVML_UNKNOWN;
}

static int n_devices(void) {
        const char *text = getenv("NESO_FAKE_GPU_DEVICES");

        return text != NULL ? atoi(text) : 3;
}

/* As read_value(), of a device that a caller has. */
static int read_of(nvml_device device, const char *value, unsigned long long *number) {
        uintptr_t i = (uintptr_t)device - DEVICE_BASE;
        bool      is_ready;
        char      name[24];

        pthread_mutex_lock(&lock);
        is_ready = n_inits > 0;
        pthread_mutex_unlock(&lock);
        if (!is_ready)
                return NVML_UNINITIALIZED;
        if (i >= (uintptr_t)n_devices())
                return NVML_INVALID_ARGUMENT;
        (void)snprintf(name, sizeof(name), "%lu", (unsigned long)i);
        return read_value(name, value, number);
}

/* ---- the library ----------------------------------------------------------------------------- */

int nvmlInit_v2(void) {
        unsigned long long unused;
        int                result = read_value("nvml", "init", &unused);

        pthread_mutex_lock(&lock);
        if (result == NVML_SUCCESS)
                n_inits++;
        pthread_mutex_unlock(&lock);
        return result;
}

int nvmlShutdown(void) {
        int result = NVML_UNINITIALIZED;

        pthread_mutex_lock(&lock);
        if (n_inits > 0) {
                n_inits--;
                result = NVML_SUCCESS;
        }
        pthread_mutex_unlock(&lock);
        return result;
}

/* ---- devices --------------------------------------------------------------------------------- */

static void print_uuid(char ret[48], int number) {
        unsigned char u[16];

        fake_uuid(u, number);
        (void)snprintf(ret, 48,
                       "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                       u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
                       u[12], u[13], u[14], u[15]);
}

static int find_device(nvml_device *ret, bool (*is_it)(int number, const char *name),
                       const char  *name) {
        unsigned long long unused;

        for (int i = 0; i < n_devices(); i++) {
                nvml_device device = (nvml_device)(DEVICE_BASE + (uintptr_t)i);

                if (is_it(i, name)) {
                        int result = read_of(device, "handle", &unused);

                        if (result == NVML_SUCCESS)
                                *ret = device;
                        return result;
                }
        }
        return NVML_NOT_FOUND;
}

/* The domain has four digits or eight. */
static bool has_bus_id(int number, const char *id) {
        char   own[FAKE_BUS_BYTES];
        size_t n = strlen(id);

        fake_bus_id(own, number);
        return n >= strlen(own) && strcasecmp(id + n - strlen(own), own) == 0 &&
               strspn(id, "0") >= n - strlen(own);
}

static bool has_uuid(int number, const char *uuid) {
        char own[48];

        print_uuid(own, number);
        return strcasecmp(own, uuid) == 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_device *ret) {
        return id == NULL || ret == NULL ? NVML_INVALID_ARGUMENT : find_device(ret, has_bus_id, id);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *ret) {
        return uuid == NULL || ret == NULL ? NVML_INVALID_ARGUMENT
                                           : find_device(ret, has_uuid, uuid);
}

int nvmlDeviceGetUUID(nvml_device device, char *uuid, unsigned size) {
        unsigned long long unused;
        int                result = read_of(device, "uuid", &unused);
        char               text[48];

        if (result != NVML_SUCCESS)
                return result;
        print_uuid(text, (int)((uintptr_t)device - DEVICE_BASE));
        if (size <= strlen(text))
                return NVML_INVALID_ARGUMENT;
        memcpy(uuid, text, strlen(text) + 1);
        return NVML_SUCCESS;
}

/* ---- readings -------------------------------------------------------------------------------- */

int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret) {
        unsigned long long gpu = 25, memory = 10;
        int                result = read_of(device, "utilization", &gpu);

        if (result == NVML_SUCCESS)
                result = read_of(device, "memory_utilization", &memory);
        if (result == NVML_SUCCESS)
                *ret = (struct nvml_utilization){ (unsigned)gpu, (unsigned)memory };
        return result;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *ret) {
        unsigned long long total = 1ull << 30, used = 64ull << 20;
        int                result = read_of(device, "memory_total", &total);

        if (result == NVML_SUCCESS)
                result = read_of(device, "memory_used", &used);
        if (result == NVML_SUCCESS)
                *ret = (struct nvml_memory){ .total = total, .free = total - used, .used = used };
        return result;
}

static int read_unsigned(nvml_device device, const char *value, unsigned long long otherwise,
                         unsigned *ret) {
        unsigned long long number = otherwise;
        int                result = read_of(device, value, &number);

        if (result == NVML_SUCCESS)
                *ret = (unsigned)number;
        return result;
}

int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *milliwatts) {
        return read_unsigned(device, "power", 75000, milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *milliwatts) {
        return read_unsigned(device, "power_limit", 300000, milliwatts);
}

int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoules) {
        unsigned long long number = 1000000;
        int                result = read_of(device, "energy", &number);

        if (result == NVML_SUCCESS)
                *millijoules = number;
        return result;
}
