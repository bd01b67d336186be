/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics neso_scheduler_...{model,version}: the server's counters of a plug-in scheduler, and the
 * plug-in's own counters.
 *
 * Ownership.  plugin_counters_done() removes the metrics from the registry.
 * Threads.  One at a time: the caller holds the queue's lock.
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

/* Counters of the server; they exist from the beginning. */
#define PLUGIN_COUNTER_ERROR "error"
#define PLUGIN_COUNTER_STALL "stall"

void plugin_counters_init(struct plugin_counters *c, struct metric_registry *registry,
                          const struct model *model);
void plugin_counters_done(struct plugin_counters *c);
/* Returns false when the name is invalid, there are too many counters, or the amount is negative or
 * not finite. */
bool plugin_counters_add(struct plugin_counters *c, const char *name, double amount);
