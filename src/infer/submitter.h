/* SPDX-License-Identifier: BSD-3-Clause */
/* What one thread keeps between the inferences that it submits, runs and answers.
 *
 * Running batches itself.  A thread that allows it runs a small model's batch where it submits the
 * request ("run to completion", sched/pull_engine.h). `depth` counts the executions it is inside of.
 *
 * Continuations.  A completion that starts another inference (the next step of a pipeline) must not
 * run it inside the first model's execution: the stack would grow, and the first instance would
 * stay taken. It puts the start off; the thread continues with it once the instance was given back
 * and no lock is held. One loop at the outermost level runs them in order, so the stack stays flat.
 *
 * Deferred wake-ups.  An event loop often finds many requests at once. Waking an idle instance for
 * the first of them makes it run that one alone, on a shared core even before the loop reads the
 * second. So a thread that promises to ask before it waits (submitter_flush_wakes() at the end of
 * each round of its loop) may submit a few requests first; the instance then finds them all and
 * makes one batch. A lone request is not delayed: the round ends right after it. A round that takes
 * longer than SUBMITTER_DEFER_NS does not defer anything any longer. A scheduler may use the call to
 * run a batch here instead of waking anybody (struct pull_options, gathers).
 *
 * Rows of answers.  A backend that answers a whole batch has the receivers of all its responses
 * called one after the other, and each may have another thread to wake: on a shared core that
 * thread runs at once, finds one answer, and waits again. So the backend marks where the row begins
 * and ends, and a receiver may ask to be called after its end, to wake once for all that came. What
 * waits is a wake-up, never a response. An execution ends the rows of its thread when it begins and
 * when it ends, and a thread that waits for room for a response makes the calls first.
 *
 * Ownership.  A deferred wake-up keeps a reference to its model, and with it the scheduler. A
 * continuation is its caller's until it runs.
 * Threads.  Everything here belongs to the calling thread. No lock may be held, except by
 * submitter_defer_wake().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model;
struct submitter;

/* Reading and submitting a small request takes some 5 us: time for a dozen of them. */
#define SUBMITTER_DEFER_NS UINT64_C(60000)

/* The calling thread's, as long as it lives. To be asked for once by those that call several of the
 * functions below: it costs more than they do. */
struct submitter *submitter_self(void);

/* ---- running batches itself ---- */

/* The calling thread agrees to run batches that it submits, and with them the callbacks of their
 * requests: a caller that holds a lock of its own while it submits, and takes it in a callback,
 * would wait for itself. Off at the start of each thread. Returns what it was. */
bool submitter_allow_inline(bool allow);

/* May the thread run a batch that takes so long by a moving average, within the submission that
 * completes it? It must be inside no execution, allow it (or be continuing and run steps: `is_step`
 * says that the request is one), and what one event runs here must take less than the limit. */
bool submitter_may_run(const struct submitter *s, uint64_t average_ns, uint64_t limit_ns,
                       bool is_step);
bool submitter_is_executing(const struct submitter *s);

/* Around each execution on this thread; `spends_ns` of what one event may run here. */
void submitter_enter_execution(struct submitter *s, uint64_t spends_ns);
/* `end_ns`: a moment ago. True: there are continuations to run once the instance was given back. */
bool submitter_leave_execution(struct submitter *s, uint64_t end_ns);

/* ---- continuations ---- */

struct continuation {
        void (*run)(struct continuation *c);
        struct continuation *next;
};

/* True: `c` runs later on this thread. False: the thread is inside no execution and runs no
 * continuation, and the caller goes on itself. */
bool submitter_put_off(struct continuation *c);
/* Continuations, linked by `next`, NULL at the end: puts them off, or runs them here when the thread
 * is inside no execution and runs none yet. The stack stays flat in either case. `now_ns`: what the
 * clock showed a moment ago, 0 when the caller has not read it. */
void submitter_start(struct continuation *first, uint64_t now_ns);
/* The same without putting off: for what must go on while this execution does (the steps that the
 * responses of a decoupled model begin), or for a caller who waits for it inside of one. A nested
 * call leaves it to the outermost one, so the stack stays flat here as well. */
void submitter_start_now(struct continuation *first);
/* After the instance was given back: runs what was put off, and what that puts off in turn. A
 * nested call leaves it to the outermost one. `runs_steps`: a thread that does not allow inline
 * execution may run their batches itself, not those of clients. */
void submitter_continue(struct submitter *s, bool runs_steps);
/* When the continuation that runs here began: the end of the execution that it follows. 0: the thread
 * runs none, or the continuation has let time pass. Reading the clock takes some 20 ns, and a step of
 * `make bench`, ensembles, 300. */
uint64_t submitter_moment(const struct submitter *s);
/* The moment; without one, what the clock shows. */
uint64_t submitter_now(const struct submitter *s);
/* Something that takes microseconds was done here. */
void submitter_let_pass(struct submitter *s);

/* ---- deferred wake-ups ---- */

typedef void (*submitter_wake_fn)(void *scheduler);

/* False: this thread defers nothing, or has no room; the caller wakes by itself. Otherwise
 * `wake(scheduler)` is called by the next flush, once however often it was deferred. */
bool submitter_defer_wake(struct submitter *s, void *scheduler, struct model *model,
                          submitter_wake_fn wake);
/* Flushes when the first one was deferred for too long. */
void submitter_check_wakes(struct submitter *s, uint64_t now_ns);
/* Makes all deferred wake-ups. The first call on a thread is its promise to call again before each
 * wait. */
void submitter_flush_wakes(void);

/* ---- rows of answers ---- */

typedef void (*submitter_call_fn)(void *userp);

/* They nest; the outermost end makes the calls. An end without a beginning is nothing. */
void submitter_begin_row(void);
void submitter_end_row(void);
/* Ends all that have begun: for what a plug-in left open, and before one computes. */
void submitter_end_all_rows(void);
/* Makes the calls now, and the row goes on: before this thread waits. */
void submitter_flush_row(void);
/* True: `call(userp)` comes on this thread, as often as it was asked for, when the row ends, or
 * earlier when many have asked. False: there is no row, or no room; the caller does it now. */
bool submitter_call_after_row(submitter_call_fn call, void *userp);
