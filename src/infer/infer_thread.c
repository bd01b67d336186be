/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/infer_thread.h"

#include "base/clock.h"
#include "infer/model.h"

#include <assert.h>
#include <string.h>

/* Schedulers whose wake-ups a thread may defer at a time; others are woken at once. */
#define MAX_DEFERRED 8
/* Usually only loops ask for calls, and a process has a few loops. */
#define MAX_CALLS 8

struct deferred_wake {
        void                *scheduler; /* lives as long as the model */
        struct model        *model;     /* ref */
        infer_thread_wake_fn wake;
};

struct deferred_call {
        infer_thread_call_fn call;
        void                *userp;
};

struct infer_thread {
        bool     allows_inline;
        bool     is_continuing;
        bool     runs_steps; /* argument of the running infer_thread_continue() */
        unsigned depth;      /* of nested executions */
        /* Sum of the averages of the batches that this event ran on this thread. */
        uint64_t spent_ns;
        uint64_t recent_ns; /* a recent time, see infer_thread_recent_time(); 0: read the clock */

        /* Continuations, the oldest first. */
        struct continuation *first, *last;
        /* Continuations for infer_thread_start_now(), the oldest first. */
        struct continuation *now_first, *now_last;
        bool                 is_starting;

        bool                 defers;
        bool                 is_flushing;
        unsigned             n_deferred;
        uint64_t             since_ns; /* time of the oldest deferred wake-up; 0 = unknown */
        struct deferred_wake deferred[MAX_DEFERRED];

        unsigned             n_open_series; /* series of responses begun and not ended */
        unsigned             n_calls;
        struct deferred_call calls[MAX_CALLS];
};

static _Thread_local struct infer_thread self;
static _Thread_local TLS_EARLY struct infer_thread
        *found; /* self, or NULL: thread-local storage is slow to access */

static NOINLINE struct infer_thread *find_self(void) {
        found = &self;
        return found;
}

struct infer_thread *infer_thread_self(void) {
        return found != NULL ? found : find_self();
}

/* ---- inline execution ------------------------------------------------------------------------- */

bool infer_thread_allow_inline(bool allow) {
        struct infer_thread *s = infer_thread_self();
        bool                 old = s->allows_inline;

        s->allows_inline = allow;
        return old;
}

bool infer_thread_allows_inline(const struct infer_thread *s) {
        return s->allows_inline;
}

bool infer_thread_may_run(const struct infer_thread *s, uint64_t average_ns, uint64_t limit_ns,
                          bool is_step) {
        uint64_t spent_ns = s->is_continuing ? s->spent_ns : 0; /* a new event starts at 0 */

        if (s->depth > 0)
                return false;
        if (!s->allows_inline && !(is_step && s->runs_steps))
                return false;
        return spent_ns + average_ns < limit_ns;
}

bool infer_thread_is_executing(const struct infer_thread *s) {
        return s->depth > 0;
}

bool infer_thread_is_continuing(const struct infer_thread *s) {
        return s->is_continuing && s->depth == 0;
}

void infer_thread_enter_execution(struct infer_thread *s, uint64_t spends_ns) {
        s->depth++;
        s->spent_ns = spends_ns + (s->is_continuing ? s->spent_ns : 0);
}

bool infer_thread_leave_execution(struct infer_thread *s, uint64_t end_ns) {
        assert(s->depth > 0);
        s->depth--;
        s->recent_ns = end_ns;
        return s->first != NULL;
}

uint64_t infer_thread_recent_time(const struct infer_thread *s) {
        return s->is_continuing && s->depth == 0 ? s->recent_ns : 0;
}

uint64_t infer_thread_now(const struct infer_thread *s) {
        uint64_t recent_ns = infer_thread_recent_time(s);

        return recent_ns != 0 ? recent_ns : clock_now_ns();
}

void infer_thread_is_past(struct infer_thread *s, uint64_t now_ns) {
        if (s->recent_ns != 0 && s->recent_ns < now_ns)
                s->recent_ns = now_ns;
}

void infer_thread_forget_time(struct infer_thread *s) {
        s->recent_ns = 0;
}

/* ---- continuations --------------------------------------------------------------------------- */

static void append_continuation(struct continuation **first, struct continuation **last,
                                struct continuation *c) {
        c->next = NULL;
        if (*last != NULL)
                (*last)->next = c;
        else
                *first = c;
        *last = c;
}

