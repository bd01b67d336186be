/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response_stream.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "infer/infer_thread.h"
#include "infer/response.h"

struct response_window {
        struct response_limits  limits; /* constant */
        size_t                  n_paid; /* bytes that the budget was charged for in advance */
        struct response_stream *ahead;  /* ref; its room counts, not the window's; NULL: none */
        _Atomic uint32_t        n_responses;
        _Atomic uint64_t        n_bytes;
        _Atomic uint32_t        n_waiting;
        struct mutex            lock; /* rank LOCK_LEAF; held while waiting; guards all below */
        uint32_t                n_granted; /* responses that room was promised for */
        response_room_fn        room_call; /* NULL: none is outstanding */
        void                   *room_userp;
        struct cond credit; /* signalled when a response was deleted or the inference cancelled */
};

#define SMALL_BYTES (UINT64_C(64) << 10) /* a window that holds more has large responses */
#define PIECE_BYTES (UINT64_C(64) << 10) /* in which the budget is charged */
#define SHARE 4                          /* the part of the budget: 1 / this */

static _Thread_local bool may_not_wait;

/* ---- what all windows hold ---- */

void response_share_init(struct response_share *h, struct byte_budget *budget) {
        *h = (struct response_share){ .max = budget->max / SHARE, .budget = budget };
}

uint64_t response_share_held(const struct response_share *h) {
        return atomic_load_explicit(&h->n_charged, memory_order_relaxed) +
               atomic_load_explicit(&h->n_outputs, memory_order_relaxed);
}

/* The budget has been charged for the whole pieces of n_charged: who passes the border of one charges it. */
static void charge_share(struct response_share *h, uint64_t n_bytes) {
        uint64_t before = atomic_fetch_add_explicit(&h->n_charged, n_bytes, memory_order_relaxed);
        uint64_t n_pieces = (before + n_bytes) / PIECE_BYTES - before / PIECE_BYTES;

        if (n_pieces > 0)
                byte_budget_force(h->budget, n_pieces * PIECE_BYTES);
}

static void discharge(struct response_share *h, uint64_t n_bytes) {
        uint64_t before = atomic_fetch_sub_explicit(&h->n_charged, n_bytes, memory_order_relaxed);
        uint64_t n_pieces = before / PIECE_BYTES - (before - n_bytes) / PIECE_BYTES;

        if (n_pieces > 0)
                byte_budget_give(h->budget, n_pieces * PIECE_BYTES);
}

/* What a small response takes. */
static size_t cost_of(const struct response_limits *l) {
        return sizeof(struct response) + l->beside_bytes;
}

/* ---- streams ---- */

void response_stream_allow_wait(bool allow) {
        may_not_wait = !allow;
}

void response_stream_init(struct response_stream *s, void *memory, void (*release)(void *memory)) {
        ref_init(&s->ref);
        atomic_init(&s->is_cancelled, false);
        atomic_init(&s->has_ended, false);
        atomic_init(&s->marks, 0);
        atomic_init(&s->n_sent, 0);
        atomic_init(&s->n_reported, 0);
        s->borrows_model = false;
        s->start_ns = 0;
        s->window = NULL;
        atomic_init(&s->tap, NULL);
        atomic_init(&s->lent, NULL);
        s->memory = memory;
        s->release = release;
}

void response_stream_set_tap(struct response_stream *s, struct response_tap *tap) {
        struct response_tap *old = atomic_exchange(&s->tap, tap);

        if (old != NULL)
                old->drop(old);
}

static void window_free(struct response_window *w) {
        if (w == NULL)
                return;
        if (w->limits.share != NULL)
                atomic_fetch_sub_explicit(&w->limits.share->n_windows, 1, memory_order_relaxed);
        if (w->n_paid > 0)
                byte_budget_give(w->limits.share->budget, w->n_paid);
        response_stream_unref(w->ahead);
        cond_done(&w->credit);
        mutex_done(&w->lock);
        free(w);
}

static struct response_window *window_new(void) {
        struct response_window *w = try_alloc(sizeof(*w));

        if (w == NULL)
                return NULL;
        w->limits = (struct response_limits){ 0 };
        w->n_paid = 0;
        w->ahead = NULL;
        atomic_init(&w->n_responses, 0);
        atomic_init(&w->n_bytes, 0);
        atomic_init(&w->n_waiting, 0);
        w->n_granted = 0;
        w->room_call = NULL;
        mutex_init(&w->lock, LOCK_LEAF);
        cond_init(&w->credit);
        return w;
}

