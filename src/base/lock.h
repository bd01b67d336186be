/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes with ranks, and condition variables on the monotonic clock.
 *
 * A mutex is a futex(2) with three states, as glibc's default mutex, but one that is free is locked
 * and unlocked inline, by one atomic instruction each: a small request takes a dozen locks, and a
 * call of pthread_mutex_lock() and pthread_mutex_unlock() takes 57 instructions.
 *
 * A thread takes locks strictly upwards in rank. Builds with -DLOCK_CHECK verify it with a
 * thread-local stack and end the process with both names on a violation. No lock is held across
 * a call out of the module: no backend, no callback, no completion, no last unref.
 */
#pragma once

#include "base/compiler.h"

#include <pthread.h>
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
        LOCK_MAILBOX = 70,
        LOCK_REGISTRY = 75,      /* metric registries: held while collectors run */
        LOCK_MODEL_METRICS = 77, /* model metrics: held while models' statistics are read */
        LOCK_METRIC = 80,
        LOCK_LOG = 90,
};

enum mutex_state {
        MUTEX_FREE,
        MUTEX_LOCKED,
        MUTEX_AWAITED, /* locked, and other threads may wait for it */
};

struct mutex {
        _Atomic uint32_t state; /* enum mutex_state */
        enum lock_rank   rank;
};

static inline void mutex_init(struct mutex *m, enum lock_rank rank) {
        atomic_init(&m->state, MUTEX_FREE);
        m->rank = rank;
}

static inline void mutex_done(struct mutex *m) {
        (void)m;
}

/* Parts of mutex_lock() and mutex_unlock(). */
void mutex_wait_(struct mutex *m) COLD;
void mutex_wake_(struct mutex *m) COLD;
#ifdef LOCK_CHECK
void lock_check_before_(const struct mutex *m);
void lock_check_locked_(const struct mutex *m);
void lock_check_unlock_(const struct mutex *m);
/* True when the calling thread holds the mutex, as far as the build can check (always true without
 * LOCK_CHECK): for assert() at the entry of *_locked functions. */
bool mutex_is_held(const struct mutex *m);
#else
static inline void lock_check_before_(const struct mutex *m) {
        (void)m;
}
static inline void lock_check_locked_(const struct mutex *m) {
        (void)m;
}
static inline void lock_check_unlock_(const struct mutex *m) {
        (void)m;
}
static inline bool mutex_is_held(const struct mutex *m) {
        (void)m;
        return true;
}
#endif

static inline void mutex_lock(struct mutex *m) {
        uint32_t state = MUTEX_FREE;

        lock_check_before_(m);
        if (!atomic_compare_exchange_strong_explicit(&m->state, &state, MUTEX_LOCKED,
                                                     memory_order_acquire, memory_order_relaxed))
                mutex_wait_(m);
        lock_check_locked_(m);
}

/* Another thread may lock the mutex, unlock and free it as soon as it is free. */
static inline void mutex_unlock(struct mutex *m) {
        lock_check_unlock_(m);
        if (atomic_exchange_explicit(&m->state, MUTEX_FREE, memory_order_release) == MUTEX_AWAITED)
                mutex_wake_(m);
}

/* Waiting threads are those of `native`; its lock is held from before the caller's mutex is released
 * until the thread waits, and while waiting threads are woken. */
struct cond {
        pthread_mutex_t lock;
        pthread_cond_t  native;
};

/* For a condition variable without a deadline that is never freed. */
#define COND_INITIALIZER                                                                           \
        { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER }

void cond_init(struct cond *c);
void cond_done(struct cond *c);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);
void cond_wait(struct cond *c, struct mutex *m);
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
