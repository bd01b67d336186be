/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#define SET(name, ...) OK(TRITONSERVER_ServerOptions##name, options, __VA_ARGS__)

static void set_all(struct TRITONSERVER_ServerOptions *options, const struct places *places) {
        SET(SetServerId, "calls");
        SET(SetModelRepositoryPath, places->models);
        SET(SetModelControlMode, TRITONSERVER_MODEL_CONTROL_NONE);
        SET(SetStartupModel, "calls");
        SET(SetStrictModelConfig, true);
        SET(SetModelConfigName, "other");
        SET(SetRateLimiterMode, TRITONSERVER_RATE_LIMIT_OFF);
        SET(AddRateLimiterResource, "resource", 1, -1);
        SET(SetPinnedMemoryPoolByteSize, 1 << 20);
        SET(SetCudaMemoryPoolByteSize, 0, 1 << 20);
        SET(SetCudaVirtualAddressSize, 0, 1 << 20);
        SET(SetResponseCacheByteSize, 1 << 20);
        SET(SetCacheConfig, "calls", "{}");
        SET(SetCacheDirectory, places->plugins);
        SET(SetMinSupportedComputeCapability, 6.0);
        SET(SetExitOnError, true);
        SET(SetStrictReadiness, true);
        SET(SetExitTimeout, 30);
        OK(NESO_ServerOptionsSetAllowUploadedBackends, options, false);
        OK(NESO_ServerOptionsSetLoadReasons, options, false);
        OK(NESO_ServerOptionsSetByName, options, "adaptive-batching", "flow");
        OK(NESO_ServerOptionsSetByName, options, "chain-strict-unload", "false");
        OK(NESO_ServerOptionsSetByName, options, "memory-budget", "0");
        OK(NESO_ServerOptionsSetByName, options, "scheduler", "default");
        OK(NESO_ServerOptionsSetByName, options, "scheduler-directory", places->plugins);
        OK(NESO_ServerOptionsSetMemoryBudget, options, 0, NULL);
        OK(NESO_ServerOptionsSetStartFunction, options, NULL, NULL);
        SET(SetBufferManagerThreadCount, 0);
        SET(SetModelLoadThreadCount, 2);
        SET(SetModelLoadRetryCount, 0);
        SET(SetModelNamespacing, false);
        SET(SetEnablePeerAccess, true);
        SET(SetMetrics, true);
        SET(SetGpuMetrics, true);
        SET(SetCpuMetrics, true);
        SET(SetMetricsInterval, 2000);
        SET(SetBackendDirectory, places->plugins);
        SET(SetRepoAgentDirectory, places->plugins);
        SET(SetModelLoadDeviceLimit, TRITONSERVER_INSTANCEGROUPKIND_GPU, 0, 0.5);
        SET(SetBackendConfig, "calls", "key", "value");
        SET(SetHostPolicy, "here", "numa-node", "0");
        SET(SetMetricsConfig, "", "counter_latencies", "true");
        /* The log is the process's. */
        SET(SetLogFile, places->log);
        SET(SetLogInfo, true);
        SET(SetLogWarn, true);
        SET(SetLogError, true);
        SET(SetLogVerbose, 0);
        SET(SetLogFormat, TRITONSERVER_LOG_ISO8601);
}

struct TRITONSERVER_ServerOptions *call_options(const struct places          *places,
                                                TRITONSERVER_ModelControlMode mode) {
        struct TRITONSERVER_ServerOptions *options;
        bool is_explicit = mode == TRITONSERVER_MODEL_CONTROL_EXPLICIT;

        OK(TRITONSERVER_ServerOptionsNew, &options);
        set_all(options, places);
        OK(TRITONSERVER_ServerOptionsDelete, options);

        OK(TRITONSERVER_ServerOptionsNew, &options);
        SET(SetModelRepositoryPath, is_explicit ? places->models : places->more_models);
        SET(SetModelControlMode, mode);
        SET(SetStrictModelConfig, false);
        if (is_explicit)
                SET(SetStartupModel, "calls");
        SET(SetBackendDirectory, places->plugins);
        SET(SetRepoAgentDirectory, places->plugins);
        SET(SetCacheDirectory, places->plugins);
        SET(SetCacheConfig, "calls", "{}");
        SET(SetBackendConfig, "tensorrt", "key", "value");
        return options;
}
