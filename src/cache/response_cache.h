/* SPDX-License-Identifier: BSD-3-Clause */
/* The response cache of a server: answers that need no execution. A scheduler in front of the
 * model's own calls it (cache/cached_scheduler.h).
 *
 * Models take part by their configuration (response_cache { enable: true }). The cache's library
 * decides which answers it keeps and which it evicts.
 *
 * The thread that sends an answer inserts it first, before the client has it. Only an answer
 * without an error that is the first and final one of its request is inserted, and none of requests
 * whose memory others may write to meanwhile (struct request, is_uncacheable). When the cache fails,
 * the failure is logged and the request is served without it.
 *
 * Ownership.  The server owns it; models and requests in flight borrow it, and end before it.
 * Threads.  All but new and free: any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct cache_library_options;
struct model;
struct request;
struct scheduler;
struct response_cache;

struct error *response_cache_new(const struct cache_library_options *o, struct response_cache **ret)
        NODISCARD;
void response_cache_free(struct response_cache *c); /* NULL is fine */

/* Called while a model loads: decides whether it takes part. `c` is NULL when the server has no
 * cache, which is logged if the model's configuration enables one. */
struct error *response_cache_attach(struct response_cache *c, struct model *m) NODISCARD;

/* For a request that was checked, counted as in flight and not submitted. True: it was answered and
 * released, or will be by another thread, which waits for copies to devices (has_device_outputs);
 * `inner`, its scheduler, adds data that is not kept (labels of an ensemble's steps). False: the caller
 * passes it to the scheduler; its answer will be kept, if possible. */
bool response_cache_answer(struct response_cache *c, struct request *req, struct scheduler *inner);
/* For a request that the scheduler refused. */
void response_cache_forget(struct request *req);
