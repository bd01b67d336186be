/* SPDX-License-Identifier: BSD-3-Clause */
/* Means of the gauges of a server's metrics page (Prometheus text format) over the times it was read.
 *
 * Ownership.  gauge_means_init(), gauge_means_done().
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stddef.h>

/* Of one page; further ones are left out. */
#define GAUGE_MEANS_MAX 1000

struct gauge_mean {
        double mean;
        size_t n;
};

struct gauge_means {
        struct map gauges; /* name with labels -> struct gauge_mean, owned */
};

void gauge_means_init(struct gauge_means *g);
void gauge_means_done(struct gauge_means *g);
/* Adds the values of all gauges of a page; lines that cannot be read are skipped. */
void gauge_means_add(struct gauge_means *g, struct str page);
