/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of requests inside ensembles and chains; one for all of them. All that is in use is
 * charged to the server's byte budget.
 *
 * Buffers are for the outputs that the next step reads. Large ones come from a pool: giving a megabyte
 * back to the kernel and faulting it in again takes longer than a fast step. The pool keeps at most
 * STEP_MEMORY_MAX_KEPT bytes of free buffers, and a sixteenth of the budget. A timer frees half of them
 * each second, so that the pool is empty soon after the last request.
 *
 * Ownership.  The server's. It outlives the models, and so all buffers.
 * Threads.  Any, except for init and done.
 */
#pragma once

#include "base/byte_budget.h"
#include "base/compiler.h"
#include "base/timer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct buf_pool;
struct error;

#define STEP_MEMORY_MAX_KEPT ((size_t)32 << 20)

struct step_memory {
        struct byte_budget  *budget; /* borrowed */
        struct buf_pool     *pool;   /* ref */
        struct timer_thread *timers; /* borrowed */
        struct timer         trim;
        _Atomic bool         is_armed;
        _Atomic bool         was_used;     /* since the last trim */
        unsigned             n_trims_left; /* trims until the pool is empty; timer thread only */
};

void step_memory_init(struct step_memory *m, struct byte_budget *budget,
                      struct timer_thread *timers);
void step_memory_done(struct step_memory *m);

/* Returns a new reference; NULL when memory is short or the budget has no room. */
struct buf *step_memory_get(struct step_memory *m, size_t bytes) NODISCARD;
/* Returns the error for a NULL from step_memory_get(). */
struct error *step_memory_shortage(const struct step_memory *m, const char *output, size_t bytes);
