/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_rate_limit.h"

#include "base/clock.h"
#include "base/compiler.h"

/* Without calls a client has no reason to ask often. */
#define IDLE_PING_INTERVAL_NS (7200 * NS_PER_S)

bool h2_allowance_take(struct h2_allowance *a, uint32_t at_once, uint32_t per_s, uint64_t now_ns) {
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

void h2_allowance_refill(struct h2_allowance *a) {
        a->at_ns = 0;
}

void h2_pings_init(struct h2_pings *p, uint64_t now_ns) {
        *p = (struct h2_pings){ .last_read_ns = now_ns };
}

void h2_pings_on_read(struct h2_pings *p, uint64_t now_ns) {
        p->last_read_ns = now_ns;
}

void h2_pings_on_ack(struct h2_pings *p) {
        p->sent_ns = 0;
}

void h2_pings_on_payload_sent(struct h2_pings *p) {
        p->n_without_payload = 0;
        p->last_received_ns = 0;
        p->n_strikes = 0;
}

bool h2_pings_on_ping(struct h2_pings *p, const struct grpc_limits *l, bool has_calls,
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

enum h2_pings_verdict h2_pings_check(struct h2_pings *p, const struct grpc_limits *l,
                                     bool has_calls, uint64_t now_ns) {
        if (p->sent_ns > 0 && p->last_read_ns < p->sent_ns)
                return now_ns - p->sent_ns >= l->keepalive_timeout_ns ? H2_PINGS_DEAD
                                                                      : H2_PINGS_QUIET;
        if (now_ns - p->last_read_ns < l->keepalive_time_ns)
                return H2_PINGS_QUIET;
        if (!has_calls && !l->keepalive_permit_without_calls)
                return H2_PINGS_QUIET;
        if (l->max_pings_without_data > 0 && p->n_without_payload >= l->max_pings_without_data)
                return H2_PINGS_QUIET;
        p->sent_ns = now_ns;
        p->n_without_payload++;
        return H2_PINGS_SEND;
}
