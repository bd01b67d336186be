/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef LOCK_CHECK

/* There are about a dozen ranks, taken strictly upwards, so no thread holds more locks. */
#define LOCK_MAX_HELD 16

static _Thread_local const struct mutex *held[LOCK_MAX_HELD];
static _Thread_local size_t              n_held;

static const char *rank_name(enum lock_rank rank) {
        switch (rank) {
        case LOCK_SERVER: return "server";
        case LOCK_REPO: return "repo";
        case LOCK_MODEL: return "model";
        case LOCK_GENERATIONS: return "line";
        case LOCK_LOAD_METER: return "load meter";
        case LOCK_RATE_LIMITER: return "rate limiter";
        case LOCK_SEQUENCE: return "sequence";
        case LOCK_QUEUE: return "queue";
        case LOCK_TIMER: return "timer";
        case LOCK_ORDER: return "order";
        case LOCK_LEAF: return "leaf";
        case LOCK_GPU: return "gpu";
        case LOCK_REGISTRY: return "registry";
        case LOCK_MODEL_METRICS: return "model metrics";
        case LOCK_METRIC: return "metric";
        case LOCK_LOG: return "log";
        }
        return "unknown";
}

static NORETURN COLD void end_with(const char *what, const struct mutex *m,
                                   const struct mutex *other) {
        fprintf(stderr, "lock check: %s '%s' (rank %d)%s%s%s\n", what, rank_name(m->rank), m->rank,
                other != NULL ? " while holding '" : "",
                other != NULL ? rank_name(other->rank) : "", other != NULL ? "'" : "");
        abort();
}

static void check_before_lock(const struct mutex *m) {
        for (size_t i = 0; i < n_held; i++) {
                if (held[i]->rank >= m->rank)
                        end_with(held[i] == m ? "second lock of" : "wrong order: lock of", m,
                                 held[i]);
        }
        if (n_held == LOCK_MAX_HELD)
                end_with("too many locks before", m, NULL);
}

static void note_locked(const struct mutex *m) {
        held[n_held++] = m;
}

static void note_unlock(const struct mutex *m) {
        for (size_t i = n_held; i-- > 0;) {
                if (held[i] != m)
                        continue;
                n_held--;
                for (; i < n_held; i++)
                        held[i] = held[i + 1];
                return;
        }
        end_with("unlock of a mutex that is not held:", m, NULL);
}

bool mutex_is_held(const struct mutex *m) {
        for (size_t i = 0; i < n_held; i++) {
                if (held[i] == m)
                        return true;
        }
        return false;
}

static void check_before_wait(const struct mutex *m) {
        if (!mutex_is_held(m))
                end_with("wait without", m, NULL);
}

#else

static void check_before_lock(const struct mutex *m) {
        (void)m;
}

static void note_locked(const struct mutex *m) {
        (void)m;
}

static void note_unlock(const struct mutex *m) {
        (void)m;
}

static void check_before_wait(const struct mutex *m) {
        (void)m;
}

bool mutex_is_held(const struct mutex *m) {
        (void)m;
        return true;
}

#endif

/* ---- sleeping --------------------------------------------------------------------------------- */

/* Sleeps while the word has the value, until the absolute monotonic time. False when that has passed. Keeps
 * errno, which a lock must not change for its caller. */
static NOINLINE bool sleep_on(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns) {
        int             kept = errno;
        bool            is_in_time;
        struct timespec deadline = {
                .tv_sec = (time_t)(deadline_ns / NS_PER_S),
                .tv_nsec = (long)(deadline_ns % NS_PER_S),
        };

        /* This operation, unlike FUTEX_WAIT, takes an absolute time. */
        is_in_time = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value,
                             deadline_ns != CLOCK_NEVER ? &deadline : NULL, NULL,
                             FUTEX_BITSET_MATCH_ANY) == 0 ||
                     errno != ETIMEDOUT;
        errno = kept;
        return is_in_time;
}

/* The word may be freed by now: then no thread sleeps on it, or one wakes without a reason. */
static NOINLINE void wake_futex(_Atomic uint32_t *word, int n) {
        int kept = errno;

        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n);
        errno = kept;
}

/* ---- mutexes ----------------------------------------------------------------------------------- */

enum {
        MUTEX_FREE,
        MUTEX_HELD,
        MUTEX_WANTED, /* held, and other threads may sleep: the unlock wakes one */
};

void mutex_init(struct mutex *m, enum lock_rank rank) {
        atomic_init(&m->state, MUTEX_FREE);
        m->rank = rank;
}

