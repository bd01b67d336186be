/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies to the calls of a stub (struct shm_call).
 *
 * Threads.  Any; the caller sends the last reply to a call after all others.
 */
#pragma once

#include "python/python_session.h"

/* The facts of a call that a reply needs, copied and checked. */
struct reply_to {
        uint32_t call; /* block of the call */
        uint32_t id;
        uint32_t is_async;
        uint32_t n_replies; /* so far */
};

/* Returns false, and marks the region as broken, when the block is not a call. `call` is a copy of
 * it. */
bool reply_open(struct session *s, const struct shm_message *message, struct shm_call *call,
                struct reply_to *ret);

/* Passes a reply before the last one, after which the call has no further responses. */
void reply_push_early(struct session *s, const struct reply_to *to, uint32_t block);

/* Passes a reply block, which the caller has filled in, to the stub. */
void reply_push(struct session *s, struct reply_to *to, uint32_t block, bool is_last);

/* Sends the last reply, a code and a text. Without memory for it the region is marked as broken,
 * since the stub would wait forever. */
void reply_text(struct session *s, struct reply_to *to, uint32_t code, const char *text,
                size_t len);

/* The same with an error, which is taken. */
void reply_error(struct session *s, struct reply_to *to, TRITONSERVER_Error *err);

/* The same for a call that is refused. */
void reply_refuse(struct session *s, uint32_t call, const char *text);
