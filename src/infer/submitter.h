/* SPDX-License-Identifier: BSD-3-Clause */
/* State of one thread across the inferences that it submits, runs and answers.
 *
 * Inline execution.  A thread that allows it runs a small model's batch where it submits the request
 * ("run to completion", sched/pull_engine.h). `depth` counts its nested executions.
 *
 * Continuations.  A completion that starts another inference (the next step of a pipeline) must not run
 * it inside the first model's execution: the stack would grow, and the first instance would stay
 * occupied. It defers the start; the thread continues with it once the instance was given back and no
 * lock is held. One loop at the outermost level runs the continuations in order, so the stack stays
 * flat.
 *
 * Deferred wake-ups.  An event loop often finds many requests at once. If the first of them wakes an
 * idle instance, the instance runs that one alone, on a shared core even before the loop reads the
 * second. So a thread that promises to flush before it waits (submitter_flush_wakes() at the end of
 * each round of its loop) may submit a few requests first; the instance then finds them all and forms
 * one batch. A single request is not delayed: the round ends right after it. A round that takes longer
 * than SUBMITTER_DEFER_NS defers no more wake-ups. A scheduler may use the call to run a batch on this
 * thread instead of waking an instance (struct pull_options, gathers).
 *
 * Rows of answers.  When a backend answers a whole batch, the receivers of its responses are called one
 * after the other, and each may have to wake another thread: on a shared core that thread runs at once,
 * finds one answer, and waits again. So the backend marks the beginning and the end of the row, and a
 * receiver may ask for a call after the end, to wake once for all answers. Only wake-ups are deferred,
 * never responses. An execution ends the rows of its thread when it begins and when it ends, and a
 * thread makes the calls before it waits for room for a response.
 *
 * Ownership.  A deferred wake-up holds a reference to its model, and thereby the scheduler. A
 * continuation belongs to its caller until it runs.
 * Threads.  All state belongs to the calling thread. No lock may be held, except in
 * submitter_defer_wake().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model;
struct submitter;

/* Reading and submitting a small request takes about 5 us: this is the time for a dozen requests. */
#define SUBMITTER_DEFER_NS UINT64_C(60000)

/* The state of the calling thread, valid as long as the thread. The lookup costs more than the
 * functions below, so a caller of several should do it once. */
struct submitter *submitter_self(void);

/* ---- inline execution ---- */

/* Allows the calling thread to run batches that it submits, and with them the callbacks of their
 * requests; a caller that submits under a lock and takes the same lock in a callback would deadlock.
 * Initially off for each thread. Returns the previous value. */
bool submitter_allow_inline(bool allow);

/* True when the thread may run, within the submission, a batch that takes `average_ns` by a moving
 * average. The thread must be outside any execution and allow it (or be running continuations with
 * runs_steps: `is_step` marks a step's request), and all batches that one event runs here must take
 * less than the limit. */
bool submitter_may_run(const struct submitter *s, uint64_t average_ns, uint64_t limit_ns,
                       bool is_step);
bool submitter_is_executing(const struct submitter *s);

/* To be called around each execution on this thread; `spends_ns` counts towards the event's limit. */
void submitter_enter_execution(struct submitter *s, uint64_t spends_ns);
/* `end_ns`: a recent time. True: continuations are to be run once the instance was given back. */
bool submitter_leave_execution(struct submitter *s, uint64_t end_ns);

/* ---- continuations ---- */

struct continuation {
        void (*run)(struct continuation *c);
        struct continuation *next;
};

/* True: `c` runs later on this thread. False: the thread is outside any execution and runs no
 * continuation, so the caller proceeds itself. */
bool submitter_defer(struct continuation *c);
/* Starts continuations, linked by `next` and ended by NULL: defers them, or runs them here when the
 * thread is outside any execution and runs none yet. The stack stays flat in either case. `now_ns`: a
 * recent time, 0 when the caller has not read the clock. */
void submitter_start(struct continuation *first, uint64_t now_ns);
/* As submitter_start() without deferring: for continuations that must run during this execution (the
 * steps that responses of a decoupled model begin), or for a caller that waits for the result inside an
 * execution. A nested call leaves them to the outermost one, so the stack stays flat here as well. */
void submitter_start_now(struct continuation *first);
/* Runs the deferred continuations after the instance was given back, including those deferred
 * meanwhile. A nested call leaves them to the outermost one. `runs_steps`: a thread that does not allow
 * inline execution may run the batches of steps itself, not those of clients. */
void submitter_continue(struct submitter *s, bool runs_steps);
/* The time at which the running continuation began: the end of the execution before it. 0: the thread
 * runs none, or submitter_forget_time() was called. This saves reading the clock, about 20 ns; a step of
 * `make bench`, ensembles, takes 300. */
uint64_t submitter_recent_time(const struct submitter *s);
/* submitter_recent_time(), or the clock when that is 0. */
uint64_t submitter_now(const struct submitter *s);
/* To be called after work of microseconds: submitter_recent_time() is no longer valid. */
void submitter_forget_time(struct submitter *s);

/* ---- deferred wake-ups ---- */

typedef void (*submitter_wake_fn)(void *scheduler);

/* False: this thread defers nothing, or has no room; the caller wakes at once. Otherwise the next flush
 * calls `wake(scheduler)`, once however often it was deferred. */
bool submitter_defer_wake(struct submitter *s, void *scheduler, struct model *model,
                          submitter_wake_fn wake);
/* Flushes when the oldest deferred wake-up is older than SUBMITTER_DEFER_NS. */
void submitter_check_wakes(struct submitter *s, uint64_t now_ns);
/* Makes all deferred wake-ups. With its first call a thread promises to call again before each wait. */
void submitter_flush_wakes(void);

/* ---- rows of answers ---- */

typedef void (*submitter_call_fn)(void *userp);

/* Rows nest; the outermost end makes the calls. An end without a beginning is ignored. */
void submitter_begin_responses(void);
void submitter_end_responses(void);
/* Ends all open rows: those that a plug-in left open, and before an execution. */
void submitter_end_all_responses(void);
/* Makes the calls now and keeps the row open: before this thread waits. */
void submitter_flush_calls(void);
/* True: `call(userp)` runs on this thread when the row ends, as often as it was requested, or earlier
 * when there are many requests. False: there is no row, or no room; the caller calls at once. */
bool submitter_call_after_responses(submitter_call_fn call, void *userp);
