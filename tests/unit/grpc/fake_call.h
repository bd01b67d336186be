/* SPDX-License-Identifier: BSD-3-Clause */
/* A call of the tests' own: the functions of grpc_call.h, shadowing those of the transport. What
 * methods send is kept, and mails are delivered when the test says so.
 *
 * One call at a time, on one thread.
 */
#pragma once

#include "base/strbuf.h"
#include "call/infer_call.h"
#include "call/service.h"
#include "grpc/grpc_call.h"
#include "net/loop_timer.h"

#include <stdbool.h>
#include <stddef.h>

struct fake_call {
        struct grpc_call   call;
        struct service     service;
        struct infer_core  core;         /* the test opens and closes it; zero = no inference */
        struct strbuf      messages[64]; /* what was sent */
        size_t             n_messages;
        bool               is_concluded; /* the client has its status, the call goes on */
        unsigned           n_finished;   /* must become 1 */
        enum grpc_code     code;
        struct strbuf      text;
        bool               asks_to_retry; /* the trailers have "retry-after" */
        bool               is_paused;
        unsigned           n_pauses, n_resumes;
        grpc_call_fn       on_send;   /* NULL; called within grpc_call_send() */
        bool               is_slow;   /* the client: what is sent waits */
        size_t             n_sent;    /* bytes */
        size_t             n_written; /* of these, when it is slow; the test's to say */
        struct loop_work  *work;      /* offloaded and not yet run */
        bool               wants_packing;
        bool               delivers_first; /* what work has posted comes before its end */
        struct loop_timer *timer;          /* the one that is armed */
        bool               has_no_timers;  /* no memory for any */
        size_t             max_charged;    /* by grpc_call_charge(); 0 = no limit */
        size_t             n_charged;      /* must be 0 in the end */
};

extern struct fake_call fake_call;

void fake_call_init(void);
/* Checks that the call was finished exactly once. */
void fake_call_done(void);

/* Delivers everything that was posted, and what that posts. */
void fake_call_deliver(void);
/* Fires the timer. */
void fake_call_let_time_pass(void);
/* Runs what was offloaded, and its end. */
void fake_call_run_work(void);

/* A method's on_message, with the bytes in a counted buffer of exactly their size. */
void fake_call_read(grpc_message_fn on_message, struct str message);
