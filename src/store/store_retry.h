/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether and when a request to a store is made again: exponential back-off with jitter.
 *
 * The time for retries counts from the last progress. A server may ask for a longer pause (Retry-After);
 * when that pause would end after the time, there is no further try.
 *
 * Ownership.  Nothing is allocated.
 * Threads.  One owner at a time. Time is an argument.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct store_retry {
        uint64_t budget_ns;
        uint64_t end_ns; /* 0: nothing has failed since the last progress */
        unsigned n;      /* tries that failed since then */
};

void store_retry_init(struct store_retry *r, uint64_t budget_ns);
/* To be called when bytes have arrived: the next failure is the first one. */
void store_retry_progress(struct store_retry *r);
/* Computes when the next try may begin. False: the time for retries is over. `wait_ns` is the pause that
 * the server asked for, 0 for none; `random` is any number. */
bool store_retry_next(struct store_retry *r, uint64_t now_ns, uint64_t wait_ns, uint32_t random,
                      uint64_t *ret_ns);

/* True for an answer that another try may improve: 408, 429, 500, 502, 503, 504. */
bool store_retry_is_transient(int status);
/* Reads the value of Retry-After: seconds, or a date of HTTP (RFC 9110, 5.6.7). 0 for anything else, and
 * for a date that has passed. */
uint64_t store_retry_after_ns(const char *value, uint64_t wall_ns);
