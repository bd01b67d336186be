/* SPDX-License-Identifier: BSD-3-Clause */
/* A filter that may veto that a request joins a batch: the queue's interface to a custom batching
 * library.
 *
 * The queue calls begin(), then admits() for each request that would fit, in order, and then end().
 * admits() is called for the first request of a batch as well, so that the filter counts it, but that
 * request runs whatever the result. The queue forms a batch anew each time an instance looks for work,
 * so the filter sees a batch that waits for more requests several times.
 *
 * Threads.  Called with the lock of the queue held, never concurrently; this is the only call out under
 * a lock. The filter may read the request and must not call the server for anything else.
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
