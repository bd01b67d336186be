/* SPDX-License-Identifier: BSD-3-Clause */
/* neso_scheduler_...{model,version}: what the server counts of a plug-in scheduler, and what the
 * plug-in counts itself.
 *
 * Ownership.  plugin_counters_done() takes the metrics off the page.
 * Threads.  One at a time: the queue's lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct metric;
struct metric_registry;
struct model;

#define PLUGIN_MAX_COUNTERS 32
#define PLUGIN_MAX_COUNTER_NAME 64

struct plugin_counter {
        char                  name[PLUGIN_MAX_COUNTER_NAME + 1];
        struct metric_family *family; /* owned */
        struct metric        *metric; /* owned */
};

struct plugin_counters {
        struct metric_registry *registry; /* borrowed; NULL: nothing is counted */
        const struct model     *model;    /* borrowed */
        struct plugin_counter   items[PLUGIN_MAX_COUNTERS];
        size_t                  n_items;
};

/* The server's own are there from the beginning. */
#define PLUGIN_COUNTER_ERROR "error"
#define PLUGIN_COUNTER_STALL "stall"

void plugin_counters_init(struct plugin_counters *c, struct metric_registry *registry,
                          const struct model *model);
void plugin_counters_done(struct plugin_counters *c);
/* False when the name is none, there are too many, or the amount is no number from 0 on. */
bool plugin_counters_add(struct plugin_counters *c, const char *name, double amount);
