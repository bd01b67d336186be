/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's interface to a scheduler: submit a request, cancel one, stop.
 *
 * Ownership.  submit() takes the request on success and leaves it with the caller on error. cancel() is
 * called for a request that was submitted and may still be queued; if it is, the scheduler answers it
 * CANCELLED and releases it at once, on the calling thread. When a model's instance groups change,
 * executors are added and removed while the others keep running.
 *
 * Threads.  submit(), cancel() and released() may be called from any thread; the others one at a time.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct executor;
struct request;
struct response;
struct response_order;
struct scheduler;

struct scheduler_ops {
        struct error *(*submit)(struct scheduler *s, struct request *req);
        /* Submits several requests at once, so that a batcher sees them together. ret_errors has one
         * entry for each request, NULL for those that it takes. Function pointer NULL: the caller
         * submits them one by one. */
        void (*submit_all)(struct scheduler *s, struct request *const *requests, uint32_t n,
                           struct error **ret_errors);
        void (*cancel)(struct scheduler *s, struct request *req);
        /* Called when a request of the model is released, perhaps one that this scheduler never had (a
         * cached answer), before the front end's callback. True: the scheduler keeps the request and
         * runs it again (REQUEST_RELEASE_RESCHEDULE). NULL: not needed. */
        bool (*released)(struct scheduler *s, struct request *req, uint32_t flags);
        /* Called before a cached answer is sent: adds the parts that the cache does not store. NULL:
         * none. */
        void (*complete_answer)(struct scheduler *s, const struct request *req,
                                struct response *response);
        /* Adds an executor, borrowed until it is removed or the scheduler is freed. On error (no thread
         * could be started) it is not used. */
        struct error *(*add_executor)(struct scheduler *s, struct executor *e);
        /* Returns after the executor has run its last batch. The other executors run the queued
         * requests: at least one must remain while requests are to be served. */
        void (*remove_executor)(struct scheduler *s, struct executor *e);
        /* Accepts no new requests of clients. Queued requests still run, and so do requests that the
         * server itself submits for those in flight (struct request, is_inner). */
        void (*drain)(struct scheduler *s);
        /* Called when the model was unloaded or replaced. Queued requests still run, and callers that
         * had looked the model up before may still submit. NULL: not needed. */
        void (*retire)(struct scheduler *s);
        /* Waits for the instances to end; no request may be queued or running. */
        void (*free)(struct scheduler *s);
};

/* Largest length of a text id that front ends accept. */
#define SEQUENCE_ROW_TEXT_BYTES 128

/* A live sequence, as the server lists it for users. A scheduler copies a few rows at a time under its
 * lock, so that listing a hundred thousand sequences does not delay their requests. */
struct sequence_row {
        uint64_t number; /* numeric id, when the id is no text */
        uint64_t age_ns;
        uint64_t idle_ns;  /* time since its last request arrived or ended; 0 while it has one */
        bool     has_slot; /* false: it is in the backlog */
        uint32_t slot;
        uint32_t n_requests; /* waiting or running */
        bool     is_text;
        bool     is_ending; /* accepts no more requests */
        char     text[SEQUENCE_ROW_TEXT_BYTES + 1];
        char     instance[SEQUENCE_ROW_TEXT_BYTES + 1]; /* name of the slot's instance */
};

/* Position of a listing; all zero at first. Slots are listed in order, then the backlog. A sequence
 * that exists throughout is listed once; one that begins or ends meanwhile may be missing. */
struct sequence_cursor {
        size_t   instance;
        uint32_t slot;
        uint64_t after_ns; /* in the backlog: only sequences that began later */
        bool     has_ended;
};

struct sequence_count {
        uint64_t n_active;
        uint64_t n_backlog;
};

/* Additional operations of a scheduler with sequences; any thread, with no lock held. */
struct sequence_ops {
        /* True when the request's id is that of a live sequence. */
        bool (*knows)(struct scheduler *s, const struct request *req);
        /* Ends the live sequence with the request's id, if there is one, because the request begins a
         * sequence with that id on another load. */
        void (*forget)(struct scheduler *s, const struct request *req);
        /* From now on submit() returns model_generations_retired() for requests that would begin a
         * sequence. Calls model_generations_leave() once after the last sequence has ended, now or
         * later. */
        void (*retire)(struct scheduler *s);
        /* From now on a sequence without requests ends at once, without an idle time. */
        void (*end_idle)(struct scheduler *s);
        /* To be called before executors are removed, one after the other: this one begins no sequences
         * any more, which its removal would have to wait for. */
        void (*close_executor)(struct scheduler *s, const struct executor *e);
        /* Number of live sequences. */
        struct sequence_count (*count)(struct scheduler *s);
        /* Copies the next rows, at most the given number; returns their number, which may be 0 before
         * the end. */
        size_t (*list)(struct scheduler *s, struct sequence_cursor *at, struct sequence_row *rows,
                       size_t n_rows);
};

struct scheduler {
        const struct scheduler_ops *ops;
        const struct sequence_ops  *sequences;      /* NULL: no sequences */
        struct response_order      *order;          /* owned; NULL unless preserve_ordering */
        bool                        may_reschedule; /* released() supports RESCHEDULE */
        bool                        may_split;      /* requests may run in parts: request_split.h */
};
