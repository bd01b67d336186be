/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/histogram.h"

#include "base/compiler.h"

#include <math.h>

static size_t bucket_of(uint64_t value) {
        unsigned bits, shift;

        if (value < HISTOGRAM_SUB_BUCKETS)
                return (size_t)value;
        if (value >> HISTOGRAM_MAX_BITS != 0)
                return HISTOGRAM_BUCKETS - 1;
        bits = 64U - (unsigned)__builtin_clzll(value);
        shift = bits - HISTOGRAM_SUB_BITS - 1;
        return (size_t)(shift + 1) * HISTOGRAM_SUB_BUCKETS +
               (size_t)((value >> shift) - HISTOGRAM_SUB_BUCKETS);
}

static uint64_t middle_of(size_t bucket) {
        unsigned group = (unsigned)(bucket / HISTOGRAM_SUB_BUCKETS);
        uint64_t low;

        if (group == 0)
                return bucket;
        low = (HISTOGRAM_SUB_BUCKETS + bucket % HISTOGRAM_SUB_BUCKETS) << (group - 1);
        return low + ((UINT64_C(1) << (group - 1)) >> 1);
}

void histogram_add(struct histogram *h, uint64_t value) {
        if (h->n == 0 || value < h->min)
                h->min = value;
        if (value > h->max)
                h->max = value;
        h->n++;
        h->sum += (double)value;
        h->sum_of_squares += (double)value * (double)value;
        h->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *other) {
        if (other->n == 0)
                return;
        h->min = h->n == 0 ? other->min : MIN(h->min, other->min);
        h->max = MAX(h->max, other->max);
        h->n += other->n;
        h->sum += other->sum;
        h->sum_of_squares += other->sum_of_squares;
        for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
                h->buckets[i] += other->buckets[i];
}

uint64_t histogram_percentile(const struct histogram *h, double percent) {
        double share = percent / 100.0 * (double)h->n;
        double wanted =
                ceil(share * (1.0 - 1e-12)); /* 99.9 / 100 * 1000 is a little more than 999 */
        uint64_t rank = wanted < 1.0 ? 1 : (uint64_t)wanted, seen = 0;

        if (h->n == 0)
                return 0;
        if (rank >= h->n)
                return h->max;
        for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
                seen += h->buckets[i];
                if (seen >= rank)
                        return MAX(h->min, MIN(h->max, middle_of(i)));
        }
        return h->max;
}

double histogram_mean(const struct histogram *h) {
        return h->n == 0 ? 0.0 : h->sum / (double)h->n;
}

double histogram_deviation(const struct histogram *h) {
        double mean = histogram_mean(h), square;

        if (h->n == 0)
                return 0.0;
        square = h->sum_of_squares / (double)h->n - mean * mean;
        return square > 0.0 ? sqrt(square) : 0.0;
}
