/* SPDX-License-Identifier: BSD-3-Clause */
/* One request to a store or to a server of tokens, over libcurl, and its answer.
 *
 * Each thread uses one connection at a time; connections are kept and used again. Nothing here tries
 * again: see store_retry.h.
 *
 * Ownership.  The caller owns requests and answers (store_message.h).
 * Threads.  store_exchange(): any, at the same time.
 */
#pragma once

#include "store/store_message.h"

/* An answer of any status is a success. Redirects are not followed here. UNAVAILABLE when no answer came,
 * or only a part of it: "<scheme>://<host>/<path>: <what>", without the query; INVALID_ARG likewise when another
 * try would fail for the same reason: a certificate; CANCELLED. */
struct error *store_exchange(struct store_request *r, struct store_answer *ret) NODISCARD;

/* Loads libcurl, which the first exchange would load. Error when it is missing. */
struct error *store_request_prepare(void) NODISCARD;
/* Closes the connections that no thread uses now. */
void store_request_close_idle(void);
