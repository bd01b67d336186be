/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequences of a model: which are live, where each has its slot, which wait for one, and which
 * request may run next. A data structure with the rules of the reference server's sequence batcher;
 * threads, clocks and instances are those of its user (sched/sequence.h).
 *
 *     START --> slot free?  --yes--> ACTIVE: first request ready, the others one after the other
 *                   '--no--> BACKLOG, in order of arrival --slot released--> ACTIVE
 *     ACTIVE --END, no request for idle_ns, a queued request cancelled--> slot released
 *     BACKLOG --timeout of a request, all requests cancelled--> gone
 *
 * An instance has n_slots slots. The free slot with the lowest number is taken first, and of those
 * the instance's that came first: sequences spread over the instances. One request of a sequence is
 * with its instance at a time; the next one follows when that was released.
 *
 * An id is known from START until END, an end by idleness or a cancellation; from then on it may
 * start another sequence, even while the requests of the first one still wait.
 *
 * Ownership.  Sequences and slots are the table's. A request belongs to the table from
 * sequence_table_push() until an outcome lists it. Outcomes are linked by queued.next.
 * Threads.  The owner's lock.
 */
#pragma once

#include "base/due_heap.h"
#include "base/list.h"
#include "infer/request.h"
#include "sched/sequence_ids.h"

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
        struct sequence_link  link;    /* while its id is known */
        struct list_node      node;    /* in the backlog, or in the list of idle ones */
        struct due            due;     /* in the backlog: when its requests time out */
        struct list           waiting; /* struct request by queued.node, for their turn */
        struct request       *running; /* borrowed: with its instance; NULL: none */
        struct sequence_slot *slot;    /* NULL: in the backlog */
        /* Owned: made and used by who executes its requests. NULL: the model has none, or nothing
         * was executed yet. */
        struct implicit_states *states;
        uint64_t                started_ns; /* of no other the same: in order of their start */
        uint64_t                touched_ns; /* the last request came or was released */
        uint64_t                number;     /* its id, unless it is a text */
        uint32_t                n_waiting;
        uint32_t                running_flags; /* of `running`, as its front end gave them */
        enum sequence_end       reason;
        bool                    is_text;
        bool                    is_known;     /* by its id */
        bool                    is_last;      /* ends after the requests that it has */
        bool                    is_anonymous; /* of one request that came without an id */
        uint32_t                n_text;
        /* As an element of a BYTES tensor: 4 bytes of length, the id, and here a 0. */
        char text[];
};

static inline const char *sequence_text(const struct sequence *seq) {
        return seq->text + sizeof(uint32_t);
}

/* An instance, as the table sees it. */
struct sequence_place {
        struct sequence_slot **slots; /* owned, and each; made when the ones before are taken */
        uint32_t               n_made;
        uint32_t               n_slots;
        uint32_t               order;    /* among the instances, by age */
        uint32_t               n_active; /* slots with a sequence */
        uint32_t               n_top;    /* slots from here on are free */
        bool                   is_leaving;
        void                  *owner;         /* borrowed: the instance */
        bool                   has_untouched; /* the last slot made was never taken */
};

struct sequence_slot {
        struct sequence_place *place;    /* borrowed */
        struct sequence       *sequence; /* NULL: free */
        uint32_t               number;
        /* What its owner needs to run a request of this slot: as many bytes as n_slot_bytes says. */
        char room[] __attribute__((aligned(16)));
};

struct sequence_table {
        struct sequence_ids    ids;
        struct list            backlog;    /* struct sequence, in order of arrival */
        struct list            idle;       /* struct sequence, idle for longest first */
        struct due_heap        dues;       /* of the backlog */
        struct sequence_slot **free_slots; /* owned; a heap: lowest number, then oldest instance */
        size_t                 n_free;
        size_t                 n_made;   /* slots, free or not */
        size_t                 cap_free; /* room for each slot made */
        uint64_t               idle_ns;
        uint32_t               n_slots;      /* of each instance */
        size_t                 n_slot_bytes; /* of `room` in each slot */
        uint32_t               n_places_made;
        void (*init_slot)(struct sequence_table *t, void *room); /* NULL: all zero will do */

        uint64_t n_active;          /* sequences with a slot */
        uint64_t n_backlog;         /* sequences without one */
        uint64_t n_active_requests; /* of sequences with a slot, those running included */
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

/* What follows from a call, for the time after the owner's lock: freeing megabytes is no work to
 * be done under one. */
struct sequence_outcome {
        struct request_list     ready;     /* to their instances: request->sequence->slot->place */
        struct request_list     cancelled; /* to be refused, and so are those that expired */
        struct request_list     expired;
        struct implicit_states *states;       /* a list: of sequences that ended, to be freed */
        bool                    has_conflict; /* a START of an id that is live */
};

void sequence_outcome_init(struct sequence_outcome *out);

/* Without instances. The kernel's random numbers may be missing. */
struct error *sequence_table_init(struct sequence_table *t, uint32_t n_slots, uint64_t idle_ns)
        NODISCARD;
void sequence_table_done(struct sequence_table *t); /* no request is left in it */

/* Instances. Sequences of the backlog get the new slots. */
struct sequence_place *sequence_table_add_place(struct sequence_table *t, void *owner,
                                                struct sequence_outcome *out);
/* Its slots take no new sequences; those that it has go on. */
void sequence_table_retire_place(struct sequence_table *t, struct sequence_place *place);
/* Without a sequence. */
void sequence_table_remove_place(struct sequence_table *t, struct sequence_place *place);

enum sequence_origin {
        SEQUENCE_OF_CLIENT, /* the request has a correlation id */
        SEQUENCE_OF_REQUEST /* the request is a sequence of its own */
};

/* The request's flags say whether it starts or ends a sequence. Refusals: "… must specify the
 * START flag …", or that memory is short. */
struct error *sequence_table_push(struct sequence_table *t, struct request *req,
                                  enum sequence_origin origin, uint64_t now_ns,
                                  struct sequence_outcome *out) NODISCARD;
/* True when the id of the request is that of a live sequence. */
bool sequence_table_knows(const struct sequence_table *t, const struct request *req);
/* That sequence, if there is one, ends after the requests that it has. False: there is none. */
bool sequence_table_forget(struct sequence_table *t, const struct request *req,
                           struct sequence_outcome *out);

/* A request that was `ready` ended. `was_run`: false: it was cancelled before an instance had it. */
void sequence_table_released(struct sequence_table *t, struct request *req, bool was_run,
                             uint64_t now_ns, struct sequence_outcome *out);

/* It and the later ones of its sequence are given up, and the id is forgotten; earlier ones still
 * run. False: it does not wait here: it is with its instance. */
bool sequence_table_cancel(struct sequence_table *t, struct request *req, uint64_t now_ns,
                           struct sequence_outcome *out);

/* Ends what is idle, gives up what timed out in the backlog. */
void sequence_table_expire(struct sequence_table *t, uint64_t now_ns, struct sequence_outcome *out);
/* When that has something to do next; CLOCK_NEVER. */
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
