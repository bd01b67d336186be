/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue's interface to a custom batching library, which may refuse to add a request to a batch.
 *
 * The queue calls begin(), then admits() for each request that would fit, in order, and then end().
 * admits() is called for the first request of a batch as well, so that the filter counts it, but its
 * result is ignored then. The queue forms a batch anew each time an instance looks for work, so while
 * a batch waits for more requests, the filter is asked about the same requests several times.
 *
 * Threads.  Called with the lock of the queue held, never concurrently. This is one of two places that
 * call code outside the module under a lock (docs/threads.md). The filter may read the request and
 * must not call the server for anything else.
 */
#pragma once

#include <stdbool.h>

struct batch_filter;
struct request;

struct batch_filter_ops {
        void (*begin)(struct batch_filter *f);
        bool (*admits)(struct batch_filter *f, struct request *req);
        void (*end)(struct batch_filter *f);
};

struct batch_filter {
        const struct batch_filter_ops *ops;
};
