/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers for what one step of an ensemble hands to the next.
 *
 * Large ones come from a pool: giving a megabyte back to the kernel and faulting it in again costs more
 * than a fast step takes. The pool keeps STEP_MEMORY_MAX_KEPT at most; in each second half of what it
 * keeps goes, so that nothing is left of it soon after the last request.
 *
 * Threads.  Any, but for init and done.
 */
#pragma once

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
        struct buf_pool     *pool;   /* ref */
        struct timer_thread *timers; /* borrowed */
        struct timer         trim;
        _Atomic bool         is_armed;
        _Atomic bool         was_used;     /* since the last trim */
        unsigned             n_trims_left; /* trims, the timer's thread */
};

void step_memory_init(struct step_memory *m, struct timer_thread *timers);
void step_memory_done(struct step_memory *m);

/* NULL when memory is short. */
struct buf *step_memory_get(struct step_memory *m, size_t bytes) NODISCARD;
/* The error for that. */
struct error *step_memory_shortage(const char *output, size_t bytes);
