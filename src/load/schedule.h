/* SPDX-License-Identifier: BSD-3-Clause */
/* The moments at which an open loop starts its requests, whatever the answers do: at a constant rate, at the
 * random distances of a Poisson process, or at distances that repeat.
 *
 * Several threads share a rate: thread `part` of `n_parts` takes every n_parts-th moment of a constant rate
 * and of repeated distances, and has a Poisson process of its own with its part of the rate.
 *
 * The time comes from the caller. The k-th moment of a constant rate is computed from k, so no error
 * accumulates.
 *
 * Ownership.  A plain struct; the distances are borrowed.
 * Threads.  One owner at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_POISSON, SCHEDULE_INTERVALS };

struct schedule_options {
        enum schedule_kind kind;
        double             rate;         /* a second, above 0; not for SCHEDULE_INTERVALS */
        const uint64_t    *intervals_ns; /* borrowed: n_intervals of them, not all 0 */
        size_t             n_intervals;
        size_t             part, n_parts;
        uint64_t           seed; /* of SCHEDULE_POISSON */
};

struct schedule {
        struct schedule_options o;
        uint64_t                start_ns;
        uint64_t                k;      /* moments of this part so far */
        size_t                  at;     /* interval that ends at the next moment */
        double                  after;  /* SCHEDULE_POISSON: nanoseconds after the start */
        uint64_t                random; /* state */
        uint64_t                next_ns;
};

void schedule_init(struct schedule *s, const struct schedule_options *o, uint64_t start_ns);
/* The next moment. */
static inline uint64_t schedule_next(const struct schedule *s) {
        return s->next_ns;
}
/* Passes to the moment after it. */
void schedule_advance(struct schedule *s);

/* Random numbers for loads and inputs: xorshift64*. The state is never 0. */
uint64_t random_state(uint64_t seed);
uint64_t random_next(uint64_t *state);
double   random_unit(uint64_t *state); /* within (0, 1] */
