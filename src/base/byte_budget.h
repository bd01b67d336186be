/* SPDX-License-Identifier: BSD-3-Clause */
/* A limit for the memory that peers make the process hold at a time, in bytes: one for the whole
 * server. The front end and the core each have a struct byte_budget, and both count in one place
 * (byte_budget_share()).
 *
 * Buffers of pools and blocks of arenas are charged before they are allocated, and given back when
 * they are freed. An allocation that does not fit is refused at once: the caller answers with an
 * error, and admitted requests continue.
 *
 * The last eighth is reserved for small pieces (BYTE_BUDGET_SMALL), so that peers with large
 * requests cannot block all others.
 *
 * The last sixteenth is reserved for requests that are complete: see byte_budget_is_tight().
 *
 * A pool has an account: it takes bytes from the budget in slabs and hands them out under the
 * pool's own lock, so that small buffers cost no atomic operation on memory that all threads share.
 * An account keeps at most two unused slabs.
 *
 * Ownership.  Pools and arenas borrow the budget, which outlives them.
 * Threads.  byte_budget_*: any. An account: one owner at a time (the pool's lock).
 */
#pragma once

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_budget {
        _Atomic size_t *used; /* `own`, or borrowed from another budget */
        _Atomic size_t  own;
        size_t          max;

        /* Set by the owner before the first charge; NULL: refusals are not counted. Called on any
         * thread. */
        void (*on_refused)(void *owner);
        void *owner; /* borrowed */
};

/* Largest small piece, in bytes: read buffers, small bodies, the first blocks of arenas. */
#define BYTE_BUDGET_SMALL ((size_t)64 << 10)

void byte_budget_init(struct byte_budget *b, size_t max);
/* A budget that counts in `used`, together with others that do. The counter is `own` of another budget, or
 * belongs to a program; it outlives this budget. */
void byte_budget_share(struct byte_budget *b, size_t max, _Atomic size_t *used);

/* False, with nothing changed, when `bytes` more do not fit. */
bool byte_budget_take(struct byte_budget *b, size_t bytes) NODISCARD;
/* Charges even beyond the maximum: for small allocations of our own that must not fail. */
void byte_budget_force(struct byte_budget *b, size_t bytes);
void byte_budget_give(struct byte_budget *b, size_t bytes);
/* Notifies the owner of a refusal for lack of room. */
void   byte_budget_refused(const struct byte_budget *b);
size_t byte_budget_used(const struct byte_budget *b);
/* Whether `bytes` more would fit now: for the text of an error. True for a budget of NULL. */
bool byte_budget_fits(const struct byte_budget *b, size_t bytes);

/* Largest piece that fits into an empty budget; SIZE_MAX for a budget of NULL. */
size_t byte_budget_largest(const struct byte_budget *b);

/* True in the last sixteenth: it is for requests that are complete. Who holds a part of a request makes
 * room or is refused. False for a budget of NULL. */
bool byte_budget_is_tight(const struct byte_budget *b);
/* True in the last half of that: few small pieces still fit. */
bool byte_budget_is_nearly_used(const struct byte_budget *b);
/* True once half of it is used: time to hold no more than is needed. */
bool byte_budget_is_half_used(const struct byte_budget *b);

/* Text of errors about an allocation that did not fit. */
#define BYTE_BUDGET_USED_UP "the server's memory budget (--memory-budget) is used up"

/* A quarter of the memory that the process may use: the least of the machine's memory, the limits
 * of the process's control groups (version 2 or 1), and RLIMIT_AS. */
size_t byte_budget_default(void);

/* Largest slab; a small budget has smaller ones, so that accounts cannot keep most of it. */
#define BYTE_ACCOUNT_SLAB ((size_t)1 << 20)
#define BYTE_ACCOUNT_SLABS 128 /* a slab is at most this part of the budget */

struct byte_account {
        struct byte_budget *budget; /* borrowed; NULL: no limit, nothing is counted */
        size_t              spare;  /* taken from the budget, not handed out */
};

/* After a refusal the account's owner calls byte_budget_refused(), without locks. */
bool byte_account_take(struct byte_account *a, size_t bytes) NODISCARD;
void byte_account_give(struct byte_account *a, size_t bytes);
void byte_account_close(struct byte_account *a); /* gives the spare bytes back */
