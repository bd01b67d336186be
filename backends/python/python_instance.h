/* SPDX-License-Identifier: BSD-3-Clause */
/* An instance of a model: the stub that runs it, its requests, and the threads that serve it.
 *
 *     Execute     writes requests into the region, offers the execution to the stub, and waits for its
 *                 end, or, in pipelined instances, only for room
 *     receiver    one thread per instance: reads the stub's messages, starts and restarts the process
 *
 * The thread that reads messages holds the *reader's role* (is_reading). It is the receiver, or a
 * thread in Execute that waits for its result, so that this result costs one wake-up. Fields that
 * the role guards need no lock, and no lock is held during calls of the server.
 *
 *     STARTING -> SERVING -> STOPPING
 *        |         |   ^
 *        v         v   |
 *      FAILED <- RESTARTING    FAILED: no process runs, and none will start
 *
 * Ownership.  Requests belong to the instance from Execute until their release. An entry is a
 * request under way, or a released request with responses to come.
 * Threads.  `lock` guards the fields that say so.
 */
#pragma once

#include "python/python_model.h"
#include "python/python_session.h"
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

struct NESO_CancelWatch;
struct hold;
struct wait;

struct entry {
        TRITONBACKEND_Request         *request; /* owned; NULL: released */
        TRITONBACKEND_ResponseFactory *factory; /* owned; NULL: not created */
        struct NESO_CancelWatch       *watch;   /* owned; NULL: no call was made on its behalf */
        atomic_bool                    is_cancelled; /* set by the watch */
        struct instance               *instance;
        struct hold *hold; /* of its inputs on GPUs (holds.h), guarded by the instance's
                                              * lock; NULL: none */
        uint32_t     handle;
        uint32_t     block;    /* in the region; the stub releases it */
        bool         is_used;  /* guarded by the instance's lock */
        bool         is_final; /* the last response was sent */
        bool         is_executing;
        bool         is_ended; /* to be freed with its execution */
};

struct execution {
        struct execution *next; /* in the list of executions under way, or of spare ones */
        uint32_t          slot;
        uint32_t          generation;
        uint32_t          block; /* struct shm_batch; 0: none, when there is one request */
        uint32_t          n_entries;
        uint32_t          capacity; /* room for entries */
        uint64_t          begin_ns;
        bool              is_waited; /* a thread in Execute waits for it */
        atomic_bool       is_done;
        bool              is_taken_back; /* the stub that it was offered to has ended */
        struct entry     *entries[];     /* borrowed from the instance; NULL once ended */
};

struct instance {
        TRITONBACKEND_ModelInstance *triton;
        struct model                *model;
        const char                  *name;
        const char                  *kind; /* "CPU" */
        int32_t                      device;
        bool                         has_ready_check; /* the model has is_ready() */
        bool                         is_concurrent;   /* its executions overlap */
        bool                         has_own_queue;   /* execute() returns when it can take more */
        struct instance             *next;            /* in the model's list; guarded by the
                                                       * backend's lock */
        _Atomic(struct wait *) waits; /* of its calls (waits.h); changed with the backend's lock */

        pthread_mutex_t             lock;
        pthread_cond_t              changed; /* on the monotonic clock; signals changes of the
                                              * fields below */
        pthread_t                   receiver;
        enum instance_state         state;
        struct session             *session;           /* ref; NULL when there is no process */
        TRITONSERVER_Error         *start_error;       /* owned; of the last start */
        bool                        is_reading;        /* a thread reads the messages of the stub */
        bool                        has_attached;      /* the process that ended last */
        bool                        is_started;        /* the session's model is loaded */
        bool                        is_writing_stacks; /* the process was asked for its stacks */
        bool                        is_writing;    /* a thread writes requests into the region */
        struct execution           *first, **last; /* under way, oldest first */
        uint32_t                    n_executions;
        struct execution           *spare;                  /* owned; executions that have ended,
                                                             * with room for one entry */
        _Atomic(struct execution *) by_slot[SHM_MAX_DEPTH]; /* offered executions */
        uint32_t                    generations[SHM_MAX_DEPTH];
        struct entry              **entries; /* owned, each */
        uint32_t                    n_entries;
        uint32_t                    free_entries_head; /* index; SHM_NO_INDEX */
        uint32_t                   *next_free;         /* for each entry */

