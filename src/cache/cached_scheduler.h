/* SPDX-License-Identifier: BSD-3-Clause */
/* A scheduler in front of another one: answers requests from the response cache, and passes on the
 * rest.
 *
 *     submit --> response_cache_answer() --> it is kept: answered and released at once
 *                           '--------------> it is not: to the inner scheduler, and the first
 *                                            response that is sent is kept
 *
 * Ownership.  Owns the inner scheduler and frees it with itself. The cache is borrowed.
 * Threads.  See infer/scheduler.h.
 */
#pragma once

struct response_cache;
struct scheduler;

/* Takes `inner`. */
struct scheduler *cached_scheduler_new(struct response_cache *cache, struct scheduler *inner);
