/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/schedule.h"

#include "base/clock.h"

#include <math.h>

uint64_t random_state(uint64_t seed) {
        uint64_t x = seed + UINT64_C(0x9e3779b97f4a7c15);

        /* splitmix64: near seeds give unrelated sequences. */
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
        return x != 0 ? x : 1;
}

uint64_t random_next(uint64_t *state) {
        uint64_t x = *state;

        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        *state = x;
        return x * UINT64_C(0x2545f4914f6cdd1d);
}

double random_unit(uint64_t *state) {
        return ((double)(random_next(state) >> 11) + 1.0) / 9007199254740992.0; /* 2^53 */
}

/* The moment of all parts with this index. */
static uint64_t constant_moment(const struct schedule *s, uint64_t index) {
        return s->start_ns + (uint64_t)((double)index * ((double)NS_PER_S / s->o.rate));
}

static void advance_poisson(struct schedule *s) {
        double rate = s->o.rate / (double)s->o.n_parts;

        s->after += -log(random_unit(&s->random)) * ((double)NS_PER_S / rate);
        s->next_ns = s->start_ns + (uint64_t)s->after;
}

/* Adds the distances up to the next moment of this part. */
static void advance_intervals(struct schedule *s, size_t n) {
        for (size_t i = 0; i < n; i++) {
                s->next_ns += s->o.intervals_ns[s->at];
                s->at = (s->at + 1) % s->o.n_intervals;
        }
}

void schedule_init(struct schedule *s, const struct schedule_options *o, uint64_t start_ns) {
        *s = (struct schedule){ .o = *o, .start_ns = start_ns, .next_ns = start_ns };
        s->random = random_state(o->seed + o->part);
        switch (o->kind) {
        case SCHEDULE_CONSTANT: s->next_ns = constant_moment(s, o->part); break;
        case SCHEDULE_POISSON: advance_poisson(s); break;
        case SCHEDULE_INTERVALS: advance_intervals(s, o->part + 1); break;
        }
}

void schedule_advance(struct schedule *s) {
        s->k++;
        switch (s->o.kind) {
        case SCHEDULE_CONSTANT:
                s->next_ns = constant_moment(s, s->o.part + s->k * s->o.n_parts);
                break;
        case SCHEDULE_POISSON: advance_poisson(s); break;
        case SCHEDULE_INTERVALS: advance_intervals(s, s->o.n_parts); break;
        }
}
