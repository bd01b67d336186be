/* SPDX-License-Identifier: BSD-3-Clause */
/* What the identity backend knows of a model: which input each output repeats, and how to behave
 * besides.
 *
 * Output OUTPUT<x> repeats input INPUT<x> where both exist; any other output repeats the input at
 * the same place of the configuration. Their types must be the same.
 *
 * Model configuration, parameters:
 *
 *     execute_delay_ms                sleep that long in each execution
 *     instance_wise_delay_multiplier  times this and the number of the instance (0, 1, ...), where
 *                                     the product is at least 1
 *     creation_delay_sec              sleep that long while the model loads
 *     response_parameters             "true": each response has the parameters param0 (a string),
 *                                     param1 (42) and param2 (false); off by default, for speed
 *     byte_size_metric                "true": the counter input_byte_size_counter of the model
 *
 * Ownership.  A model owns its pairs and its metric.
 * Threads.  It does not change after load; n_instances is atomic.
 */
#pragma once

#include "kit/model.h"

#include <stdatomic.h>

struct pair {
        const char *output; /* borrowed: the configuration */
        const char *input;  /* borrowed: the configuration */
};

struct identity_model {
        struct kit_model           kit;
        struct pair               *pairs; /* owned */
        uint32_t                   n_pairs;
        atomic_uint                n_instances; /* made so far */
        int64_t                    delay_ms;
        int64_t                    delay_multiplier;
        bool                       has_parameters;
        TRITONSERVER_MetricFamily *family;     /* owned; NULL when not asked for */
        TRITONSERVER_Metric       *byte_count; /* owned; NULL when not asked for */
};

TRITONSERVER_Error *identity_model_new(TRITONBACKEND_Model *triton, struct identity_model **ret);
void                identity_model_free(struct identity_model *model);
