/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner of an execution, server or stub: one word per slot, changed by compare-and-swap.
 *
 *     offer            claim             finish
 *     (server)         (stub)            (server)
 *     FREE ---> OFFERED ---> CLAIMED ---> FREE, generation + 1
 *                 |
 *                 +---> FREE, generation + 1
 *              take back
 *              (server)
 *
 * The word carries the slot's generation, and so does the entry of the ring: a stub that comes to an
 * entry whose execution was taken back fails to claim it and goes on, also when the slot has a new
 * execution by then. Nothing of an execution is read before it is claimed, and nothing of the user's
 * runs before: what was taken back, or not claimed when the stub died, can be run elsewhere.
 *
 * Threads.  Offer, take back and finish: the server, one at a time. Claim: the stub's main thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum shm_slot_state { SHM_SLOT_FREE, SHM_SLOT_OFFERED, SHM_SLOT_CLAIMED };

static inline uint64_t shm_slot_word(uint32_t generation, enum shm_slot_state state) {
        return (uint64_t)generation << 8 | (uint64_t)state;
}

/* The slot is free. */
static inline void shm_slot_offer(_Atomic uint64_t *word, uint32_t generation) {
        atomic_store_explicit(word, shm_slot_word(generation, SHM_SLOT_OFFERED),
                              memory_order_release);
}

/* False: it was taken back. */
static inline bool shm_slot_claim(_Atomic uint64_t *word, uint32_t generation) {
        uint64_t expected = shm_slot_word(generation, SHM_SLOT_OFFERED);

        return atomic_compare_exchange_strong(word, &expected,
                                              shm_slot_word(generation, SHM_SLOT_CLAIMED));
}

/* False: the stub has it, or has had it. */
static inline bool shm_slot_take_back(_Atomic uint64_t *word, uint32_t generation) {
        uint64_t expected = shm_slot_word(generation, SHM_SLOT_OFFERED);

        return atomic_compare_exchange_strong(word, &expected,
                                              shm_slot_word(generation + 1, SHM_SLOT_FREE));
}

/* The execution has ended. */
static inline void shm_slot_finish(_Atomic uint64_t *word, uint32_t generation) {
        atomic_store_explicit(word, shm_slot_word(generation + 1, SHM_SLOT_FREE),
                              memory_order_release);
}