/* Charges the budget for the responses that are always possible, once. */
static bool pay(struct response_window *w, const struct response_limits *limits) {
        size_t n_bytes = RESPONSE_STREAM_LEAST * cost_of(limits);

        if (limits->share == NULL || limits->is_paid || w->n_paid > 0)
                return true;
        if (!byte_budget_take(limits->share->budget, n_bytes)) {
                byte_budget_refused(limits->share->budget);
                return false;
        }
        w->n_paid = n_bytes;
        return true;
}

bool response_stream_limit(struct response_stream *s, const struct response_limits *limits) {
        if (s->window == NULL)
                s->window = window_new();
        if (s->window == NULL || !pay(s->window, limits))
                return false;
        if (s->window->limits.share == NULL && limits->share != NULL)
                atomic_fetch_add_explicit(&limits->share->n_windows, 1, memory_order_relaxed);
        s->window->limits = *limits;
        return true;
}

bool response_stream_follow(struct response_stream *s, struct response_stream *ahead) {
        const struct response_limits none = { .max_responses = UINT32_MAX,
                                              .max_bytes = UINT64_MAX };

        if (!response_stream_limit(s, &none))
                return false;
        response_stream_ref(ahead);
        s->window->ahead = ahead;
        return true;
}

struct response_stream *response_stream_renew(struct response_stream *s) {
        struct response_stream *other;

        if (atomic_load_explicit(&s->ref.count, memory_order_acquire) == 1) {
                response_stream_reset(s);
                if (s->window != NULL)
                        s->window->n_granted = 0;
                return s;
        }
        other = try_alloc(sizeof(*other));
        if (other == NULL)
                return NULL;
        response_stream_init(other, other, free);
        other->borrows_model = s->borrows_model;
        if (s->window != NULL && !response_stream_limit(other, &s->window->limits)) {
                response_stream_unref(other);
                return NULL;
        }
        return other;
}

void response_stream_free(struct response_stream *s) {
        if (atomic_load_explicit(&s->tap, memory_order_relaxed) != NULL)
                response_stream_set_tap(s, NULL);
        window_free(s->window);
        s->release(s->memory);
}

/* The bytes that each window may hold. */
static uint64_t part_of(const struct response_share *h) {
        uint32_t n = atomic_load_explicit(&h->n_windows, memory_order_relaxed);

        return response_share_held(h) < h->max / 2 ? UINT64_MAX : h->max / 2 / MAX(n, 1u);
}

/* The responses that a window may hold, by what all of them do. */
static uint32_t max_by_share(const struct response_window *w, uint64_t n_bytes) {
        const struct response_share *h = w->limits.share;
        uint64_t                     part, n;

        if (h == NULL)
                return UINT32_MAX;
        if (!byte_budget_fits(h->budget, BYTE_BUDGET_SMALL + 1))
                return n_bytes < SMALL_BYTES ? RESPONSE_STREAM_LEAST : 1;
        part = part_of(h);
        if (n_bytes >= MAX(part, SMALL_BYTES))
                return 1;
        n = MAX(part / cost_of(&w->limits), (uint64_t)RESPONSE_STREAM_FLOOR);
        return (uint32_t)MIN(n, (uint64_t)UINT32_MAX);
}

/* *ret_max: the room of an empty window. */
static uint32_t measure_room(const struct response_window *w, uint32_t *ret_max) {
        uint32_t n = atomic_load(&w->n_responses);
        uint64_t n_bytes = atomic_load(&w->n_bytes);
        uint32_t max = MIN(w->limits.max_responses, max_by_share(w, n_bytes));

        *ret_max = n > 0 ? max : 1;
        if (n >= max || n_bytes >= w->limits.max_bytes)
                return n == 0;
        return max - n;
}

static uint32_t room_of(const struct response_window *w) {
        uint32_t max;

        return measure_room(w, &max);
}

static bool has_room(const struct response_window *w) {
        return room_of(w) > 0;
}

/* Who waits is woken for a quarter of the window, since a wake-up costs more than a response. */
static bool is_worth_waking(const struct response_window *w) {
        uint32_t max, room = measure_room(w, &max);

        return room > 0 && room >= max / 4;
}

