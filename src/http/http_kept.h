/* SPDX-License-Identifier: BSD-3-Clause */
/* The responses of a stream whose text the socket has not taken, oldest first. As long as they are kept,
 * they count as unread, and the backend of a decoupled model waits for a slow reader (infer_call.h).
 *
 * Ownership.  Owns the responses. Zeros are an empty list.
 * Threads.  The call's loop.
 */
#pragma once

#include "call/infer_call.h"
#include "http/http_call.h"

struct http_kept {
        struct infer_call_response *first; /* owned */
        struct infer_call_response *last;
};

/* To be called in on_response(), after the text of the response was queued. Keeps it if it must. */
void http_kept_add(struct http_kept *k, struct http_call *http, struct infer_call *c);
/* Frees those whose text the socket has taken; to be called by on_written(). */
void http_kept_drop_written(struct http_kept *k, struct http_call *http);
void http_kept_drop_all(struct http_kept *k);
