/* SPDX-License-Identifier: BSD-3-Clause */
/* Adaptive batching: decides when a batch runs before its queue delay is over.
 *
 * A policy calls adaptive_runs() before it lets a batch wait for the rest of max_queue_delay.
 *
 *   off    The batch waits, as in the reference server.
 *   idle   A lone request runs when the model has no execution running.
 *   flow   A batch runs as soon as all clients that can send have sent. Their number follows from what
 *          was observed: K is the largest number of rows that waited and ran at the same time. While X
 *          of these rows run, K - X can wait. When that many wait, no further request is expected. If
 *          an expected request does not come, because its client has gone, the batch waits once, for
 *          at most the duration of one execution. Then K is set to the number of rows that are there.
 *
 *              clients send, wait for their answers, and send again:
 *
 *              run [a b c]   a b c .. a b      a b c         K = 3: c is on its way, wait for it
 *              ----------|-------------^-------^----
 *                    answers      2 of 3    3 of 3: run
 *
 * Flow needs no training and no trial runs: the very first request runs at once, and a wrong K costs
 * the time of one execution, once.
 *
 * Ownership.  Embedded in a policy.
 * Threads.  The caller holds the engine's lock, as for the policy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum adaptive_mode {
        ADAPTIVE_OFF,
        ADAPTIVE_IDLE,
        ADAPTIVE_FLOW,
        ADAPTIVE_UNSET, /* option not given: each kind of model has its own default */
};

/* Reads "off", "idle" or "flow". Returns false for any other text. */
bool adaptive_mode_read(const char *text, enum adaptive_mode *ret);

struct adaptive {
        enum adaptive_mode mode;
        uint64_t           delay_ns;    /* max_queue_delay; 0: no batch waits, whatever the mode */
        uint64_t           circulating; /* K */
        uint64_t average_ns; /* moving average of the execution time; 0: no execution yet */
};

/* State of the queue and of the instances at the time when a policy would wait. */
struct adaptive_view {
        uint64_t now_ns;
        uint64_t n_requests;   /* requests in the queue */
        uint64_t rows_waiting; /* rows of these requests */
        uint64_t rows_running; /* X */
        uint64_t oldest_ns;    /* arrival of the oldest request of the batch */
        uint64_t free_ns;      /* when the instance for the batch became free; 0: it never ran */
        uint64_t max_rows;     /* with more waiting rows than these the batch would be the same */
};

/* Called after a request was queued; the rows include that request. */
void adaptive_arrived(struct adaptive *a, uint64_t rows_waiting, uint64_t rows_running);
void adaptive_executed(struct adaptive *a, uint64_t took_ns);

/* Returns the number of rows that may still come to wait at the same time: K - X. */
uint64_t adaptive_expected(const struct adaptive *a, uint64_t rows_running);

/* Decides about a batch that is not full and for which an instance is free. Returns true when it
 * runs now. Returns false when it waits; unless an event occurs earlier, the policy asks again at
 * *ret_until_ns (CLOCK_NEVER: no such time). */
bool adaptive_runs(struct adaptive *a, const struct adaptive_view *view, uint64_t *ret_until_ns);
