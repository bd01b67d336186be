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
 * The word contains the slot's generation, and so does the entry of the ring. A stub that reads an
 * entry whose execution was taken back fails to claim it and continues, even when the slot has a
 * new execution by then. Nothing of an execution is read, and no user code runs for it, before it
 * is claimed. So an execution that was taken back, or not claimed when the stub died, can be run
 * elsewhere.
 *
 * Threads.  Offer, take back and finish: the server, one thread at a time. Claim: the stub's main
 * thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum shm_slot_state { SHM_SLOT_FREE, SHM_SLOT_OFFERED, SHM_SLOT_CLAIMED };

static inline uint64_t shm_slot_word(uint32_t generation, enum shm_slot_state state) {
        return (uint64_t)generation << 8 | (uint64_t)state;
}

/* Offers an execution in a free slot. */
static inline void shm_slot_offer(_Atomic uint64_t *word, uint32_t generation) {
        atomic_store_explicit(word, shm_slot_word(generation, SHM_SLOT_OFFERED),
                              memory_order_release);
}

/* Returns false when the execution was taken back. */
static inline bool shm_slot_claim(_Atomic uint64_t *word, uint32_t generation) {
        uint64_t expected = shm_slot_word(generation, SHM_SLOT_OFFERED);

        return atomic_compare_exchange_strong(word, &expected,
                                              shm_slot_word(generation, SHM_SLOT_CLAIMED));
}

/* Returns false when the stub has claimed the execution. */
static inline bool shm_slot_take_back(_Atomic uint64_t *word, uint32_t generation) {
        uint64_t expected = shm_slot_word(generation, SHM_SLOT_OFFERED);

        return atomic_compare_exchange_strong(word, &expected,
                                              shm_slot_word(generation + 1, SHM_SLOT_FREE));
}

/* Frees the slot after the end of its execution. */
static inline void shm_slot_finish(_Atomic uint64_t *word, uint32_t generation) {
        atomic_store_explicit(word, shm_slot_word(generation + 1, SHM_SLOT_FREE),
                              memory_order_release);
}
