/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_limits.h"

#include "base/clock.h"

#include <assert.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

void grpc_limits_init(struct grpc_limits *l) {
        *l = (struct grpc_limits){
                .header_bytes = 32 * KIB,
                .header_fields = 100,
                .message_bytes = KIB * MIB,
                .decompressed_bytes = 64 * MIB,
                .streams = 256,
                .calls = 1024,
                .unsent_bytes = 64 * MIB,
                .unsent_pause_bytes = 4 * MIB,
                .header_time_ns = 10 * NS_PER_S,
                .message_window_ns = 10 * NS_PER_S,
                .message_window_bytes = 10 * KIB,
                .write_stall_ns = 75 * NS_PER_S,
                .write_window_bytes = 75 * KIB,
                .linger_ns = 2 * NS_PER_S,
                .resets_at_once = 1000,
                .resets_per_s = 100,
                .control_frames_at_once = 1000,
                .control_frames_per_s = 500,
                .continuations = 6,
                .keepalive_time_ns = 7200 * NS_PER_S,
                .keepalive_timeout_ns = 20 * NS_PER_S,
                .max_pings_without_data = 2,
                .min_recv_ping_interval_without_data_ns = 300 * NS_PER_S,
                .max_ping_strikes = 2,
                .max_connection_age_ns = CLOCK_NEVER,
                .max_connection_age_grace_ns = CLOCK_NEVER,
        };
}

const char *grpc_limit_name(enum grpc_limit limit) {
        static const char *const names[N_GRPC_LIMITS] = {
                [GRPC_LIMIT_NONE] = "none",
                [GRPC_LIMIT_HEADER_BYTES] = "header_bytes",
                [GRPC_LIMIT_HEADER_FIELDS] = "header_fields",
                [GRPC_LIMIT_HEADER_TIME] = "header_time",
                [GRPC_LIMIT_MESSAGE_BYTES] = "message_bytes",
                [GRPC_LIMIT_MESSAGE_RATE] = "message_rate",
                [GRPC_LIMIT_STREAMS] = "streams",
                [GRPC_LIMIT_WRITE_STALL] = "write_stall",
                [GRPC_LIMIT_WRITE_RATE] = "write_rate",
                [GRPC_LIMIT_UNSENT_BYTES] = "unsent_bytes",
                [GRPC_LIMIT_MEMORY] = "memory",
                [GRPC_LIMIT_RESETS] = "resets",
                [GRPC_LIMIT_CONTROL_FRAMES] = "control_frames",
                [GRPC_LIMIT_CONTINUATIONS] = "continuations",
                [GRPC_LIMIT_PINGS] = "pings",
        };

        assert(limit < N_GRPC_LIMITS);
        return names[limit];
}
