/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting and waking across processes, and lists that any thread may push to.
 *
 * Futex.  The waiter sets the word, checks its condition once more, and sleeps on the word. The
 * other side publishes first, then reads the word and wakes the waiter. Both use sequential
 * consistency: either the waiter sees the published data, or the publisher sees the word.
 *
 * List.  A list is the number of its newest block; the first 32 bits of a block link to the
 * previous one. A list is taken as a whole, so there is no ABA problem.
 *
 * Threads.  Any, of both processes.
 */
#pragma once

#include "python/shm_layout.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHM_FOREVER UINT64_MAX

static inline uint64_t shm_clock_ns(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns after a wake-up, when the word is not `value`, after `timeout_ns`, and spuriously; false
 * when a signal handler ran. */
static inline bool shm_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
        struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / 1000000000u),
                                    .tv_nsec = (long)(timeout_ns % 1000000000u) };

        return syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, value,
                       timeout_ns == SHM_FOREVER ? NULL : &timeout, NULL, 0) == 0 ||
               errno != EINTR;
}

static inline void shm_futex_wake(_Atomic uint32_t *word, int n_waiters) {
        (void)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, n_waiters, NULL, NULL, 0);
}

/* Called after publishing: wakes waiters that sleep as deep as `least` or deeper. */
static inline void shm_wake(_Atomic uint32_t *sleep, enum shm_sleep least) {
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(sleep, memory_order_relaxed) >= (uint32_t)least &&
            atomic_exchange(sleep, SHM_AWAKE) != SHM_AWAKE)
                shm_futex_wake(sleep, INT32_MAX); /* threads that wait for room share one word */
}

/* Pushes `block`, whose link is at `link`, onto the list. */
static inline void shm_list_push(_Atomic uint32_t *list, uint32_t block, uint32_t *link) {
        uint32_t first = atomic_load_explicit(list, memory_order_relaxed);

        do
                *(volatile uint32_t *)link = first;
        while (!atomic_compare_exchange_weak_explicit(list, &first, block, memory_order_release,
                                                      memory_order_relaxed));
}

static inline uint32_t shm_list_take(_Atomic uint32_t *list) {
        if (atomic_load_explicit(list, memory_order_relaxed) == 0)
                return 0;
        return atomic_exchange_explicit(list, 0, memory_order_acquire);
}
