/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequences of a model: which are live, which slot each has, which wait for a slot, and which
 * request may run next. This is a data structure with the rules of the reference server's sequence
 * batcher. Threads, clocks and instances belong to its user (sequence/sequence.h).
 *
 *     START --> slot free?  --yes--> ACTIVE: first request ready, the others one after the other
 *                   '--no--> BACKLOG, in order of arrival --slot released--> ACTIVE
 *     ACTIVE --END, no request for idle_ns, a queued request cancelled--> slot released
 *     BACKLOG --timeout of a request, all requests cancelled--> ended
 *
 * An instance has n_slots slots. A sequence takes the free slot with the lowest number; among several,
 * that of the oldest instance. So sequences spread over the instances. One request of a sequence is
 * with its instance at a time. The next one follows when that request was released.
 *
 * An id is known from START until END, the idle timeout, or a cancellation. After that it may start
 * another sequence, even while requests of the first one still wait.
 *
 * The backend of an iterative model sees the end of each sequence that it has executed. Such a sequence
 * is open from its first execution until the backend has had a request with END, or has released the
 * only request of an anonymous sequence. An open sequence that ends for any other reason keeps its slot
 * for one more execution, the closing one: of the cancelled request, if that is with the instance, else
 * of a request that the owner makes (outcome: closing).
 *
 * Ownership.  The table owns sequences and slots. A request belongs to the table from
 * sequence_table_push() until an outcome lists it. Outcomes are linked by queued.next.
 * Threads.  The caller holds the owner's lock.
 */
#pragma once

#include "base/due_heap.h"
#include "base/list.h"
#include "infer/request.h"
#include "sequence/sequence_ids.h"

#include <stdbool.h>
#include <stdint.h>

struct implicit_states;
struct sequence_row;
struct sequence_slot;

enum sequence_end {
        SEQUENCE_ENDED_BY_END,
        SEQUENCE_ENDED_IDLE,
        SEQUENCE_ENDED_CANCELLED,
        SEQUENCE_ENDED_TIMEOUT,
        N_SEQUENCE_ENDS
};

struct sequence {
        struct sequence_link  link;    /* with its id; in `ids` while the id is known */
        struct list_node      node;    /* in the backlog, or in the list of idle sequences */
        struct due            due;     /* in the backlog: earliest timeout of its requests */
        struct list           waiting; /* struct request by queued.node: those that wait */
        struct request       *running; /* borrowed: with its instance; NULL: none */
        struct sequence_slot *slot;    /* NULL: in the backlog */
        /* Owned. The instance that executes its requests creates and uses them. NULL: the model has
         * none, or nothing was executed yet. */
        struct implicit_states *states;
        uint64_t                started_ns; /* unique: orders sequences by their start */
        uint64_t                touched_ns; /* time when the last request arrived or was released */
        uint32_t                n_waiting;
        uint32_t                running_flags; /* flags of `running` as its front end set them */
        enum sequence_end       reason;
        bool                    is_known;     /* its id is in `ids` */
        bool                    is_last;      /* accepts no more requests */
        bool                    is_anonymous; /* made for one request without an id */
        /* Set by the thread that executes its requests, if the model is iterative. */
        bool is_open;
        /* The running request is the last one, which the backend sees cancelled and with END. Set by
         * the thread that executes it, or by sequence_table_begin_closing(). */
        bool             is_closing;
        struct sequence *next_closing; /* in an outcome */
        uint32_t         n_text;
        /* An element of a BYTES tensor: 4 bytes of length and the id. A NUL follows. */
        char text[];
};

/* An instance, as the table sees it. */
struct sequence_place {
        struct sequence_slot **slots; /* owned, and each; the last one is made on demand */
        uint32_t               n_made;
        uint32_t               n_slots;
        uint32_t               order;    /* number among the instances, oldest first */
        uint32_t               n_active; /* number of slots with a sequence */
        uint32_t               n_top;    /* all slots from this number on are free */
        bool                   is_leaving;
        void                  *owner;         /* borrowed: the instance */
        bool                   has_untouched; /* the last slot made was never used */
};

struct sequence_slot {
        struct sequence_place *place;    /* borrowed */
        struct sequence       *sequence; /* NULL: free */
        uint32_t               number;
        /* Memory that the owner needs to run a request of this slot: n_slot_bytes bytes. */
        char room[] __attribute__((aligned(16)));
};

struct sequence_table {
        struct sequence_ids    ids;
        struct list            backlog;    /* struct sequence, in order of arrival */
        struct list            idle;       /* struct sequence, longest idle first */
        struct due_heap        dues;       /* timeouts of the backlog */
        struct sequence_slot **free_slots; /* owned; a heap: number, then age of the instance */
        size_t                 n_free;
        size_t                 n_made;   /* number of slots, free or not */
        size_t                 cap_free; /* at least n_made */
        uint64_t               idle_ns;
        uint32_t               n_slots;      /* slots of each instance */
        size_t                 n_slot_bytes; /* size of `room` in each slot */
        uint32_t               n_places_made;
        void (*init_slot)(struct sequence_table *t, void *room); /* NULL: a zeroed room is enough */

