/* SPDX-License-Identifier: BSD-3-Clause */
/* An instance of a model: the stub that runs it, the requests it has, and the threads that serve it.
 *
 *     Execute     writes requests into the region, offers the execution to the stub, and waits for its
 *                 end, or, in pipelined instances, only for room
 *     receiver    a thread per instance: reads the stub's messages, starts and restarts the process
 *
 * Whoever reads messages holds the *reader's role* (is_reading): the receiver, or a thread in Execute
 * that waits for its result, so that such a result costs one wake-up. What the role guards needs no
 * lock, and no lock is held while the server is called.
 *
 *     STARTING -> SERVING -> STOPPING
 *        |         |   ^
 *        v         v   |
 *      FAILED <- RESTARTING    FAILED: no process, and none is to come
 *
 * Ownership.  Requests belong to the instance from Execute until they are released. An entry is a
 * request under way, or one that was released and has responses to come.
 * Threads.  `lock` guards what is marked so.
 */
#pragma once

#include "python/model.h"
#include "python/session.h"
#include "python/shm_slot.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum instance_state {
        INSTANCE_STARTING,
        INSTANCE_SERVING,
        INSTANCE_RESTARTING,
        INSTANCE_FAILED,
        INSTANCE_STOPPING,
};

struct entry {
        TRITONBACKEND_Request         *request; /* owned; NULL: released */
        TRITONBACKEND_ResponseFactory *factory; /* owned; NULL: not needed yet */
        struct instance               *instance;
        uint32_t                       handle;
        uint32_t                       block;    /* in the region; the stub releases it */
        bool                           is_used;  /* under the instance's lock */
        bool                           is_final; /* the last response was sent */
        bool                           is_executing;
        bool                           is_ended; /* freed with its execution */
};

struct execution {
        struct execution *next; /* in the list of those under way, or of spare ones */
        uint32_t          slot;
        uint32_t          generation;
        uint32_t          block; /* struct shm_batch; 0: none, it has one request */
        uint32_t          n_entries;
        uint32_t          capacity; /* of entries */
        uint64_t          begin_ns;
        bool              is_waited; /* by its thread in Execute */
        atomic_bool       is_done;
        bool              is_taken_back; /* the stub that it was offered to is no more */
        struct entry     *entries[];     /* borrowed: the instance; NULL once ended */
};

struct instance {
        TRITONBACKEND_ModelInstance *triton;
        struct model                *model;
        const char                  *name;
        const char                  *kind; /* "CPU" */
        int32_t                      device;
        bool                         has_ready_check; /* the model has is_ready() */
        bool                         is_concurrent;   /* its executions overlap */
        struct instance             *next;            /* in the model's list; the backend's lock */
        struct model *waits_for; /* a model that its execution calls; the same lock */

        pthread_mutex_t             lock;
        pthread_cond_t              changed; /* monotonic clock; any field below */
        pthread_t                   receiver;
        enum instance_state         state;
        struct session             *session;           /* ref; NULL when there is no process */
        TRITONSERVER_Error         *start_error;       /* owned; of the last start */
        bool                        is_reading;        /* a thread reads the messages of the stub */
        bool                        is_started;        /* the session's model is loaded */
        bool                        is_writing_stacks; /* the process was asked to */
        struct execution           *first, **last;     /* under way, oldest first */
        uint32_t                    n_executions;
        struct execution           *spare;                  /* owned: have ended, for one entry */
        _Atomic(struct execution *) by_slot[SHM_MAX_DEPTH]; /* those that were offered */
        uint32_t                    generations[SHM_MAX_DEPTH];
        struct entry              **entries; /* owned, each */
        uint32_t                    n_entries;
        uint32_t                    free_entries_head; /* index; SHM_NO_INDEX */
        uint32_t                   *next_free;         /* of each entry */

        _Atomic uint32_t   depth; /* executions under way at most, by the length of the last ones */
        struct infer_call *calls; /* to other models, under way */

        bool            has_lazy_messages; /* since the last sleep; the reader's */
        uint64_t        answered_ns;       /* the last result, by the clock; the reader's */
        uint64_t        average_ns;        /* of an execution in the stub; the reader's */
        struct metrics *metrics;           /* owned; services.h; the reader's */

        /* The receiver's. */
        bool     is_to_serve;
        uint64_t started_ns;       /* the process */
        uint64_t told_ns;          /* that it still starts */
        uint64_t healthy_since_ns; /* 0: never */
        uint64_t delay_ns;         /* before the next restart */
        unsigned n_lost_starts;    /* processes in a row that were killed before they served */
};

/* Text of INTERNAL errors when the process is gone. */
TRITONSERVER_Error *instance_unhealthy(const struct instance *in);

/* ---- instance.c: life ---- */
TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *triton, struct model *model,
                                 struct instance **ret);
void                instance_free(struct instance *in);
TRITONSERVER_Error *instance_is_ready(struct instance *in);

/* ---- entries.c: requests under way ---- */
/* An entry for a request that the instance takes over; NULL when memory is short. */
struct entry *entry_new_locked(struct instance *in, TRITONBACKEND_Request *request);
/* NULL when the handle is of no entry, or one that has ended. */
struct entry *entry_find(struct instance *in, uint32_t handle);
void          entry_free(struct entry *e);
/* The same in two steps, for entries of an execution that ends. */
void entry_end(struct entry *e);
void entry_free_locked(struct entry *e);
/* Answers with `err` (the caller's) as the last response, unless that was sent. */
void entry_fail(struct entry *e, TRITONSERVER_Error *err);
/* The factory for responses that may come after the release. */
TRITONSERVER_Error *entry_open(struct entry *e);
/* Gives the request back; the entry stays until its last response. */
void entry_release(struct entry *e, uint32_t flags);

/* ---- execution.c: executions ---- */
TRITONSERVER_Error *execution_run(struct instance *in, TRITONBACKEND_Request **requests,
                                  uint32_t n_requests);
/* The reader's: a message SHM_RESULT, SHM_SEND, SHM_CLOSED. */
void execution_on_result(struct instance *in, const struct shm_message *message);
void execution_on_send(struct instance *in, const struct shm_message *message);
void execution_on_closed(struct instance *in, const struct shm_message *message);
/* After the end of a process: fails what it had begun, and leaves the rest to be offered again.
 * With `all`, nothing is left. */
void execution_recover(struct instance *in, bool all);
/* To a new process. */
void execution_offer_again(struct instance *in);

/* ---- reader.c: messages ---- */
/* Handles what there is. The caller has the role. */
void reader_drain(struct instance *in);

/* Takes the role, waiting for it; and gives it up. */
void reader_enter_locked(struct instance *in);
void reader_leave_locked(struct instance *in);
