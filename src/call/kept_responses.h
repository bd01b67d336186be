/* SPDX-License-Identifier: BSD-3-Clause */
/* The responses of a stream whose bytes the socket has not taken, oldest first. As long as they are kept,
 * they count as unread, and the backend of a decoupled model waits for a slow reader (infer_call.h). If
 * they were freed when their bytes are queued, a client that does not read would let the backend fill
 * the memory.
 *
 * Ownership.  Owns the responses. Zeros are an empty list.
 * Threads.  The call's loop.
 */
#pragma once

#include "call/infer_call.h"

struct kept_responses {
        struct infer_call_response *first; /* owned */
        struct infer_call_response *last;
};

/* Takes the response. `mark` is the position of its end in what the stream sends. */
void kept_responses_add(struct kept_responses *k, struct infer_call_response *r, uint64_t mark);
/* Frees those that end at `written` or before; UINT64_MAX: all. */
void kept_responses_drop(struct kept_responses *k, uint64_t written);
