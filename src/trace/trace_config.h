/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line says about traces, after parsing.
 *
 * Ownership.  Texts are borrowed: they live as long as the tracer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TRACE_CONFIG_MAX_RESOURCES 64

enum trace_mode { TRACE_MODE_TRITON, TRACE_MODE_OPENTELEMETRY };

struct trace_values {
        uint32_t level; /* of TRITONSERVER_InferenceTraceLevel, or'ed; 0 = OFF */
        uint32_t rate;
        int32_t  count; /* -1 = unlimited */
        uint32_t log_frequency;
};

struct trace_config {
        enum trace_mode     mode;
        struct trace_values values;
        const char         *file; /* mode triton; "" = none */
        /* mode opentelemetry */
        const char *url;
        const char *resources[TRACE_CONFIG_MAX_RESOURCES]; /* "key=value" */
        size_t      n_resources;
        uint32_t    bsp_max_queue_size;
        uint32_t    bsp_schedule_delay_ms;
        uint32_t    bsp_max_export_batch_size;
};

/* The defaults. */
void trace_config_init(struct trace_config *c);
