/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server needs of a scheduler: give it a request, take one back, stop.
 *
 * Ownership.  submit() takes the request on success and leaves it with the caller on error.
 * cancel() is called for a request that was submitted and may still be queued: a queued one is
 * answered CANCELLED and released at once, on the calling thread.
 * Executors come and go while it works, when a model's instance groups are changed: those that
 * stay keep running.
 *
 * Threads.  submit(), cancel() and released() may be called from any thread; of the rest one at a
 * time.
 */
#pragma once

#include "base/error.h"
#include "infer/sequence_row.h"

#include <stdbool.h>
#include <stdint.h>

struct executor;
struct request;
struct response;
struct response_order;
struct scheduler;

struct scheduler_ops {
        struct error *(*submit)(struct scheduler *s, struct request *req);
        /* The same for several at once, which a batcher finds together: ret_errors has one for each,
         * NULL for those that it takes. NULL: they are submitted one by one. */
        void (*submit_all)(struct scheduler *s, struct request *const *requests, uint32_t n,
                           struct error **ret_errors);
        void (*cancel)(struct scheduler *s, struct request *req);
        /* A request of the model was released, perhaps one that this scheduler never had (an answer
         * of the cache); the front end has not heard of it. True: the scheduler keeps it and runs it
         * again (REQUEST_RELEASE_RESCHEDULE). NULL: of no interest. */
        bool (*released)(struct scheduler *s, struct request *req, uint32_t flags);
        /* An answer that a cache has kept is about to be sent: adds what a cache does not keep. NULL:
         * there is nothing. */
        void (*complete_answer)(struct scheduler *s, const struct request *req,
                                struct response *response);
        /* One more that may run batches; borrowed until it is removed or the scheduler freed. On
         * error (no thread to be had) it is not used. */
        struct error *(*add_executor)(struct scheduler *s, struct executor *e);
        /* Returns when it has run its last batch. What is queued is left to the others: one at
         * least must be there when requests are to be served. */
        void (*remove_executor)(struct scheduler *s, struct executor *e);
        /* No new requests of clients from now on. What is queued still runs, and so does what the
         * server itself submits for requests that are under way (struct request, is_inner). */
        void (*drain)(struct scheduler *s);
        /* The model was unloaded or replaced: only those who had found it before still submit. What
         * is queued still runs. NULL: of no interest. */
        void (*retire)(struct scheduler *s);
        /* Waits for instances to end; nothing may be queued or running. */
        void (*free)(struct scheduler *s);
};

/* What a scheduler with sequences can do besides; any thread, holding no lock. */
struct sequence_ops {
        /* The request's id is that of a live sequence. */
        bool (*knows)(struct scheduler *s, const struct request *req);
        /* That sequence, if there is one, has no more requests: its id begins another one elsewhere. */
        void (*forget)(struct scheduler *s, const struct request *req);
        /* From now on submit() answers model_generations_retired() to what would begin a sequence. Calls
         * model_generations_leave() once when the last sequence has ended, now or later. */
        void (*retire)(struct scheduler *s);
        /* From now on a sequence without requests ends, however short it has been idle. */
        void (*hurry)(struct scheduler *s);
        /* How many are live. */
        struct sequence_count (*count)(struct scheduler *s);
        /* The next ones, at most so many; returns how many, which may be none before the end. */
        size_t (*list)(struct scheduler *s, struct sequence_cursor *at, struct sequence_row *rows,
                       size_t n_rows);
};

struct scheduler {
        const struct scheduler_ops *ops;
        const struct sequence_ops  *sequences; /* NULL: it has none */
        struct response_order      *order;     /* the scheduler's; NULL unless preserve_ordering */
        bool                        may_reschedule; /* released() takes RESCHEDULE */
        bool                        may_split;      /* requests may run in parts: request_split.h */
};
