/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_config.h"

void trace_config_init(struct trace_config *c) {
        *c = (struct trace_config){
                .mode = TRACE_MODE_TRITON,
                .values = { .rate = 1000, .count = -1 },
                .file = "",
                .url = "http://localhost:4318/v1/traces",
                .bsp_max_queue_size = 2048,
                .bsp_schedule_delay_ms = 5000,
                .bsp_max_export_batch_size = 512,
        };
}