        uint64_t n_active;          /* number of sequences with a slot */
        uint64_t n_backlog;         /* number of sequences without one */
        uint64_t n_active_requests; /* requests of sequences with a slot, running ones included */
        uint64_t n_backlog_requests;
        uint64_t n_anonymous;
        uint64_t last_start_ns;
        uint64_t n_started;
        uint64_t n_ended[N_SEQUENCE_ENDS];
};

struct request_list {
        struct request  *first; /* linked by queued.next */
        struct request **end;
};

/* Results of a call. The caller handles them after it released its lock: freeing megabytes under a
 * lock would block others. */
struct sequence_outcome {
        struct request_list     ready;     /* for their instances: request->sequence->slot->place */
        struct request_list     cancelled; /* to be refused */
        struct request_list     expired;   /* to be refused */
        struct sequence        *closing;   /* to be closed; linked by next_closing */
        struct implicit_states *states;    /* a list of states of ended sequences, to be freed */
        bool                    has_conflict; /* the request has START, but its id was live */
};

void sequence_outcome_init(struct sequence_outcome *out);

/* Makes a table without instances. Fails when the kernel has no random numbers. */
struct error *sequence_table_init(struct sequence_table *t, uint32_t n_slots, uint64_t idle_ns)
        NODISCARD;
void sequence_table_done(struct sequence_table *t); /* no request may be left in it */

/* Adds an instance. Sequences of the backlog get its slots. */
struct sequence_place *sequence_table_add_place(struct sequence_table *t, void *owner,
                                                struct sequence_outcome *out);
/* Its slots take no new sequences. Its live sequences continue. */
void sequence_table_retire_place(struct sequence_table *t, struct sequence_place *place);
/* The place must have no sequence any more. */
void sequence_table_remove_place(struct sequence_table *t, struct sequence_place *place);

enum sequence_origin {
        SEQUENCE_OF_CLIENT, /* the request has a correlation id */
        SEQUENCE_OF_REQUEST /* the request is a sequence of its own */
};

/* Adds a request to its sequence. The request's flags say whether it starts or ends the sequence.
 * Fails with "… must specify the START flag …", or when memory is short. */
struct error *sequence_table_push(struct sequence_table *t, struct request *req,
                                  enum sequence_origin origin, uint64_t now_ns,
                                  struct sequence_outcome *out) NODISCARD;
/* True when the request's id is that of a live sequence. */
bool sequence_table_knows(const struct sequence_table *t, const struct request *req);
/* Ends the sequence with the request's id after the requests that it has. Returns false when there
 * is none. */
bool sequence_table_forget(struct sequence_table *t, const struct request *req,
                           struct sequence_outcome *out);

/* Called when a request from `ready` has ended. was_run is false when it was cancelled before an
 * instance had it. */
void sequence_table_released(struct sequence_table *t, struct request *req, bool was_run,
                             uint64_t now_ns, struct sequence_outcome *out);

/* Gives up this request and the later ones of its sequence, and forgets the id. Earlier requests
 * still run. Returns false when the request does not wait here, but is with its instance. */
bool sequence_table_cancel(struct sequence_table *t, struct request *req, uint64_t now_ns,
                           struct sequence_outcome *out);

/* Ends the sequence after the request that is with its instance: gives up its waiting requests, and
 * forgets the id. For a request that is cancelled and may still be executed. */
void sequence_table_end_after(struct sequence_table *t, struct request *req,
                              struct sequence_outcome *out);

/* For a sequence from `closing`: `req` is its last request, and the owner passes it to the instance. */
void sequence_table_begin_closing(struct sequence_table *t, struct sequence *seq,
                                  struct request *req);
/* Ends a sequence from `closing` for which no request could be made. */
void sequence_table_give_up_closing(struct sequence_table *t, struct sequence *seq,
                                    struct sequence_outcome *out);

/* Ends idle sequences, and gives up requests that timed out in the backlog. */
void sequence_table_expire(struct sequence_table *t, uint64_t now_ns, struct sequence_outcome *out);
/* Returns the next time at which sequence_table_expire() has work; CLOCK_NEVER: none. */
uint64_t sequence_table_next_due(const struct sequence_table *t);

struct sequence_listing {
        uint64_t             now_ns;
        struct sequence_row *rows; /* borrowed */
        size_t               cap;
        size_t               n;
};

/* Adds rows for the sequences that have a slot of the instance, from slot *at on. Returns false when
 * the listing is full or the call has visited as many slots as one may; *at is where to continue. */
bool sequence_table_list_place(struct sequence_listing *l, const struct sequence_place *place,
                               const char *instance, uint32_t *at);
/* Adds rows for the sequences of the backlog that began after *after_ns. Returns false when the
 * listing is full; *after_ns is where to continue. */
bool sequence_table_list_backlog(struct sequence_listing *l, const struct sequence_table *t,
                                 uint64_t *after_ns);
