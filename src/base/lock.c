/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

void mutex_init(struct mutex *m, enum lock_rank rank) {
        pthread_mutex_init(&m->native, NULL); /* cannot fail with glibc's default type */
        m->rank = rank;
}

void mutex_done(struct mutex *m) {
        pthread_mutex_destroy(&m->native);
}

void mutex_lock(struct mutex *m) {
        check_before_lock(m);
        pthread_mutex_lock(&m->native);
        note_locked(m);
}

void mutex_unlock(struct mutex *m) {
        note_unlock(m);
        pthread_mutex_unlock(&m->native);
}

void cond_init(struct cond *c) {
        pthread_condattr_t attributes;

        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&c->native, &attributes);
        pthread_condattr_destroy(&attributes);
}

void cond_done(struct cond *c) {
        pthread_cond_destroy(&c->native);
}

void cond_signal(struct cond *c) {
        pthread_cond_signal(&c->native);
}

void cond_broadcast(struct cond *c) {
        pthread_cond_broadcast(&c->native);
}

void cond_wait(struct cond *c, struct mutex *m) {
        check_before_wait(m);
        pthread_cond_wait(&c->native, &m->native);
}

bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns) {
        struct timespec deadline = {
                .tv_sec = (time_t)(deadline_ns / NS_PER_S),
                .tv_nsec = (long)(deadline_ns % NS_PER_S),
        };

        if (deadline_ns == CLOCK_NEVER) {
                cond_wait(c, m);
                return true;
        }
        check_before_wait(m);
        return pthread_cond_timedwait(&c->native, &m->native, &deadline) != ETIMEDOUT;
}