void infer_thread_start(struct continuation *first, uint64_t now_ns) {
        struct infer_thread *s = infer_thread_self();

        for (struct continuation *c = first, *next; c != NULL; c = next) {
                next = c->next;
                append_continuation(&s->first, &s->last, c);
        }
        if (s->depth > 0 || s->is_continuing)
                return;
        s->spent_ns = 0;
        s->recent_ns = now_ns;
        infer_thread_continue(s, false);
}

void infer_thread_start_now(struct continuation *first) {
        struct infer_thread *s = infer_thread_self();

        for (struct continuation *c = first, *next; c != NULL; c = next) {
                next = c->next;
                append_continuation(&s->now_first, &s->now_last, c);
        }
        if (s->is_starting)
                return;
        s->is_starting = true;
        while (s->now_first != NULL) {
                struct continuation *c = s->now_first;

                s->now_first = c->next;
                if (s->now_first == NULL)
                        s->now_last = NULL;
                c->run(c);
        }
        s->is_starting = false;
}

void infer_thread_continue(struct infer_thread *s, bool runs_steps) {
        if (s->is_continuing || s->depth > 0)
                return;
        s->is_continuing = true;
        s->runs_steps = runs_steps;
        while (s->first != NULL) {
                struct continuation *c = s->first;
                uint64_t             recent_ns = s->recent_ns;

                s->first = c->next;
                if (s->first == NULL)
                        s->last = NULL;
                c->run(c);
                if (s->recent_ns ==
                    recent_ns) /* the continuation ran no batch on this thread, but took time */
                        s->recent_ns = 0;
        }
        s->recent_ns = 0;
        s->runs_steps = false;
        s->is_continuing = false;
}

/* ---- deferred wake-ups ----------------------------------------------------------------------- */

bool infer_thread_defer_wake(struct infer_thread *s, void *scheduler, struct model *model,
                             infer_thread_wake_fn wake) {
        if (!s->defers)
                return false;
        for (unsigned i = 0; i < s->n_deferred; i++)
                if (s->deferred[i].scheduler == scheduler)
                        return true;
        if (s->n_deferred == MAX_DEFERRED)
                return false;
        model_ref(model);
        s->deferred[s->n_deferred++] = (struct deferred_wake){ scheduler, model, wake };
        return true;
}

void infer_thread_check_wakes(struct infer_thread *s, uint64_t now_ns) {
        if (s->n_deferred == 0)
                return;
        if (s->since_ns == 0)
                s->since_ns = now_ns;
        else if (now_ns - s->since_ns > SUBMITTER_DEFER_NS)
                infer_thread_flush_wakes();
}

void infer_thread_flush_wakes(void) {
        struct infer_thread *s = infer_thread_self();
        unsigned             n = s->n_deferred;

        if (s->is_flushing)
                return;
        /* A wake-up may refuse requests, and their response callbacks may submit others. The wake-ups
         * of those are not deferred, since the next flush may come late. */
        s->is_flushing = true;
        s->defers = false;
        s->n_deferred = 0;
        s->since_ns = 0;
        for (unsigned i = 0; i < n; i++) {
                s->deferred[i].wake(s->deferred[i].scheduler);
                model_unref(s->deferred[i].model);
        }
        s->defers = true;
        s->is_flushing = false;
}

/* ---- series of responses --------------------------------------------------------------------- */

static void make_calls(void) {
        struct infer_thread *s = infer_thread_self();
        struct deferred_call calls[MAX_CALLS];
        unsigned             n = s->n_calls;

        s->n_calls = 0; /* a call may itself request calls */
        memcpy(calls, s->calls, n * sizeof(calls[0]));
        for (unsigned i = 0; i < n; i++)
                calls[i].call(calls[i].userp);
}

void infer_thread_begin_responses(void) {
        struct infer_thread *s = infer_thread_self();

        s->n_open_series++;
}

void infer_thread_end_responses(void) {
        struct infer_thread *s = infer_thread_self();

        if (s->n_open_series > 0 && --s->n_open_series == 0)
                make_calls();
}

void infer_thread_flush_calls(void) {
        struct infer_thread *s = infer_thread_self();

        if (s->n_calls > 0)
                make_calls();
}

void infer_thread_end_all_responses(void) {
        struct infer_thread *s = infer_thread_self();

        s->n_open_series = 0;
        infer_thread_flush_calls();
}

bool infer_thread_call_after_responses(infer_thread_call_fn call, void *userp) {
        struct infer_thread *s = infer_thread_self();

        if (s->n_open_series == 0)
                return false;
        if (s->n_calls == MAX_CALLS)
                make_calls();
        if (s->n_calls == MAX_CALLS) /* the calls have requested further calls */
                return false;
        s->calls[s->n_calls++] = (struct deferred_call){ call, userp };
        return true;
}
