/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in of NVML. */
#include "suite.h"

#include "driver_table.h"

#include <stdio.h>
#include <unistd.h>

struct nvml_table {
#define NVML_FIELD(name, parameters) int(*name) parameters;
        NVML_FUNCTIONS(NVML_FIELD)
#undef NVML_FIELD
};

static struct nvml_table nvml;
static char              path[] = "/tmp/fake_nvml.XXXXXX";

static int open_library(void **state) {
        void *library = dlopen(FAKE_NVML, RTLD_NOW);
        int   file = mkstemp(path);
        bool  is_whole = library != NULL && file >= 0;

        (void)state;
#define NVML_LOOK_UP(name, parameters)                                                             \
        is_whole = is_whole && driver_symbol(library, #name, &nvml.name);
        NVML_FUNCTIONS(NVML_LOOK_UP)
#undef NVML_LOOK_UP
        (void)close(file);
        return setenv("NESO_FAKE_NVML_FILE", path, 1) != 0 || !is_whole;
}

static int remove_file(void **state) {
        (void)state;
        return unlink(path);
}

static void set_values(const char *text) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        (void)fputs(text, file);
        (void)fclose(file);
}

static void test_init(void **state) {
        nvml_device device;

        (void)state;
        assert_int_equal(nvml.nvmlShutdown(), NVML_UNINITIALIZED);
        assert_int_equal(nvml.nvmlDeviceGetHandleByPciBusId_v2("0000:1a:00.0", &device),
                         NVML_UNINITIALIZED);
        set_values("nvml.init=fail:9\n");
        assert_int_equal(nvml.nvmlInit_v2(), 9);
        set_values("");
        assert_int_equal(nvml.nvmlInit_v2(), NVML_SUCCESS);
}

static void test_devices(void **state) {
        nvml_device device, same;
        char        uuid[48];

        (void)state;
        assert_int_equal(nvml.nvmlDeviceGetHandleByPciBusId_v2("00000000:1B:00.0", &device),
                         NVML_SUCCESS);
        assert_int_equal(nvml.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), NVML_SUCCESS);
        assert_string_equal(uuid, "GPU-4e65736f-2d46-616b-652d-4750552d0001");
        assert_int_equal(nvml.nvmlDeviceGetUUID(device, uuid, 40), NVML_INVALID_ARGUMENT);
        assert_int_equal(nvml.nvmlDeviceGetHandleByUUID(uuid, &same), NVML_SUCCESS);
        assert_ptr_equal(same, device);
        assert_int_equal(nvml.nvmlDeviceGetHandleByPciBusId_v2("0000:ff:00.0", &device),
                         NVML_NOT_FOUND);
}

static void test_readings(void **state) {
        struct nvml_utilization utilization;
        struct nvml_memory      memory;
        unsigned long long      energy;
        unsigned                power, limit;
        nvml_device             device;

        (void)state;
        assert_int_equal(nvml.nvmlDeviceGetHandleByPciBusId_v2("0000:1a:00.0", &device),
                         NVML_SUCCESS);
        assert_int_equal(nvml.nvmlDeviceGetPowerUsage(device, &power), NVML_SUCCESS);
        assert_int_equal(power, 75000);
        set_values("0.power=1\n1.power=2\n*.utilization=77\n0.energy=5000000000\n"
                   "0.memory_total=100\n0.memory_used=30\n0.power_limit=fail\n");
        assert_int_equal(nvml.nvmlDeviceGetPowerUsage(device, &power), NVML_SUCCESS);
        assert_int_equal(power, 1);
        assert_int_equal(nvml.nvmlDeviceGetUtilizationRates(device, &utilization), NVML_SUCCESS);
        assert_int_equal(utilization.gpu, 77);
        assert_int_equal(nvml.nvmlDeviceGetTotalEnergyConsumption(device, &energy), NVML_SUCCESS);
        assert_int_equal(energy, 5000000000u);
        assert_int_equal(nvml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
        assert_int_equal(memory.total, 100);
        assert_int_equal(memory.used, 30);
        assert_int_equal(memory.free, 70);
        assert_int_equal(nvml.nvmlDeviceGetEnforcedPowerLimit(device, &limit), NVML_UNKNOWN);
        set_values("0.power=fail:15\n");
        assert_int_equal(nvml.nvmlDeviceGetPowerUsage(device, &power), NVML_GPU_IS_LOST);
}

SUITE(fake_nvml) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_init),
                cmocka_unit_test(test_devices),
                cmocka_unit_test(test_readings),
        };

        return cmocka_run_group_tests(tests, open_library, remove_file);
}
