/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_limits.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <assert.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

/* A client without calls has no reason to ping often. */
#define IDLE_PING_INTERVAL_NS (7200 * NS_PER_S)

void grpc_limits_init(struct grpc_limits *l) {
        *l = (struct grpc_limits){
                .header_bytes = 32 * KIB,
                .header_fields = 100,
                .message_bytes = INT32_MAX, /* as in the reference server */
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

/* ---- rates ---- */

bool grpc_token_bucket_take(struct grpc_token_bucket *a, uint32_t at_once, uint32_t per_s,
                            uint64_t now_ns) {
        uint64_t one_ns = per_s > 0 ? NS_PER_S / per_s : 365 * 86400 * NS_PER_S / at_once;
        uint64_t full_ns = one_ns * at_once;

        if (a->at_ns == 0)
                a->left_ns = full_ns;
        else
                a->left_ns = MIN(full_ns, a->left_ns + (now_ns - a->at_ns));
        a->at_ns = now_ns;
        if (a->left_ns < one_ns)
                return false;
        a->left_ns -= one_ns;
        return true;
}

void grpc_token_bucket_refill(struct grpc_token_bucket *a) {
        a->at_ns = 0;
}

void grpc_pings_init(struct grpc_pings *p, uint64_t now_ns) {
        *p = (struct grpc_pings){ .last_read_ns = now_ns };
}

void grpc_pings_on_read(struct grpc_pings *p, uint64_t now_ns) {
        p->last_read_ns = now_ns;
}

void grpc_pings_on_ack(struct grpc_pings *p) {
        p->sent_ns = 0;
}

void grpc_pings_on_payload_sent(struct grpc_pings *p) {
        p->n_without_payload = 0;
        p->last_received_ns = 0;
        p->n_strikes = 0;
}

bool grpc_pings_on_ping(struct grpc_pings *p, const struct grpc_limits *l, bool has_calls,
                        uint64_t now_ns) {
        uint64_t interval_ns = l->min_recv_ping_interval_without_data_ns;
        uint64_t last_ns = p->last_received_ns;

        if (!has_calls && !l->keepalive_permit_without_calls)
                interval_ns = MAX(interval_ns, IDLE_PING_INTERVAL_NS);
        p->last_received_ns = now_ns;
        if (last_ns == 0 || now_ns - last_ns >= interval_ns)
                return true;
        p->n_strikes++;
        return l->max_ping_strikes == 0 || p->n_strikes <= l->max_ping_strikes;
}

enum grpc_pings_verdict grpc_pings_check(struct grpc_pings *p, const struct grpc_limits *l,
                                         bool has_calls, uint64_t now_ns) {
        if (p->sent_ns > 0 && p->last_read_ns < p->sent_ns)
                return now_ns - p->sent_ns >= l->keepalive_timeout_ns ? GRPC_PINGS_DEAD
                                                                      : GRPC_PINGS_QUIET;
        if (now_ns - p->last_read_ns < l->keepalive_time_ns)
                return GRPC_PINGS_QUIET;
        if (!has_calls && !l->keepalive_permit_without_calls)
                return GRPC_PINGS_QUIET;
        if (l->max_pings_without_data > 0 && p->n_without_payload >= l->max_pings_without_data)
                return GRPC_PINGS_QUIET;
        p->sent_ns = now_ns;
        p->n_without_payload++;
        return GRPC_PINGS_SEND;
}
