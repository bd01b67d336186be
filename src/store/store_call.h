/* SPDX-License-Identifier: BSD-3-Clause */
/* A request to a store with its retries.
 *
 * It is made again after a broken connection and after answers that another try may improve
 * (store_retry.h); once with new keys after 401, 403 or an expired token; and at another address when a
 * redirect stays on the same host.
 *
 * Ownership.  The call borrows all that it points to.
 * Threads.  Any, at the same time, for one store.
 */
#pragma once

#include "base/error.h"
#include "store/store_request.h"

#include <stdatomic.h>
#include <stdbool.h>

struct store;
struct work_pool;

struct store_call {
        const char *what; /* for messages: the address of what is asked for, without a query */
        /* Makes the request, anew for each try: the address, headers, the taker of the body. The method is
         * GET unless it sets another one. */
        void (*prepare)(void *userp, struct store_request *r);
        void        *userp;
        atomic_bool *is_cancelled;
        bool         has_progressed; /* set by a taker: the time for retries begins anew */
        bool         is_single;      /* without retries */
        struct work_pool
                *pool;   /* borrowed; that runs the call, and others while it waits; NULL: none */
        int      status; /* set: of the last answer; 0: none */
};

/* *ret is an answer of 2xx. UNAVAILABLE, NOT_FOUND (404) or INVALID_ARG "<what>: <why>" otherwise;
 * CANCELLED. */
struct error *store_call(struct store *s, struct store_call *c, struct store_answer *ret) NODISCARD;
