/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that all responses of one inference share: whether they have ended, whether the client has
 * cancelled, and how many may exist at once.
 *
 * A request has one for each inference that it is used for. Responses and factories hold it as well,
 * since they may outlive the request.
 *
 * A backend sends any number of responses, at any time; the first FINAL ends them. A later response is
 * refused, since the client waits no more and its callback may be gone.
 *
 * The front end may set limits (a window). Then a thread that creates a response waits until there is
 * room, that is, until the front end has deleted enough of the responses that it received. A front end
 * that deletes a response once it is written thereby bounds the memory for a slow client, and slows
 * the backend down to the client's pace. A cancellation ends all waiting. Event loops never wait,
 * since they deliver the responses.
 *
 * All windows of a server have a share of its byte budget (struct response_share). When half of the share is
 * used, each window shrinks to an equal part of the other half, and at least to a few responses: so whoever
 * holds little goes on. An inference always waits for its own reader alone, never for another inference: so
 * no two can wait for each other. The last few are paid for in advance, so that the budget holds
 * nevertheless.
 *
 * Ownership.  Reference counted. The stream inside a request keeps the request's memory
 * alive, but not its contents.
 * Threads.  Any. Deleting a response takes the window's lock only when a thread waits for room.
 */
#pragma once

#include "base/byte_budget.h"
#include "base/compiler.h"
#include "base/ref.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct response;
struct response_window;

/* Receives the first response of an inference before the client does; the response cache uses it after
 * a miss. The stream owns the tap and calls exactly one of the two functions, once, which then owns
 * it: keep() with the first response that is sent, or drop() when the inference ends without one or
 * another tap replaces this one. keep() runs on the thread that sends the response, with no lock held. */
struct response_tap {
        /* The response is borrowed; flags: RESPONSE_FINAL. */
        void (*keep)(struct response_tap *k, const struct response *r, uint32_t flags);
        void (*drop)(struct response_tap *k);
};

#define STREAM_IS_QUERIED 1u /* the backend has asked the allocator about its outputs */
#define STREAM_IS_WATCHED 2u /* has had a cancel_watch */
#define STREAM_HAS_LOST 4u   /* there was no memory for a response */

struct response_stream {
        struct ref   ref;
        _Atomic bool is_cancelled;
        _Atomic bool has_ended; /* FINAL was sent */
        /* STREAM_...: one byte for all, so that the struct fills its cache line exactly. */
        _Atomic unsigned char marks;
        bool borrows_model; /* neither the request nor its responses hold a reference to the model */
        _Atomic uint32_t               n_sent;     /* responses sent, of a decoupled model */
        _Atomic uint32_t               n_reported; /* counted in the statistics of responses */
        uint64_t                       start_ns;   /* of the request; 0 = unknown */
        struct response_window        *window;     /* owned; NULL: no limit */
        _Atomic(struct response_tap *) tap;        /* owned; NULL: no tap */
        _Atomic(struct response *)
                lent;   /* memory for one response, within `memory`; NULL: none, or in use */
        void   *memory; /* owned: block that contains this struct */
        void (*release)(void *memory);
};

/* However many windows there are, each has room for RESPONSE_STREAM_FLOOR small responses, or one large one;
 * when the budget is nearly used up, for RESPONSE_STREAM_LEAST or one. */
#define RESPONSE_STREAM_FLOOR 4
#define RESPONSE_STREAM_LEAST 2

/* What the responses of all windows of a server hold. A counter of each response would cost as much as the
 * response, so the budget is charged in pieces. Outputs are not charged here: their allocators do that. */
struct response_share {
        _Atomic uint64_t
                n_charged; /* bytes of responses, and of what their receivers keep with them */
        _Atomic uint64_t    n_outputs; /* bytes of their outputs */
        _Atomic uint32_t    n_windows;
        uint64_t            max;    /* of the bytes of both */
        struct byte_budget *budget; /* borrowed */
};

/* A quarter of the budget, which outlives the share. */
void     response_share_init(struct response_share *h, struct byte_budget *budget);
uint64_t response_share_held(const struct response_share *h);

/* Limits of the responses that exist at once: their number, and the bytes of them and their outputs.
 * One response is always possible. */
struct response_limits {
        uint32_t max_responses; /* > 0 */
        uint64_t max_bytes;     /* > 0 */
        uint64_t max_wait_ns;   /* longest wait for room; then it is created anyway; 0: no limit */
        struct response_share *share; /* borrowed: outlives the model; NULL: none */
        uint32_t
                beside_bytes; /* what the receiver keeps with each response, charged to the share */
        bool is_paid; /* RESPONSE_STREAM_LEAST responses were charged to the budget by the caller */
};

/* `memory` is freed with the last reference. */
void response_stream_init(struct response_stream *s, void *memory, void (*release)(void *memory));
/* Sets limits for an inference that has not begun. False when memory is short or the budget has no room for
 * the responses that are always possible. */
bool response_stream_limit(struct response_stream *s, const struct response_limits *limits);
/* For the last inference of several, whose responses are passed on as those of `ahead`: makes its creator
 * wait for room there. Takes a reference to `ahead`. False when memory is short. */
bool response_stream_follow(struct response_stream *s, struct response_stream *ahead);
/* Returns a stream for the next inference, as response_stream_reset() makes it: `s` itself when the
 * caller has the only reference, else a new stream; the caller keeps its reference to `s`. NULL, with
 * `s` unchanged, when memory is short. */
struct response_stream *response_stream_renew(struct response_stream *s);

static inline void response_stream_ref(struct response_stream *s) {
        ref_get(&s->ref);
}
/* Called with the last reference. */
void response_stream_free(struct response_stream *s);

