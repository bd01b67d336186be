/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/submitter.h"

#include "base/clock.h"
#include "infer/model.h"

#include <assert.h>
#include <string.h>

/* Schedulers whose wake-ups a thread may defer at a time; others are woken at once. */
#define MAX_DEFERRED 8
/* Usually only loops ask for calls, and a process has a few loops. */
#define MAX_CALLS 8

struct deferred_wake {
        void             *scheduler; /* lives as long as the model */
        struct model     *model;     /* ref */
        submitter_wake_fn wake;
};

struct deferred_call {
        submitter_call_fn call;
        void             *userp;
};

struct submitter {
        bool     allows_inline;
        bool     is_continuing;
        bool     runs_steps; /* argument of the running submitter_continue() */
        unsigned depth;      /* of nested executions */
        /* Sum of the averages of the batches that this event ran on this thread. */
        uint64_t spent_ns;
        uint64_t recent_ns; /* a recent time, see submitter_recent_time(); 0: read the clock */

        /* Continuations, the oldest first. */
        struct continuation *first, *last;
        /* Continuations for submitter_start_now(), the oldest first. */
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

static _Thread_local struct submitter self;
static _Thread_local TLS_EARLY struct submitter
        *found; /* self, or NULL: thread-local storage is slow to access */

static NOINLINE struct submitter *find_self(void) {
        found = &self;
        return found;
}

struct submitter *submitter_self(void) {
        return found != NULL ? found : find_self();
}

/* ---- inline execution ------------------------------------------------------------------------- */

bool submitter_allow_inline(bool allow) {
        struct submitter *s = submitter_self();
        bool              old = s->allows_inline;

        s->allows_inline = allow;
        return old;
}

bool submitter_may_run(const struct submitter *s, uint64_t average_ns, uint64_t limit_ns,
                       bool is_step) {
        uint64_t spent_ns = s->is_continuing ? s->spent_ns : 0; /* a new event starts at 0 */

        if (s->depth > 0)
                return false;
        if (!s->allows_inline && !(is_step && s->runs_steps))
                return false;
        return spent_ns + average_ns < limit_ns;
}

bool submitter_is_executing(const struct submitter *s) {
        return s->depth > 0;
}

bool submitter_is_continuing(const struct submitter *s) {
        return s->is_continuing && s->depth == 0;
}

void submitter_enter_execution(struct submitter *s, uint64_t spends_ns) {
        s->depth++;
        s->spent_ns = spends_ns + (s->is_continuing ? s->spent_ns : 0);
}

bool submitter_leave_execution(struct submitter *s, uint64_t end_ns) {
        assert(s->depth > 0);
        s->depth--;
        s->recent_ns = end_ns;
        return s->first != NULL;
}

uint64_t submitter_recent_time(const struct submitter *s) {
        return s->is_continuing && s->depth == 0 ? s->recent_ns : 0;
}

uint64_t submitter_now(const struct submitter *s) {
        uint64_t recent_ns = submitter_recent_time(s);

        return recent_ns != 0 ? recent_ns : clock_now_ns();
}

void submitter_is_past(struct submitter *s, uint64_t now_ns) {
        if (s->recent_ns != 0 && s->recent_ns < now_ns)
                s->recent_ns = now_ns;
}

void submitter_forget_time(struct submitter *s) {
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

bool submitter_defer(struct continuation *c) {
        struct submitter *s = submitter_self();

        if (s->depth == 0 && !s->is_continuing)
                return false;
        append_continuation(&s->first, &s->last, c);
        return true;
}

void submitter_start(struct continuation *first, uint64_t now_ns) {
        struct submitter *s = submitter_self();

        for (struct continuation *c = first, *next; c != NULL; c = next) {
                next = c->next;
                append_continuation(&s->first, &s->last, c);
        }
        if (s->depth > 0 || s->is_continuing)
                return;
        s->spent_ns = 0;
        s->recent_ns = now_ns;
        submitter_continue(s, false);
}

void submitter_start_now(struct continuation *first) {
        struct submitter *s = submitter_self();

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

void submitter_continue(struct submitter *s, bool runs_steps) {
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

bool submitter_defer_wake(struct submitter *s, void *scheduler, struct model *model,
                          submitter_wake_fn wake) {
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

void submitter_check_wakes(struct submitter *s, uint64_t now_ns) {
        if (s->n_deferred == 0)
                return;
        if (s->since_ns == 0)
                s->since_ns = now_ns;
        else if (now_ns - s->since_ns > SUBMITTER_DEFER_NS)
                submitter_flush_wakes();
}

void submitter_flush_wakes(void) {
        struct submitter *s = submitter_self();
        unsigned          n = s->n_deferred;

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
        struct submitter    *s = submitter_self();
        struct deferred_call calls[MAX_CALLS];
        unsigned             n = s->n_calls;

        s->n_calls = 0; /* a call may itself request calls */
        memcpy(calls, s->calls, n * sizeof(calls[0]));
        for (unsigned i = 0; i < n; i++)
                calls[i].call(calls[i].userp);
}

void submitter_begin_responses(void) {
        struct submitter *s = submitter_self();

        s->n_open_series++;
}

void submitter_end_responses(void) {
        struct submitter *s = submitter_self();

        if (s->n_open_series > 0 && --s->n_open_series == 0)
                make_calls();
}

void submitter_flush_calls(void) {
        struct submitter *s = submitter_self();

        if (s->n_calls > 0)
                make_calls();
}

void submitter_end_all_responses(void) {
        struct submitter *s = submitter_self();

        s->n_open_series = 0;
        submitter_flush_calls();
}

bool submitter_call_after_responses(submitter_call_fn call, void *userp) {
        struct submitter *s = submitter_self();

        if (s->n_open_series == 0)
                return false;
        if (s->n_calls == MAX_CALLS)
                make_calls();
        if (s->n_calls == MAX_CALLS) /* the calls have requested further calls */
                return false;
        s->calls[s->n_calls++] = (struct deferred_call){ call, userp };
        return true;
}
