/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes with ranks, and condition variables on the monotonic clock. Both are words that threads sleep on
 * with the futex system call, which is made only when a thread must sleep or one sleeps.
 *
 * A thread takes locks strictly upwards in rank. Builds with -DLOCK_CHECK verify it with a
 * thread-local stack and end the process with both names on a violation. No lock is held across
 * a call out of the module: no backend, no callback, no completion, no last unref.
 */
#pragma once

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_rank {
        LOCK_SERVER = 10,
        LOCK_REPO = 20,
        LOCK_MODEL = 30,
        LOCK_GENERATIONS = 40,
        LOCK_LOAD_METER = 45, /* held while the queues and instances of models are read */
        LOCK_SEQUENCE = 50,
        LOCK_QUEUE = 60,
        LOCK_RATE_LIMITER = 61,
        LOCK_ORDER = 62,
        LOCK_TIMER = 65,
        LOCK_LEAF = 70, /* small objects: while it is held, only counters and the log are called */
        LOCK_GPU = 71,  /* pools of memory that GPUs use; held while the memory of a pool is made */
        LOCK_REGISTRY = 75,      /* metric registries: held while collectors run */
        LOCK_MODEL_METRICS = 77, /* model metrics: held while models' statistics are read */
        LOCK_METRIC = 80,
        LOCK_LOG = 90,
};

struct mutex {
        _Atomic uint32_t state; /* see lock.c */
        enum lock_rank   rank;
};

void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_done(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);

/* True when the calling thread holds the mutex, as far as the build can check (always true without
 * LOCK_CHECK): for assert() at the entry of *_locked functions. */
bool mutex_is_held(const struct mutex *m);

/* All threads that wait on it hold the same mutex, and wait again when they wake without a reason. A thread signals
 * after it has changed the condition under that mutex, or while it holds it. */
struct cond {
        _Atomic uint32_t n_signals;     /* what its threads sleep on */
        _Atomic uint16_t n_unsignalled; /* waiting threads that no signal has woken; see lock.c */
        uint16_t         n_waiting;     /* guarded by the mutex */
};

void cond_init(struct cond *c);
void cond_done(struct cond *c); /* no thread waits */
/* Wakes one of the waiting threads. */
void cond_signal(struct cond *c);
/* cond_signal() in two parts, for a thread that holds the mutex: the first part counts the signal, the second makes
 * the system call after the mutex was released. A thread that woke earlier would find the mutex held, and sleep again.
 * The condition variable may be freed between the two. NULL: each thread that waits wakes already. */
_Atomic uint32_t *cond_signal_later(struct cond *c) NODISCARD;
void              cond_wake(_Atomic uint32_t *signalled); /* may be NULL */
void              cond_broadcast(struct cond *c);
void              cond_wait(struct cond *c, struct mutex *m);
/* Waits until the absolute monotonic time (CLOCK_NEVER: no limit); false when it has passed. */
bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns);

static inline void mutex_guard_end_(struct mutex **m) {
        mutex_unlock(*m);
}

static inline struct mutex *mutex_guard_begin_(struct mutex *m) {
        mutex_lock(m);
        return m;
}

#define LOCK_PASTE2_(a, b) a##b
#define LOCK_PASTE_(a, b) LOCK_PASTE2_(a, b)

/* Holds the mutex until the end of the scope. */
#define MUTEX_GUARD(mutex_pointer)                                                                 \
        UNUSED        CLEANUP(mutex_guard_end_)                                                    \
        struct mutex *LOCK_PASTE_(guard_, __LINE__) = mutex_guard_begin_(mutex_pointer)
