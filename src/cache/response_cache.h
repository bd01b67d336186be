/* SPDX-License-Identifier: BSD-3-Clause */
/* The response cache of a server: answers that need no execution. It is asked by a scheduler in front
 * of the model's own (cache/cached_scheduler.h).
 *
 * Models take part by their configuration (response_cache { enable: true }). What is kept, and
 * what is thrown away, is the business of the cache's library.
 *
 * An answer is kept as it is sent, by the thread that sends it, before the client has it: only
 * the final one of a request that was not answered before, without an error, and not of requests
 * whose memory somebody else may write to meanwhile (struct request, is_not_kept). A cache that
 * fails costs a line in the log; the request is served without it.
 *
 * Ownership.  The server's; models and requests in flight borrow it, and are gone before it.
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

/* While it loads: whether the model takes part. `c` is NULL when the server has no cache, which is
 * worth a line in the log if the model counts on one. */
struct error *response_cache_attach(struct response_cache *c, struct model *m) NODISCARD;

/* A request that was checked, counted as in flight and not submitted. True: it was answered and
 * released; `inner`, its scheduler, adds what is not kept (labels of an ensemble's steps). False: the
 * scheduler may have it; its answer will be kept, if it can be. */
bool response_cache_answer(struct response_cache *c, struct request *req, struct scheduler *inner);
/* The scheduler did not take it. */
void response_cache_forget(struct request *req);
