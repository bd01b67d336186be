/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of a stub: its process, and the memory that is shared with it.
 *
 * An instance has one session at a time, and another one after the process has crashed. Calls to
 * other models that a stub began hold their session, whose memory they read and write, so a session
 * may outlive both the process and the instance.
 *
 * Ownership.  Counted.
 * Threads.  session_is_over(), session_wake_stub() and session_call_receiver() from any thread.
 */
#pragma once

#include "python/python_model.h"
#include "python/region.h"

enum session_mode {
        SESSION_SERVE,
        SESSION_COMPLETE, /* calls auto_complete_config() and ends */
};

struct session {
        atomic_uint         n_users;
        struct region       region;
        struct stub_process process;
        const char         *name;      /* borrowed from the instance while the process runs */
        atomic_bool         is_over;   /* the process has ended */
        atomic_bool         is_called; /* the receiver must not sleep, or must wake up */
        bool                is_known;  /* the stub has attached; written by the session's user */
        uint32_t            execution_tail; /* entries written; written by the session's user */
        _Atomic uint32_t    message_head;   /* entries read */
};

struct session_options {
        struct model     *model;
        const char       *name; /* of the instance */
        const char       *kind; /* "CPU", ... */
        int32_t           device;
        enum session_mode mode;
};

/* Starts the process; it attaches later. */
TRITONSERVER_Error *session_start(const struct session_options *options, struct session **ret);
void                session_ref(struct session *s);
void                session_unref(struct session *s);

static inline bool session_is_over(const struct session *s) {
        return atomic_load(&s->is_over) || atomic_load(&s->region.is_broken);
}

/* Kills the process if it still runs, and waits for its end. */
void session_end(struct session *s);
/* Waits for the end; returns false when the time is over. */
bool session_wait(struct session *s, uint64_t timeout_ns);

/* Pushes an entry to the stub. There is always room, since at most SHM_MAX_DEPTH are under way. */
void session_push(struct session *s, const struct shm_execution *execution);
/* Wakes the stub after a push. The caller holds no lock: on a shared core the stub runs before this
 * returns. */
void session_wake_stub(struct session *s);

/* Reads the next message of the stub; returns false when there is none. Maps segments that the stub
 * offers. */
bool session_next(struct session *s, struct shm_message *ret);
bool session_has_message(const struct session *s);
/* Sleeps until a message for this sleeper comes (&header->receiver_sleep or
 * &header->executor_sleep), the process ends, `timeout_ns` is over, or another thread wakes the
 * sleeper after it set `until`, which may be NULL. Does not sleep when `until` is already true. */
void session_sleep(struct session *s, _Atomic uint32_t *word, enum shm_sleep depth,
                   uint64_t timeout_ns, const atomic_bool *until);

/* Wakes the receiver. */
void session_call_receiver(struct session *s);

/* Returns a block to the stub after it was read. */
void session_return(struct session *s, uint32_t block);