static inline void response_stream_unref(struct response_stream *s) {
        if (s != NULL && ref_put(&s->ref))
                response_stream_free(s);
}

void response_stream_cancel(struct response_stream *s); /* without the watches */

static inline bool response_stream_is_cancelled(const struct response_stream *s) {
        return atomic_load_explicit(&s->is_cancelled, memory_order_acquire);
}

/* Sets the tap that sees the answer, in place of the previous one. NULL: none. */
void response_stream_set_tap(struct response_stream *s, struct response_tap *tap);

/* Makes the stream ready for the next inference, with the same limits, not cancelled. The caller has the only
 * reference: no other can appear, since only the request gives out references. */
static inline void response_stream_reset(struct response_stream *s) {
        atomic_store_explicit(&s->is_cancelled, false, memory_order_relaxed);
        atomic_store_explicit(&s->has_ended, false, memory_order_relaxed);
        atomic_store_explicit(&s->marks, 0, memory_order_relaxed);
        atomic_store_explicit(&s->n_sent, 0, memory_order_relaxed);
        atomic_store_explicit(&s->n_reported, 0, memory_order_relaxed);
        if (atomic_load_explicit(&s->tap, memory_order_relaxed) != NULL)
                response_stream_set_tap(s, NULL);
}

/* For the first response: takes the tap, which the caller then owns; NULL when there is none. */
static inline struct response_tap *response_stream_take_tap(struct response_stream *s) {
        if (atomic_load_explicit(&s->tap, memory_order_relaxed) == NULL)
                return NULL;
        return atomic_exchange(&s->tap, NULL);
}

/* Lends memory of the stream to one response. May be called again after that response was freed. */
static inline void response_stream_lend(struct response_stream *s, struct response *memory) {
        atomic_store_explicit(&s->lent, memory, memory_order_release);
}

/* NULL when no memory was lent, or another response uses it. */
static inline struct response *response_stream_borrow(struct response_stream *s) {
        if (atomic_load_explicit(&s->lent, memory_order_relaxed) == NULL)
                return NULL;
        return atomic_exchange_explicit(&s->lent, NULL, memory_order_acquire);
}

/* The backend knows from the allocator where outputs will lie, perhaps nowhere: a buffer may be NULL
 * although it has bytes. */
static inline void response_stream_set_queried(struct response_stream *s) {
        atomic_fetch_or_explicit(&s->marks, STREAM_IS_QUERIED, memory_order_relaxed);
}

/* There was no memory for a response: the final flag alone becomes an error. */
static inline void response_stream_note_lost(struct response_stream *s) {
        atomic_fetch_or_explicit(&s->marks, STREAM_HAS_LOST, memory_order_relaxed);
}

static inline bool response_stream_has_lost(const struct response_stream *s) {
        return (atomic_load_explicit(&s->marks, memory_order_relaxed) & STREAM_HAS_LOST) != 0;
}

static inline bool response_stream_is_queried(const struct response_stream *s) {
        return (atomic_load_explicit(&s->marks, memory_order_relaxed) & STREAM_IS_QUERIED) != 0;
}

/* True when FINAL was sent: the client no longer waits, and its callbacks and memory may be gone. */
static inline bool response_stream_has_ended(const struct response_stream *s) {
        return atomic_load_explicit(&s->has_ended, memory_order_acquire);
}

/* To be called before each send: false when FINAL was sent before. */
static inline bool response_stream_may_send(struct response_stream *s, bool is_final) {
        if (is_final)
                return !atomic_exchange_explicit(&s->has_ended, true, memory_order_acq_rel);
        return !response_stream_has_ended(s);
}

/* The next three functions, for a stream with limits. */
void response_stream_enter_window(struct response_stream *s, uint64_t n_bytes, bool may_wait);
void response_stream_add_bytes_to_window(struct response_stream *s, uint64_t n_bytes);
void response_stream_leave_window(struct response_stream *s, uint64_t n_bytes, uint64_t n_added);

/* Counts a new response of n_bytes. With may_wait it waits for room first, unless
 * response_stream_allow_wait() forbids that on this thread. */
static inline void response_stream_enter(struct response_stream *s, uint64_t n_bytes,
                                         bool may_wait) {
        if (s->window != NULL)
                response_stream_enter_window(s, n_bytes, may_wait);
}

/* Counts the memory of an output. */
static inline void response_stream_add_bytes(struct response_stream *s, uint64_t n_bytes) {
        if (s->window != NULL)
                response_stream_add_bytes_to_window(s, n_bytes);
}

/* Counts the deletion of a response. n_bytes: those of response_stream_enter(); n_added: all that
 * response_stream_add_bytes() added for it. */
static inline void response_stream_leave(struct response_stream *s, uint64_t n_bytes,
                                         uint64_t n_added) {
        if (s->window != NULL)
                response_stream_leave_window(s, n_bytes, n_added);
}

/* How many responses the creator, which asks before each use of the number, can create now without
 * waiting: UINT32_MAX without a limit, and after a cancellation. */
uint32_t response_stream_room(struct response_stream *s);

typedef void (*response_room_fn)(void *userp);

/* For a creator that must not wait: true when a response could not be created now without waiting. Then
 * call(userp) follows once, as soon as it can or the inference is cancelled, on the thread that made the
 * room or cancels, with no lock held. Only one call may be outstanding; the creator keeps the stream. */
bool response_stream_when_room(struct response_stream *s, response_room_fn call, void *userp)
        NODISCARD;

/* Sets whether the calling thread may wait for room (initially true). */
void response_stream_allow_wait(bool allow);
