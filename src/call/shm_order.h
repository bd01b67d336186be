/* SPDX-License-Identifier: BSD-3-Clause */
/* An order of a client to register or unregister CUDA shared memory. The driver may take long for it
 * (it makes the context of a device at first use, and may wait for the device at a close), so another
 * thread carries it out:
 *
 *     shm_order_register() or _unregister() -> the protocol offloads `work`
 *                                           -> `done`, on the loop -> shm_order_end
 *
 * Ownership.  Embedded in the protocol's call. Texts and bytes are in the call's arena, or elsewhere
 * for as long as the call.
 * Threads.  The call's loop. `work` runs on another thread, which accesses nothing else of the call.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "net/loop.h"
#include "shm/shared_memory.h"

struct shm_order {
        struct loop_work      work;
        struct shared_memory *memory;  /* borrowed */
        struct cuda_place     place;   /* borrowed texts: of a region to register */
        struct str            name;    /* borrowed: to unregister; "" means all */
        struct error         *failure; /* owned */
};

void shm_order_register(struct shm_order *o, struct shared_memory *m,
                        const struct cuda_place *place, loop_work_fn done);
void shm_order_unregister(struct shm_order *o, struct shared_memory *m, struct str name,
                          loop_work_fn done);
/* In `done`: returns the error of the order. */
struct error *shm_order_end(struct shm_order *o) NODISCARD;