void mutex_done(struct mutex *m) {
        (void)m;
}

/* A thread that has slept cannot know whether it was the last one, so it takes the mutex as WANTED. */
static NOINLINE void lock_contended(struct mutex *m) {
        while (atomic_exchange_explicit(&m->state, MUTEX_WANTED, memory_order_acquire) !=
               MUTEX_FREE)
                sleep_on(&m->state, MUTEX_WANTED, CLOCK_NEVER);
}

static inline void lock(struct mutex *m) {
        uint32_t expected = MUTEX_FREE;

        if (!atomic_compare_exchange_strong_explicit(&m->state, &expected, MUTEX_HELD,
                                                     memory_order_acquire, memory_order_relaxed))
                lock_contended(m);
}

static inline void unlock(struct mutex *m) {
        if (atomic_exchange_explicit(&m->state, MUTEX_FREE, memory_order_release) == MUTEX_WANTED)
                wake_futex(&m->state, 1);
}

void mutex_lock(struct mutex *m) {
        check_before_lock(m);
        lock(m);
        note_locked(m);
}

void mutex_unlock(struct mutex *m) {
        note_unlock(m);
        unlock(m);
}

/* ---- condition variables ------------------------------------------------------------------------ */

/* A count of threads stays as it is once it is this; then each signal makes the system call. */
#define MANY UINT16_MAX

void cond_init(struct cond *c) {
        atomic_init(&c->n_signals, 0);
        atomic_init(&c->n_unsignalled, 0);
        c->n_waiting = 0;
}

void cond_done(struct cond *c) {
        (void)c;
}

/* Ordered after the change of n_unsignalled: a thread that reads the new number counts itself after it. */
static void count_signal(struct cond *c) {
        atomic_fetch_add_explicit(&c->n_signals, 1, memory_order_release);
}

/* A thread that waits has counted itself before it released the mutex, and the caller has held that since. */
_Atomic uint32_t *cond_signal_later(struct cond *c) {
        uint16_t n = atomic_load_explicit(&c->n_unsignalled, memory_order_relaxed);

        do {
                if (n == 0)
                        return NULL;
        } while (n < MANY &&
                 !atomic_compare_exchange_weak_explicit(&c->n_unsignalled, &n, (uint16_t)(n - 1),
                                                        memory_order_relaxed,
                                                        memory_order_relaxed));
        count_signal(c);
        return &c->n_signals;
}

/* The number of signals has changed, so a thread that does not sleep yet will not. */
void cond_wake(_Atomic uint32_t *signalled) {
        if (signalled != NULL)
                wake_futex(signalled, 1);
}

void cond_signal(struct cond *c) {
        cond_wake(cond_signal_later(c));
}

void cond_broadcast(struct cond *c) {
        if (atomic_load_explicit(&c->n_unsignalled, memory_order_relaxed) == 0)
                return;
        atomic_store_explicit(&c->n_unsignalled, 0, memory_order_relaxed);
        count_signal(c);
        wake_futex(&c->n_signals, INT_MAX);
}

void cond_wait(struct cond *c, struct mutex *m) {
        cond_wait_until(c, m, CLOCK_NEVER);
}

/* A thread that wakes cannot know whether a signal counted it: it may have woken for another reason. So n_unsignalled is
 * sometimes too large, which costs a system call, but at most the number of threads that wait. It is never too small: a
 * signal would be lost. */
static void leave_wait(struct cond *c) {
        if (c->n_waiting < MANY)
                c->n_waiting--;
        if (atomic_load_explicit(&c->n_unsignalled, memory_order_relaxed) > c->n_waiting)
                atomic_store_explicit(&c->n_unsignalled, c->n_waiting, memory_order_relaxed);
}

/* Signals make the counts smaller meanwhile, other waits do not: they need the mutex. */
static void enter_wait(struct cond *c) {
        if (c->n_waiting < MANY)
                c->n_waiting++;
        if (atomic_load_explicit(&c->n_unsignalled, memory_order_relaxed) < MANY)
                atomic_fetch_add_explicit(&c->n_unsignalled, 1, memory_order_relaxed);
}

bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns) {
        uint32_t n_signals = atomic_load_explicit(&c->n_signals, memory_order_acquire);
        bool     is_in_time;

        check_before_wait(m);
        enter_wait(c);
        unlock(m);
        is_in_time = sleep_on(&c->n_signals, n_signals, deadline_ns);
        lock(m);
        leave_wait(c);
        return is_in_time;
}
