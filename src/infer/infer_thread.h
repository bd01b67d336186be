/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread remembers between the inferences that it submits, runs and answers.
 *
 * Inline execution.  A thread that allows it runs a small model's batch where it submits the request
 * ("run to completion", sched/pull_engine.h). `depth` counts its nested executions. An event is one
 * outermost execution with all continuations that follow from it; the batches of one event have a
 * common time limit.
 *
 * Continuations.  A response callback may start another inference (the next step of a pipeline). It
 * must not run that inference inside the first model's execution: the stack would grow, and the first
 * instance would stay busy. So it defers the start as a continuation. The thread runs its
 * continuations in order, in one loop at the outermost level, after the instance is idle again and
 * with no lock held.
 *
 * Deferred wake-ups.  An event loop often reads many requests at once. If it woke an idle instance for
 * the first of them, the instance would run that request alone; on a shared core even before the loop
 * reads the second. So a loop defers the wake-ups of one round and makes them at its end
 * (infer_thread_flush_wakes()); the instance then finds all requests and forms one batch. A single
 * request is not delayed, since the round ends right after it. After SUBMITTER_DEFER_NS a round defers
 * no more wake-ups. When the deferred wake-up is due, a scheduler may also run the batch on this
 * thread instead of waking an instance (struct pull_options, batches_at_flush).
 *
 * Series of responses.  When a backend answers a batch, the response callbacks run one after the
 * other, and each may have to wake a loop: on a shared core the loop would run at once, find one
 * answer, and wait again. So the backend marks the beginning and the end of a series of responses
 * (NESO_ThreadBeginResponses()), and a callback may ask for a call at its end, to wake the loop once
 * for all answers. Only wake-ups are deferred, never responses. All open series end when an execution
 * begins and when it ends on this thread; before the thread waits for room for a response, it makes
 * the calls.
 *
 * Ownership.  A deferred wake-up holds a reference to its model, and thereby the scheduler. A
 * continuation belongs to its caller until it runs.
 * Threads.  All state belongs to the calling thread. No lock may be held, except in
 * infer_thread_defer_wake().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model;
struct infer_thread;

/* Reading and submitting a small request takes about 5 us: this is the time for a dozen requests. */
#define SUBMITTER_DEFER_NS UINT64_C(60000)

/* The state of the calling thread, valid as long as the thread. The lookup costs more than the
 * functions below, so a caller of several should do it once. */
struct infer_thread *infer_thread_self(void);

/* ---- inline execution ---- */

/* Allows the calling thread to run batches that it submits, and with them the callbacks of their
 * requests; a caller that submits under a lock and takes the same lock in a callback would deadlock.
 * Initially off for each thread. Returns the previous value. */
bool infer_thread_allow_inline(bool allow);
bool infer_thread_allows_inline(const struct infer_thread *s);

/* True when the thread may run a batch whose moving average is `average_ns` within the submission. The
 * thread must be outside any execution. It must allow inline execution; for the request of a step
 * (`is_step`) it is enough that it runs continuations with runs_steps. All batches that one event
 * causes on this thread must together take less than `limit_ns`. */
bool infer_thread_may_run(const struct infer_thread *s, uint64_t average_ns, uint64_t limit_ns,
                          bool is_step);
bool infer_thread_is_executing(const struct infer_thread *s);
/* True while the thread runs continuations, outside any execution. */
bool infer_thread_is_continuing(const struct infer_thread *s);

/* To be called around each execution on this thread. `spends_ns`: the average duration of the batch,
 * which counts towards the event's limit. */
void infer_thread_enter_execution(struct infer_thread *s, uint64_t spends_ns);
/* `end_ns`: the time at which the execution ended. True: the caller must call infer_thread_continue()
 * after it has returned the instance. */
bool infer_thread_leave_execution(struct infer_thread *s, uint64_t end_ns);

/* ---- continuations ---- */

struct continuation {
        void (*run)(struct continuation *c);
        struct continuation *next;
};

/* Starts continuations, linked by `next` and ended by NULL: defers them, or runs them here when the
 * thread is outside any execution and runs none yet. The stack stays flat in either case. `now_ns`: a
 * recent time, 0 when the caller has not read the clock. */
void infer_thread_start(struct continuation *first, uint64_t now_ns);
/* As infer_thread_start(), but runs them now, even inside an execution: for steps that the responses of a
 * decoupled model start, and for a caller that waits for the result inside an execution. A nested call
 * leaves them to the outermost call, so the stack stays flat here as well. */
void infer_thread_start_now(struct continuation *first);
/* Runs the deferred continuations, including those that are deferred meanwhile. To be called after the
 * instance was returned. A nested call leaves them to the outermost call. `runs_steps`: the thread may
 * run batches of steps inline, even if it does not allow inline execution for requests of clients. */
void infer_thread_continue(struct infer_thread *s, bool runs_steps);
/* The time at which the execution before the running continuation ended, to save reading the clock
 * (about 20 ns; a step of the benchmark of ensembles takes 300 ns). 0: the thread runs no
 * continuation, or infer_thread_forget_time() was called. */
uint64_t infer_thread_recent_time(const struct infer_thread *s);
/* infer_thread_recent_time(), or the clock when that is 0. */
uint64_t infer_thread_now(const struct infer_thread *s);
/* The time is at least `now_ns`. To be called when a continuation does what was begun at that time. */
void infer_thread_is_past(struct infer_thread *s, uint64_t now_ns);
/* To be called after work that takes microseconds, which makes the remembered time too old. */
void infer_thread_forget_time(struct infer_thread *s);

/* ---- deferred wake-ups ---- */

typedef void (*infer_thread_wake_fn)(void *scheduler);

/* True: the next flush calls `wake(scheduler)`, once for each scheduler however often it was deferred.
 * False: this thread defers nothing, or has no room; the caller wakes the instance itself. */
bool infer_thread_defer_wake(struct infer_thread *s, void *scheduler, struct model *model,
                             infer_thread_wake_fn wake);
/* Flushes when the oldest deferred wake-up is older than SUBMITTER_DEFER_NS. */
void infer_thread_check_wakes(struct infer_thread *s, uint64_t now_ns);
/* Makes all deferred wake-ups. A thread defers wake-ups only after its first call; from then on it
 * must call this function before each wait. */
void infer_thread_flush_wakes(void);

/* ---- series of responses ---- */

typedef void (*infer_thread_call_fn)(void *userp);

/* Series nest; the end of the outermost one makes the calls. An end without a beginning is ignored. */
void infer_thread_begin_responses(void);
void infer_thread_end_responses(void);
/* Ends all open series: before an execution, and after it those that a plug-in left open. */
void infer_thread_end_all_responses(void);
/* Makes the calls now; the series stays open. To be called before this thread waits. */
void infer_thread_flush_calls(void);
/* True: `call(userp)` runs on this thread when the outermost series ends, as often as it was
 * requested, or earlier when there are many such requests. False: no series is open, or there is no
 * room; the caller makes the call itself. */
bool infer_thread_call_after_responses(infer_thread_call_fn call, void *userp);
