/* SPDX-License-Identifier: BSD-3-Clause */
/* Admission control: limits of the requests in flight, and of the bytes of their messages, for the
 * server and for single models. A request beyond a limit is refused at once. The client then learns
 * early that it should wait or use another server, and admitted requests are answered in time.
 *
 * A request is in flight from the moment at which its model is known until its last response was
 * taken and the model has released it. A message that is larger than its limit is always refused.
 *
 * Ownership.  An admitted request holds a struct admission_pass and gives it back with
 * admission_leave(). The limits are borrowed as long as a request holds a pass.
 * Threads.  admission_add() before any other use. enter and leave: any.
 */
#pragma once

#include "base/error.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A limit of requests or of bytes, and the current number. */
struct admission_count {
        uint64_t         max; /* UINT64_MAX = any number */
        _Atomic uint64_t in_flight;
};

struct admission_gate {
        char                  *model; /* owned; NULL: the limits of the server */
        struct admission_count requests;
        struct admission_count bytes;
};

struct admission {
        struct admission_gate  all;
        struct admission_gate *models; /* owned; sorted by name */
        size_t                 n_models;

        /* Set by the owner; NULL: refusals are not counted. `limit` is "requests_in_flight" or
         * "bytes_in_flight". Called from any thread. */
        void (*on_rejected)(void *owner, const char *limit);
        void *owner; /* borrowed */
};

/* What one request counts for. Zeros: nothing. */
struct admission_pass {
        struct admission_gate *all;   /* borrowed; NULL = not admitted */
        struct admission_gate *model; /* borrowed; NULL = the model has no limits of its own */
        uint64_t               bytes;
};

void admission_init(struct admission *a); /* no limits */
void admission_done(struct admission *a); /* no request holds a pass */

/* Adds a limit: "[<model>,]requests=<n>" or "[<model>,]bytes=<n>", n at least 1. */
struct error *admission_add(struct admission *a, const char *text) NODISCARD;

/* Admits a request and fills *ret. `a` may be NULL: no limits. UNAVAILABLE when a limit is reached;
 * *ret is not written then. */
struct error *admission_enter(struct admission *a, const char *model, uint64_t bytes,
                              struct admission_pass *ret) NODISCARD;
void          admission_leave(struct admission_pass *pass); /* sets it to zeros; a pass of zeros
                                                             * is fine */
