/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer may not do too often, and who is still there: an allowance that refills with time,
 * and the pings of both sides. Nothing here knows a clock or a socket.
 *
 * Pings.  A client that pings more often than `min_recv_ping_interval_without_data` while it is
 * sent nothing gets a strike each time; beyond `max_ping_strikes` its connection is ended. Without
 * calls, and unless keepalive without calls is permitted, the interval is two hours. Anything sent
 * but control frames forgives (gRPC, "Server-side connection management", as its C core does it).
 */
#pragma once

#include "grpc/grpc_limits.h"

#include <stdbool.h>
#include <stdint.h>

struct h2_allowance {
        uint64_t left_ns; /* what is left, in time to refill it */
        uint64_t at_ns;   /* when that was so; 0 = full */
};

/* One of them; false when there is none left. `per_s` 0 = they never come back. */
bool h2_allowance_take(struct h2_allowance *a, uint32_t at_once, uint32_t per_s, uint64_t now_ns);
void h2_allowance_refill(struct h2_allowance *a);

struct h2_pings {
        uint64_t last_read_ns;
        uint64_t sent_ns;           /* our ping that is not acknowledged; 0 = none */
        uint32_t n_without_payload; /* ours since we sent anything else */
        uint64_t last_received_ns;  /* 0 = none since we sent anything else */
        uint32_t n_strikes;
};

enum h2_pings_verdict {
        H2_PINGS_QUIET,
        H2_PINGS_SEND, /* now; it counts as sent */
        H2_PINGS_DEAD, /* the last one was not answered in time */
};

void h2_pings_init(struct h2_pings *p, uint64_t now_ns);
void h2_pings_on_read(struct h2_pings *p, uint64_t now_ns); /* any bytes */
void h2_pings_on_ack(struct h2_pings *p);
void h2_pings_on_payload_sent(struct h2_pings *p);
/* A ping of the peer; false when it was one too many. */
bool h2_pings_on_ping(struct h2_pings *p, const struct grpc_limits *l, bool has_calls,
                      uint64_t now_ns);
enum h2_pings_verdict h2_pings_check(struct h2_pings *p, const struct grpc_limits *l,
                                     bool has_calls, uint64_t now_ns);
