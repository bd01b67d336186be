/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server needs of a scheduler: give it a request, take one back, stop.
 *
 * Ownership.  submit() takes the request on success and leaves it with the caller on error.
 * cancel() is called for a request that was submitted and may still be queued: a queued one is
 * answered CANCELLED and released at once, on the calling thread.
 * Threads.  submit() and cancel() may be called from any thread, stop() and free() from one.
 */
#pragma once

#include "base/error.h"

struct request;
struct scheduler;

struct scheduler_ops {
        struct error *(*submit)(struct scheduler *s, struct request *req);
        void (*cancel)(struct scheduler *s, struct request *req);
        /* No new requests from now on; what is queued still runs. */
        void (*stop)(struct scheduler *s);
        /* Waits for instances to end; nothing may be queued or running. */
        void (*free)(struct scheduler *s);
};

struct scheduler {
        const struct scheduler_ops *ops;
};
