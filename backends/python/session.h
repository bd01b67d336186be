/* SPDX-License-Identifier: BSD-3-Clause */
/* One life of a stub: its process, and the memory that is shared with it.
 *
 * An instance has a session at a time, and gets another when the process has crashed. Calls to other
 * models that a stub began hold their session, whose memory they read and write; so it may outlive
 * both the process and the instance.
 *
 * Ownership.  Counted.
 * Threads.  session_is_over() and session_wake() from any thread.
 */
#pragma once

#include "python/model.h"
#include "python/region.h"

enum session_mode {
        SESSION_SERVE,
        SESSION_COMPLETE, /* calls auto_complete_config() and ends */
};

struct session {
        atomic_uint         n_users;
        struct region       region;
        struct stub_process process;
        const char         *name;           /* borrowed while it runs: the instance's */
        atomic_bool         is_over;        /* the process has ended */
        atomic_bool         is_called;      /* the receiver is to look, whatever it sleeps for */
        bool                is_known;       /* the stub has attached; its user's */
        uint32_t            execution_tail; /* entries written; its user's */
        _Atomic uint32_t    message_head;   /* entries read */
};

struct session_options {
        struct model     *model;
        const char       *name; /* of the instance */
        const char       *kind; /* "CPU", ... */
        int32_t           device;
        enum session_mode mode;
};

/* Starts the process; it has not attached yet. */
TRITONSERVER_Error *session_start(const struct session_options *options, struct session **ret);
void                session_ref(struct session *s);
void                session_unref(struct session *s);

static inline bool session_is_over(const struct session *s) {
        return atomic_load(&s->is_over) || atomic_load(&s->region.is_broken);
}

/* Kills the process if it still runs, and waits for its end. */
void session_end(struct session *s);
/* Waits for the end; false when it did not come in time. */
bool session_wait(struct session *s, uint64_t timeout_ns);

/* Hands an entry to the stub. There is room: at most SHM_MAX_DEPTH are under way. */
void session_push(struct session *s, const struct shm_execution *execution);
/* After it. The caller holds no lock: on a shared core the stub runs before this returns. */
void session_wake_stub(struct session *s);

/* The next message of the stub; false when there is none. */
bool session_next(struct session *s, struct shm_message *ret);
bool session_has_message(const struct session *s);
/* Sleeps until a message comes that is for this sleeper (&header->receiver_sleep or
 * &header->executor_sleep), or the process ends, or `timeout_ns` is over, or the sleeper is woken for
 * `until`, which may be NULL; not at all when that is true. */
void session_sleep(struct session *s, _Atomic uint32_t *word, enum shm_sleep depth,
                   uint64_t timeout_ns, const atomic_bool *until);

/* Wakes the receiver. */
void session_call_receiver(struct session *s);

/* A block of the stub that was read goes back to it. */
void session_return(struct session *s, uint32_t block);
