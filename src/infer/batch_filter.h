/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may veto that a request joins a batch: how the queue asks a custom batching library without
 * knowing it.
 *
 * The queue calls begin(), admits() for each request that would fit, in order, and end(). The first
 * request of a batch is asked about, too, so that what it takes is counted, but it runs whatever
 * the answer. A batch is formed anew each time an instance looks whether there is something to run,
 * so one that waits for more is asked about several times.
 *
 * Threads.  Called with the lock of the queue held, never concurrently: the one place where that
 * is so. Whoever answers may read the request and must not call the server for anything else.
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
