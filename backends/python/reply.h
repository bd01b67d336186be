/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies to the calls of a stub (struct shm_call).
 *
 * Threads.  Any; the last reply to a call comes after all others.
 */
#pragma once

#include "python/session.h"

/* What is needed to reply, copied from the call and checked. */
struct reply_to {
        uint32_t call; /* its block */
        uint32_t id;
        uint32_t is_async;
        uint32_t n_replies; /* so far */
};

/* False, and the region broken: it is no call. `call` is a copy of it. */
bool reply_open(struct session *s, const struct shm_message *message, struct shm_call *call,
                struct reply_to *ret);

/* A reply block, filled in by the caller, goes to the stub. */
void reply_push(struct session *s, struct reply_to *to, uint32_t block, bool is_last);

/* A last reply of a code and a text. Without memory for it the session is broken: the stub would wait
 * for ever. */
void reply_text(struct session *s, struct reply_to *to, uint32_t code, const char *text,
                size_t len);

/* The same with an error, which is taken. */
void reply_error(struct session *s, struct reply_to *to, TRITONSERVER_Error *err);

/* The same for a call that is not served. */
void reply_refuse(struct session *s, uint32_t call, const char *text);
