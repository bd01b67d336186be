/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of requests inside ensembles and chains; one for all of them. All that is in use is
 * charged to the server's byte budget.
 *
 * Buffers are for the outputs that the next step reads. Large ones come from a pool: giving a megabyte
 * back to the kernel and faulting it in again takes longer than a fast step. The pool keeps at most
 * STEP_MEMORY_MAX_KEPT bytes of free buffers, and a sixteenth of the budget. A timer frees half of them
 * each second, so that the pool is empty soon after the last request.
 *
 * With GPUs a buffer may be in the memory of a device, which the device bounds, or in pinned memory, which is
 * charged to the budget as other memory of the host. Here are also the threads that wait for copies to devices
 * in place of event loops.
 *
 * Ownership.  The server's. It outlives the models, and so all buffers.
 * Threads.  Any, except for init and done.
 */
#pragma once

#include "base/byte_budget.h"
#include "base/compiler.h"
#include "base/timer.h"
#include "infer/buffer_attributes.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct buf_pool;
struct error;
struct gpus;
struct work_pool;

#define STEP_MEMORY_MAX_KEPT ((size_t)32 << 20)

struct step_memory {
        struct byte_budget  *budget;  /* borrowed */
        struct buf_pool     *pool;    /* ref */
        struct timer_thread *timers;  /* borrowed */
        struct gpus         *gpus;    /* borrowed, set after init; NULL: there are none */
        struct work_pool    *senders; /* owned: send answers to memory of devices */
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
/* A buffer of one of the kinds of memory. */
struct step_buffer {
        struct buf      *buf;   /* a reference; has the bytes */
        void            *bytes; /* not always memory that the CPU can read */
        enum memory_type type;
        int64_t          id; /* of the device, for GPU; else 0 */
};

/* A new reference to memory of the device or, when that has no room, as step_memory_get_pinned(). Requires
 * GPUs, and `bytes` > 0. UNAVAILABLE when the host has no room, either. */
struct error *step_memory_get_device(struct step_memory *m, int device, size_t bytes,
                                     struct step_buffer *ret) NODISCARD;
/* The same for pinned memory or, when the pool of that has no room, ordinary memory. */
struct error *step_memory_get_pinned(struct step_memory *m, size_t bytes, struct step_buffer *ret)
        NODISCARD;
/* Returns the error for a NULL from step_memory_get(). */
struct error *step_memory_shortage(const struct step_memory *m, const char *output, size_t bytes);
