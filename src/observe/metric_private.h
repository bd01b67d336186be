/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs behind metric.h, shared by metric.c and metric_registry.c.
 *
 * Ownership.  A registry owns its families until their last user closes them; a family owns its
 * metrics until their last user frees them.
 * Threads.  The registry's lock guards lists, maps and user counts; names, help texts, labels and
 * bounds never change; values are atomic.
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "observe/metric.h"

#include <stdatomic.h>

struct metric_registry {
        struct mutex lock;       /* rank LOCK_REGISTRY; guards everything below */
        struct map   families;   /* struct metric_family, owned, by name; printed in this order */
        struct list  collectors; /* struct metric_collector, owned, in order of registration */
};

struct metric_collector {
        struct list_node  node;
        metric_collect_fn collect;
        void             *owner; /* borrowed: lives until the collector is removed */
        bool              before_families;
};

struct metric_family {
        struct metric_registry *registry; /* borrowed: outlives its families */
        enum metric_kind        kind;
        char                   *name;    /* owned */
        char                   *help;    /* owned */
        unsigned                n_users; /* guarded by the registry's lock */
        struct map              metrics; /* struct metric, owned, by text of labels; guarded */
};

struct metric {
        struct metric_family *family;      /* borrowed: cannot be closed before its metrics */
        char                 *labels_text; /* owned: `{a="x"}` or "" */
        unsigned              n_users;     /* guarded by the registry's lock */
        _Atomic double        value;       /* counter, gauge; the sum of a histogram */
        double               *bounds;      /* owned; histograms only */
        _Atomic uint64_t     *counts;      /* owned; n_bounds + 1 */
        size_t                n_bounds;
};

/* Prints its lines, without the head of the family. */
void metric_print(const struct metric *m, struct strbuf *out);
