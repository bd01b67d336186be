/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes defaults explicit, so that the rest of the server and the printed configuration agree.
 *
 * Both functions may run again (after a backend completed the configuration): fields that are set
 * stay. Source: model configuration, normalisation. Errors are INVALID_ARG "model configuration is
 * too large".
 *
 * Threads.  The configuration's owner.
 */
#pragma once

#include "config/model_config.h"

#include <stdint.h>

/* Sets version_policy, preferred batch sizes, sequence idle time, pinned memory. */
struct error *model_config_normalize(struct model_config *c) NODISCARD;

/* An instance group that a backend prefers
 * (TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup). */
struct preferred_group {
        Inference__ModelInstanceGroup__Kind kind;
        uint32_t                            count; /* 0: no preference */
        const int32_t                      *gpus;  /* borrowed */
        size_t                              n_gpus;
};

struct config_devices {
        const struct preferred_group *preferred; /* borrowed; most preferred first */
        size_t                        n_preferred;
        const int32_t                *gpus; /* borrowed: ids of the usable GPUs, ascending */
        size_t                        n_gpus;
        double least_capability; /* compute capability of usable GPUs, for messages */
        bool   is_cpu_only;      /* the backend cannot use GPUs: KIND_AUTO is never KIND_GPU */
};

/* Sets instance groups: at least one, each with name, kind (never KIND_AUTO), count and GPUs, in the order
 * of `devices`. KIND_AUTO becomes KIND_GPU when all GPUs that the group names, or any without a name, are
 * usable. Ensembles stay unchanged. */
struct error *model_config_normalize_groups(struct model_config         *c,
                                            const struct config_devices *devices) NODISCARD;