/* The caller holds the stream: the call may drop the creator's reference. */
static void wake_backend(struct response_stream *s) {
        struct response_window *w = s->window;
        response_room_fn        call = NULL;
        void                   *userp = NULL;

        if (!is_worth_waking(w) && !atomic_load(&s->is_cancelled))
                return;
        mutex_lock(&w->lock);
        if (w->room_call != NULL) {
                call = STEAL(w->room_call);
                userp = w->room_userp;
                atomic_fetch_sub(&w->n_waiting, 1);
        }
        cond_broadcast(&w->credit);
        mutex_unlock(&w->lock);
        if (call != NULL)
                call(userp);
}

void response_stream_cancel(struct response_stream *s) {
        atomic_store(&s->is_cancelled, true);
        if (s->window != NULL)
                wake_backend(s);
}

/* Other inferences may use up the bound of all windows before the creator does what it was promised. */
uint32_t response_stream_room(struct response_stream *s) {
        struct response_window *w = s->window;

        if (w == NULL || atomic_load(&s->is_cancelled))
                return UINT32_MAX;
        if (w->ahead != NULL)
                return response_stream_room(w->ahead);
        MUTEX_GUARD(&w->lock);
        return w->n_granted = room_of(w);
}

bool response_stream_when_room(struct response_stream *s, response_room_fn call, void *userp) {
        struct response_window *w = s->window;

        if (w == NULL)
                return false;
        if (w->ahead != NULL)
                return !atomic_load(&s->is_cancelled) &&
                       response_stream_when_room(w->ahead, call, userp);
        MUTEX_GUARD(&w->lock);
        /* The same order as in response_stream_enter(). */
        atomic_fetch_add(&w->n_waiting, 1);
        if (atomic_load(&s->is_cancelled) || has_room(w)) {
                atomic_fetch_sub(&w->n_waiting, 1);
                w->n_granted = 1;
                return false;
        }
        w->room_call = call;
        w->room_userp = userp;
        return true;
}

static void wait_for_room_locked(struct response_window *w, struct response_stream *s) {
        uint64_t max_ns = w->limits.max_wait_ns;
        uint64_t until_ns = CLOCK_NEVER;
        bool     is_in_time = true;

        if (max_ns > 0 && !has_room(w))
                until_ns = clock_now_ns() + max_ns;
        while (is_in_time && !has_room(w) && !atomic_load(&s->is_cancelled))
                is_in_time = cond_wait_until(&w->credit, &w->lock, until_ns);
}

void response_stream_enter_window(struct response_stream *s, uint64_t n_bytes, bool may_wait) {
        struct response_window *w = s->window;

        if (may_wait && !may_not_wait)
                infer_thread_flush_calls(); /* otherwise the reader may never be woken */
        MUTEX_GUARD(&w->lock);
        if (w->n_granted > 0) {
                w->n_granted--;
        } else if (may_wait && !may_not_wait) {
                /* Increments n_waiting before it checks for room. A thread that makes room does so
                 * before it reads n_waiting, so one of the two sees the other. */
                atomic_fetch_add(&w->n_waiting, 1);
                wait_for_room_locked(w, s);
                atomic_fetch_sub(&w->n_waiting, 1);
        }
        atomic_fetch_add(&w->n_responses, 1);
        atomic_fetch_add(&w->n_bytes, n_bytes);
        if (w->limits.share != NULL)
                charge_share(w->limits.share, n_bytes + w->limits.beside_bytes);
}

void response_stream_add_bytes_to_window(struct response_stream *s, uint64_t n_bytes) {
        struct response_window *w = s->window;

        atomic_fetch_add(&w->n_bytes, n_bytes);
        if (w->limits.share != NULL)
                atomic_fetch_add_explicit(&w->limits.share->n_outputs, n_bytes,
                                          memory_order_relaxed);
}

static void leave_share(const struct response_limits *l, uint64_t n_bytes, uint64_t n_added) {
        struct response_share *h = l->share;

        if (h == NULL)
                return;
        discharge(h, n_bytes + l->beside_bytes);
        if (n_added > 0)
                atomic_fetch_sub_explicit(&h->n_outputs, n_added, memory_order_relaxed);
}

void response_stream_leave_window(struct response_stream *s, uint64_t n_bytes, uint64_t n_added) {
        struct response_window *w = s->window;

        leave_share(&w->limits, n_bytes, n_added);
        atomic_fetch_sub(&w->n_bytes, n_bytes + n_added);
        atomic_fetch_sub(&w->n_responses, 1);
        if (atomic_load(&w->n_waiting) > 0)
                wake_backend(s);
}
