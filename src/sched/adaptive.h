/* SPDX-License-Identifier: BSD-3-Clause */
/* Adaptive batching: when a batch runs before its queue delay is over.
 *
 * A policy that would wait for the rest of max_queue_delay asks here first.
 *
 *   off    It waits, as the reference server does.
 *   idle   A lone request runs when nothing of its model runs.
 *   flow   A batch runs as soon as everybody is here who can be. How many that are follows from what
 *          was seen: the rows that wait and run at the same time, K at most. While X of them run, K - X
 *          can wait; when so many do, nobody else is to come. Who does not come after all, because
 *          a client has gone, is waited for once, and no longer than one execution takes; then K is
 *          what is there.
 *
 *              clients send, wait for their answers, and send again:
 *
 *              run [a b c]   a b c .. a b      a b c         K = 3: c is on its way, wait for it
 *              ----------|-------------^-------^----
 *                    answers      2 of 3    3 of 3: run
 *
 * Nothing is learned over time and nothing is tried out: the first request of all runs at once, and a
 * wrong K costs one execution's time, once.
 *
 * Ownership.  Embedded in a policy.
 * Threads.  As its policy: under the engine's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum adaptive_mode {
        ADAPTIVE_OFF,
        ADAPTIVE_IDLE,
        ADAPTIVE_FLOW,
        ADAPTIVE_UNSET, /* of an option: each kind of model has its own default */
};

/* "off", "idle" or "flow". False: it is none. */
bool adaptive_mode_read(const char *text, enum adaptive_mode *ret);

struct adaptive {
        enum adaptive_mode mode;
        uint64_t           delay_ns;    /* max_queue_delay; 0: nothing waits, whatever the mode */
        uint64_t           circulating; /* K */
        uint64_t           average_ns;  /* of executions, moving; 0: none was yet */
};

/* The state of the queue and of the members when a policy would wait. */
struct adaptive_view {
        uint64_t now_ns;
        uint64_t n_requests;   /* that wait */
        uint64_t rows_waiting; /* of all of them */
        uint64_t rows_running; /* X */
        uint64_t oldest_ns;    /* when the oldest of the batch arrived */
        uint64_t free_ns;      /* when the member that would run it became free; 0: it never ran */
        uint64_t max_rows;     /* more rows than these make no other batch */
};

/* After a request was queued; with it. */
void adaptive_arrived(struct adaptive *a, uint64_t rows_waiting, uint64_t rows_running);
void adaptive_executed(struct adaptive *a, uint64_t took_ns);

/* Rows that may yet wait at the same time: K - X. */
uint64_t adaptive_expected(const struct adaptive *a, uint64_t rows_running);

/* A batch is there, not full, and a member is free for it. True: it runs now. False: it waits, and is
 * to be asked about again at *ret_until_ns, when nothing happens before (CLOCK_NEVER). */
bool adaptive_runs(struct adaptive *a, const struct adaptive_view *view, uint64_t *ret_until_ns);
