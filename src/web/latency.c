/* SPDX-License-Identifier: BSD-3-Clause */
#include "web/latency.h"

#define FIRST_BOUND_US 10

void latency_between(const uint64_t *before, const uint64_t *now, struct latency_counts *ret) {
        *ret = (struct latency_counts){ 0 };
        for (unsigned k = 0; before != NULL && k < NESO_LATENCY_BUCKETS; k++)
                if (now[k] < before[k])
                        before = NULL;
        for (unsigned k = 0; k < NESO_LATENCY_BUCKETS; k++) {
                ret->counts[k] = now[k] - (before != NULL ? before[k] : 0);
                ret->n += ret->counts[k];
        }
}

uint64_t latency_mean_ns(const struct latency_counts *c, uint64_t before_ns, uint64_t now_ns) {
        if (c->n == 0)
                return 0;
        return (now_ns >= before_ns ? now_ns - before_ns : now_ns) / c->n;
}

static double bound_us(unsigned k) {
        return (double)((uint64_t)FIRST_BOUND_US << k);
}

uint32_t latency_quantile_us(const struct latency_counts *c, unsigned permille) {
        double   rank = (double)c->n * permille / 1000; /* requests that are not slower */
        double   below = 0;
        unsigned k = 0;
        double   from;

        if (c->n == 0)
                return 0;
        while (k < NESO_LATENCY_BUCKETS - 1 && below + (double)c->counts[k] < rank)
                below += (double)c->counts[k++];
        from = k > 0 ? bound_us(k - 1) : 0;
        if (k == NESO_LATENCY_BUCKETS - 1 || c->counts[k] == 0)
                return (uint32_t)from;
        return (uint32_t)(from + (bound_us(k) - from) * (rank - below) / (double)c->counts[k]);
}
