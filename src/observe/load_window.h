/* SPDX-License-Identifier: BSD-3-Clause */
/* How busy the instances of a model were in the last 15 seconds: a ring of samples of two sums that only
 * grow, the busy time of the instances and the time for which they were available.
 *
 * The ratio compares the sums of now with those of the newest sample that is 15 s old or older. Samples
 * are 2.5 s apart, so the interval is 15 to 17.5 s while samples are added in time, and longer
 * otherwise.
 *
 * Time is an argument: no function here reads a clock.
 *
 * Ownership.  Embedded; nothing to free.
 * Threads.  The caller locks.
 */
#pragma once

#include "base/clock.h"

#include <stddef.h>
#include <stdint.h>

#define LOAD_WINDOW_NS (15 * NS_PER_S)
#define LOAD_SAMPLE_NS (2500 * NS_PER_MS)
#define N_LOAD_SAMPLES 7 /* six intervals between samples are one window */

struct load_sample {
        uint64_t at_ns;
        uint64_t busy_ns;
        uint64_t available_ns;
};

struct load_window {
        struct load_sample samples[N_LOAD_SAMPLES];
        size_t             first; /* the oldest sample */
        size_t             n;
};

/* Zeroed memory is an empty window. Adds the sample, unless the newest one is younger than
 * LOAD_SAMPLE_NS. A full ring loses its oldest sample. */
void load_window_add(struct load_window *w, const struct load_sample *now);
/* Returns busy time by available time, 0 to 1, since the sample that the comment above names. 0 when no
 * time has passed or there were no instances. Does not add `now`. */
double load_window_ratio(const struct load_window *w, const struct load_sample *now);