        _Atomic uint32_t depth; /* limit of executions under way, by the length of recent ones */
        struct bls_call *calls; /* calls to other models under way */
        struct hold     *holds; /* inputs on GPUs that the stub may have open */

        bool            has_warned_of_output; /* that the configuration lacks; the reader's role */
        bool            has_lazy_messages; /* since the receiver's last sleep; the reader's role */
        uint64_t        answered_ns;       /* time of the last result; the reader's role */
        uint64_t        average_ns;        /* average length of an execution in the stub; the
                                            * reader's role */
        struct metrics *metrics;           /* owned (services.h); the reader's role */

        /* Used by the receiver only. */
        bool     must_serve;
        bool     naps;             /* messages came that wake nothing */
        uint64_t started_ns;       /* when the process was started */
        uint64_t logged_ns;        /* when it was logged that it still starts */
        uint64_t healthy_since_ns; /* 0: never */
        uint64_t delay_ns;         /* delay before the next restart */
        unsigned n_lost_starts;    /* processes in a row that were killed during their start */
};

/* The INTERNAL error of requests whose process has ended. */
TRITONSERVER_Error *instance_unhealthy(const struct instance *in);

/* ---- python_instance.c: life ---- */
TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *triton, struct model *model,
                                 struct instance **ret);
void                instance_free(struct instance *in);
TRITONSERVER_Error *instance_is_ready(struct instance *in);

/* ---- entries.c: requests under way ---- */
/* Creates an entry for a request, which the instance takes; NULL when memory is short. */
struct entry *entry_new_locked(struct instance *in, TRITONBACKEND_Request *request);
/* Returns NULL when no entry has the handle, or when the entry has ended. */
struct entry *entry_find(struct instance *in, uint32_t handle);
struct entry *entry_find_locked(const struct instance *in, uint32_t handle);
void          entry_free(struct entry *e);
/* The same in two steps, for the entries of an execution that ends. */
void entry_end(struct entry *e);
void entry_free_locked(struct entry *e);
/* Sends `err` (the caller's) as the last response, unless the last response was sent. */
void entry_fail(struct entry *e, TRITONSERVER_Error *err);
/* Creates the factory for responses that may follow the release. */
TRITONSERVER_Error *entry_open(struct entry *e);
/* Creates a response of the request, or of the factory. */
TRITONSERVER_Error *entry_respond(struct entry *e, TRITONBACKEND_Response **ret);
/* Releases the request; the entry stays until its last response. */
void entry_release(struct entry *e, uint32_t flags);

/* ---- execution.c: executions ---- */
/* Writes the requests and offers them to the stub, as soon as the instance has room. Sets *ret to the
 * execution when the caller must wait for its end (reader_wait()), or to NULL: the receiver ends it, or
 * it has ended. */
TRITONSERVER_Error *execution_start(struct instance *in, TRITONBACKEND_Request **requests,
                                    uint32_t n_requests, struct execution **ret);
/* Executions with room for one request are kept for reuse; there are never more of them than were
 * under way at one time. */
void execution_free_locked(struct instance *in, struct execution *ex);
/* Handle the messages SHM_RESULT, SHM_SEND and SHM_CLOSED; called with the reader's role. */
void execution_on_result(struct instance *in, const struct shm_message *message);
void execution_on_send(struct instance *in, const struct shm_message *message);
void execution_on_closed(struct instance *in, const struct shm_message *message);
/* After the end of a process: fails the executions that it had begun; the others will be offered
 * again. With `all`, fails all. */
void execution_recover(struct instance *in, bool all);
/* Offers the remaining executions to a new process. */
void execution_offer_again(struct instance *in);

/* ---- reader_role.c: who reads messages ---- */
/* Waits for the reader's role and takes it; releases it. */
void reader_enter_locked(struct instance *in);
void reader_leave_locked(struct instance *in);

/* Returns the memory and the addresses that no block uses to the system, unless a thread writes a request.
 * Returns false when no addresses were returned. The caller has no role and no lock. */
bool reader_shrink(struct instance *in, struct session *s);

/* ---- reader.c: messages ---- */
/* Handles all messages that are there. The caller has the reader's role. */
void reader_drain(struct instance *in);

/* Waits for the end of an execution and frees it. Takes the role while no other thread has it, so that
 * the result costs one wake-up. */
void reader_wait(struct instance *in, struct execution *ex);
