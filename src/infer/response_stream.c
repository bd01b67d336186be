/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response_stream.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "infer/submitter.h"

struct response_window {
        struct response_limits limits; /* constant */
        _Atomic uint32_t       n_responses;
        _Atomic uint64_t       n_bytes;
        _Atomic uint32_t       n_waiting;
        struct mutex           lock; /* rank LOCK_MAILBOX; held while waiting */
        struct cond            credit; /* signalled when a response was deleted or the inference cancelled */
};

static _Thread_local bool may_not_wait;

void response_stream_allow_wait(bool allow) {
        may_not_wait = !allow;
}

void response_stream_init(struct response_stream *f, void *memory, void (*release)(void *memory)) {
        ref_init(&f->ref);
        atomic_init(&f->is_cancelled, false);
        atomic_init(&f->has_ended, false);
        atomic_init(&f->n_sent, 0);
        atomic_init(&f->n_reported, 0);
        f->borrows_model = false;
        f->start_ns = 0;
        f->window = NULL;
        atomic_init(&f->tap, NULL);
        atomic_init(&f->lent, NULL);
        f->memory = memory;
        f->release = release;
}

void response_stream_set_tap(struct response_stream *f, struct response_tap *tap) {
        struct response_tap *old = atomic_exchange(&f->tap, tap);

        if (old != NULL)
                old->drop(old);
}

static void window_free(struct response_window *w) {
        if (w == NULL)
                return;
        cond_done(&w->credit);
        mutex_done(&w->lock);
        free(w);
}

bool response_stream_limit(struct response_stream *f, const struct response_limits *limits) {
        struct response_window *w = f->window;

        if (w == NULL) {
                w = try_alloc(sizeof(*w));
                if (w == NULL)
                        return false;
                atomic_init(&w->n_responses, 0);
                atomic_init(&w->n_bytes, 0);
                atomic_init(&w->n_waiting, 0);
                mutex_init(&w->lock, LOCK_MAILBOX);
                cond_init(&w->credit);
                f->window = w;
        }
        w->limits = *limits;
        return true;
}

struct response_stream *response_stream_renew(struct response_stream *f) {
        struct response_stream *other;

        /* No other holder is left, and none can appear: only the request gives out references. */
        if (atomic_load_explicit(&f->ref.count, memory_order_acquire) == 1) {
                atomic_store_explicit(&f->is_cancelled, false, memory_order_relaxed);
                atomic_store_explicit(&f->has_ended, false, memory_order_relaxed);
                atomic_store_explicit(&f->n_sent, 0, memory_order_relaxed);
                atomic_store_explicit(&f->n_reported, 0, memory_order_relaxed);
                if (atomic_load_explicit(&f->tap, memory_order_relaxed) != NULL)
                        response_stream_set_tap(f, NULL);
                return f;
        }
        other = try_alloc(sizeof(*other));
        if (other == NULL)
                return NULL;
        response_stream_init(other, other, free);
        other->borrows_model = f->borrows_model;
        if (f->window != NULL && !response_stream_limit(other, &f->window->limits)) {
                response_stream_unref(other);
                return NULL;
        }
        return other;
}

void response_stream_unref(struct response_stream *f) {
        if (f == NULL || !ref_put(&f->ref))
                return;
        if (atomic_load_explicit(&f->tap, memory_order_relaxed) != NULL)
                response_stream_set_tap(f, NULL);
        window_free(f->window);
        f->release(f->memory);
}

static void wake(struct response_window *w) {
        MUTEX_GUARD(&w->lock);
        cond_broadcast(&w->credit);
}

void response_stream_cancel(struct response_stream *f) {
        atomic_store(&f->is_cancelled, true);
        if (f->window != NULL)
                wake(f->window);
}

static bool has_room(const struct response_window *w) {
        uint32_t n = atomic_load(&w->n_responses);

        return n == 0 ||
               (n < w->limits.max_responses && atomic_load(&w->n_bytes) < w->limits.max_bytes);
}

static void wait_for_room_locked(struct response_window *w, struct response_stream *f) {
        uint64_t max_ns = w->limits.max_wait_ns;
        uint64_t until_ns = CLOCK_NEVER;
        bool     is_in_time = true;

        if (max_ns > 0 && !has_room(w))
                until_ns = clock_now_ns() + max_ns;
        while (is_in_time && !has_room(w) && !atomic_load(&f->is_cancelled))
                is_in_time = cond_wait_until(&w->credit, &w->lock, until_ns);
}

void response_stream_enter(struct response_stream *f, uint64_t n_bytes, bool may_wait) {
        struct response_window *w = f->window;

        if (LIKELY(w == NULL))
                return;
        if (may_wait && !may_not_wait)
                submitter_flush_row(); /* otherwise the reader may never be woken */
        MUTEX_GUARD(&w->lock);
        if (may_wait && !may_not_wait) {
                /* Counts itself first, then checks for room; a thread that makes room does it in the
                 * reverse order. */
                atomic_fetch_add(&w->n_waiting, 1);
                wait_for_room_locked(w, f);
                atomic_fetch_sub(&w->n_waiting, 1);
        }
        atomic_fetch_add(&w->n_responses, 1);
        atomic_fetch_add(&w->n_bytes, n_bytes);
}

void response_stream_add_bytes(struct response_stream *f, uint64_t n_bytes) {
        if (f->window != NULL)
                atomic_fetch_add(&f->window->n_bytes, n_bytes);
}

void response_stream_leave(struct response_stream *f, uint64_t n_bytes) {
        struct response_window *w = f->window;

        if (LIKELY(w == NULL))
                return;
        atomic_fetch_sub(&w->n_bytes, n_bytes);
        atomic_fetch_sub(&w->n_responses, 1);
        if (atomic_load(&w->n_waiting) > 0)
                wake(w);
}
