/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures how busy the instances of each model are, and for how long its oldest request has waited:
 * neso_load_ratio and neso_oldest_request_age_seconds.
 *
 * A scheduler adds a load source to the statistics of its model. A measurement reads every source, and
 * keeps the results where the page is printed from. GET /metrics measures before it prints. From the
 * first scrape on, a timer measures as well, so that the window of 15 s does not depend on the interval
 * of the scrapes. It stops ten minutes after the last scrape. Requests do no work for this.
 *
 * Ownership.  A source is embedded in its scheduler, which removes it before it is freed. The meter is
 * part of a model_metrics.
 * Threads.  Any. The meter's lock (rank LOCK_LOAD_METER) is held while sources are read, so `read` may
 * take locks of schedulers, and a source that has been removed is not read any more. Sources are added
 * and removed with no such lock held.
 */
#pragma once

#include "base/list.h"

#include <stdint.h>

struct load_source;
struct model_metrics;
struct model_stats;
struct timer_thread;

/* The sums since the source was made, and the queue as it is now. */
struct load_reading {
        uint64_t busy_ns;      /* time that instances have executed, current executions included */
        uint64_t available_ns; /* time that instances have existed, summed up */
        uint64_t oldest_ns;    /* when the oldest waiting request was queued; CLOCK_NEVER: none */
};

typedef struct load_reading (*load_read_fn)(struct load_source *source, uint64_t now_ns);

struct load_source {
        struct list_node    node;
        struct model_stats *stats; /* borrowed: outlives the source */
        load_read_fn        read;
};

/* The source's sums count from the time of this call. */
void load_source_add(struct load_source *source, struct model_stats *stats, load_read_fn read);
/* Keeps the source's sums for the model. Does nothing when the source was not added (zeroed memory). */
void load_source_remove(struct load_source *source);

/* Measures all models. */
void load_meter_measure(struct model_metrics *m, uint64_t now_ns);
/* The same, on behalf of a scrape: the timer runs from now on, if there is one. */
void load_meter_scrape(struct model_metrics *m, uint64_t now_ns);
/* Gives the meter a timer thread, borrowed until load_meter_stop(). */
void load_meter_start(struct model_metrics *m, struct timer_thread *timers);
void load_meter_stop(struct model_metrics *m);
