/* SPDX-License-Identifier: BSD-3-Clause */
/* What all responses of one inference share: whether they have ended, whether the client still
 * wants them, and how many may exist at once.
 *
 * A request has one for each time it is used. Responses and factories hold it as well, since they
 * outlive the request: who cancels, the backend that asks, and the last response all meet here.
 *
 * Responses come as the backend likes, any number of them, and end with the first FINAL. What is
 * sent after that is refused: nobody waits for it any more, and its callback may be gone.
 *
 * With a window, making a response waits until there is room: until the front end has deleted
 * enough of those it was given. So a front end that deletes a response once it is written bounds
 * what a slow reader costs, and the backend goes at the reader's pace. A cancellation ends all
 * waiting. Threads that deliver responses themselves (event loops) never wait.
 *
 * Ownership.  Counted. The one inside a request keeps the request's memory, and no more than that.
 * Threads.  Any. Deleting a response takes the window's lock only when somebody waits for room.
 */
#pragma once

#include "base/compiler.h"
#include "base/ref.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct response;
struct response_tap;
struct response_window;

struct response_stream {
        struct ref                     ref;
        _Atomic bool                   is_cancelled;
        _Atomic bool                   has_ended;  /* FINAL was sent */
        bool                           borrows_model; /* neither request nor responses hold it */
        _Atomic uint32_t               n_sent;     /* responses */
        _Atomic uint32_t               n_reported; /* in the statistics of responses */
        uint64_t                       start_ns;   /* of the request; 0 = not known */
        struct response_window        *window;     /* owned; NULL: no bound */
        _Atomic(struct response_tap *) keeper;     /* owned; NULL: nobody wants the answer */
        _Atomic(struct response *)     room; /* in `memory`, for a response; NULL: lent, or none */
        void                          *memory; /* owned: what this is part of */
        void (*release)(void *memory);
};

/* Of the responses that were made and not deleted: how many there may be, and how many bytes they
 * and their outputs. One response is always possible. */
struct response_limits {
        uint32_t max_responses; /* > 0 */
        uint64_t max_bytes;     /* > 0 */
        uint64_t max_wait_ns;   /* for room; then it is made all the same; 0: no limit */
};

/* `memory` is released with the last reference. */
void response_stream_init(struct response_stream *f, void *memory, void (*release)(void *memory));
/* For an inference that has not begun. False when memory is short. */
bool response_stream_limit(struct response_stream *f, const struct response_limits *limits);
/* One for the next inference like f: f itself when nobody else holds it, else a new one that takes
 * the place of this reference. Cancellation is not taken over. NULL, with f as it was, when memory
 * is short. */
struct response_stream *response_stream_renew(struct response_stream *f);

static inline void response_stream_ref(struct response_stream *f) {
        ref_get(&f->ref);
}
void response_stream_unref(struct response_stream *f); /* NULL is fine */

void response_stream_cancel(struct response_stream *f);

static inline bool response_stream_is_cancelled(const struct response_stream *f) {
        return atomic_load_explicit(&f->is_cancelled, memory_order_acquire);
}

/* Who wants the answer; takes the place of the last one. NULL: nobody any more. */
void response_stream_set_tap(struct response_stream *f, struct response_tap *keeper);

/* For the first response: who wants it, from now on the caller's; NULL when nobody does. */
static inline struct response_tap *response_stream_take_tap(struct response_stream *f) {
        if (LIKELY(atomic_load_explicit(&f->keeper, memory_order_relaxed) == NULL))
                return NULL;
        return atomic_exchange(&f->keeper, NULL);
}

/* Room for a response in the memory that f keeps: lends it; again, too, when that has ended. */
static inline void response_stream_lend(struct response_stream *f, struct response *room) {
        atomic_store_explicit(&f->room, room, memory_order_release);
}

/* NULL when there is none, or another response has it. */
static inline struct response *response_stream_borrow(struct response_stream *f) {
        if (atomic_load_explicit(&f->room, memory_order_relaxed) == NULL)
                return NULL;
        return atomic_exchange_explicit(&f->room, NULL, memory_order_acquire);
}

/* Before something is sent: false when it must not be, because all has been said. */
static inline bool response_stream_may_send(struct response_stream *f, bool is_final) {
        if (is_final)
                return !atomic_exchange_explicit(&f->has_ended, true, memory_order_acq_rel);
        return !atomic_load_explicit(&f->has_ended, memory_order_acquire);
}

/* A response of so many bytes is made: waits for room if it may. */
void response_stream_enter(struct response_stream *f, uint64_t n_bytes, bool may_wait);
/* It grows: an output got memory. */
void response_stream_add_bytes(struct response_stream *f, uint64_t n_bytes);
/* A response that has come to so many bytes is deleted. */
void response_stream_leave(struct response_stream *f, uint64_t n_bytes);

/* Whether the calling thread may wait for room (at first it may). */
void response_stream_allow_wait(bool allow);
