/* SPDX-License-Identifier: BSD-3-Clause */
/* How much may be in flight at a time: requests, and bytes of their messages, of the server and of
 * models that have limits of their own. What is beyond is refused at once, so that clients learn
 * early that they should go elsewhere or wait, and what was admitted is answered in time.
 *
 * A request is in flight from when its model is known until its last response has been taken and
 * the model has given it back. A message larger than its limit is refused always.
 *
 * Ownership.  Whoever was admitted holds a struct admission_pass, and gives it back with
 * admission_leave(). The limits are borrowed for as long as anybody is inside.
 * Threads.  admission_add() before any other use; enter and leave: any.
 */
#pragma once

#include "base/error.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Requests, or bytes. */
struct admission_count {
        uint64_t         max; /* UINT64_MAX = any number */
        _Atomic uint64_t in_flight;
};

struct admission_gate {
        char                  *model; /* owned; NULL: of all models */
        struct admission_count requests;
        struct admission_count bytes;
};

struct admission {
        struct admission_gate  all;
        struct admission_gate *models; /* owned; in the order of their names */
        size_t                 n_models;

        /* Set by the owner; NULL: refusals are not counted. `limit` is "requests_in_flight" or
         * "bytes_in_flight". Any thread. */
        void (*on_rejected)(void *owner, const char *limit);
        void *owner; /* borrowed */
};

/* What one request has taken. Zeros: nothing. */
struct admission_pass {
        struct admission_gate *all;   /* borrowed; NULL = not inside */
        struct admission_gate *model; /* borrowed; NULL = has no limits of its own */
        uint64_t               bytes;
};

void admission_init(struct admission *a); /* no limits */
void admission_done(struct admission *a); /* nobody is inside */

/* "[<model>,]requests=<n>" or "[<model>,]bytes=<n>", n at least 1. */
struct error *admission_add(struct admission *a, const char *text) NODISCARD;

/* `a` may be NULL: no limits. On success *ret is filled; else UNAVAILABLE, and *ret is untouched. */
struct error *admission_enter(struct admission *a, const char *model, uint64_t bytes,
                              struct admission_pass *ret) NODISCARD;
void          admission_leave(struct admission_pass *pass); /* zeros afterwards; may be zeros */
