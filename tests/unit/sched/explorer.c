/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/explorer.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/thread.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define MAX_THREADS 16
#define MAX_HELD 64
#define MAX_CHOICES 8192
#define MAX_OPTIONS (MAX_THREADS + 1)
#define MAX_LOCAL_BYTES 8192
#define STACK_BYTES ((size_t)512 << 10)
#define LOOK_NS 10 /* passes with each look at the clock */
#define START_NS (1000 * NS_PER_S)

enum wait {
        WAIT_NONE,
        WAIT_MUTEX,    /* `on` is the mutex */
        WAIT_COND,     /* `on` is the condition, `mutex` is to be locked again */
        WAIT_DEADLINE, /* the same, until deadline_ns */
        WAIT_END,      /* `on` is the thread */
        WAIT_OVER,     /* the thread has ended */
};

struct fiber {
        ucontext_t  context;
        char       *stack;                   /* owned; kept for the next schedule */
        char        locals[MAX_LOCAL_BYTES]; /* thread-local variables while another one runs */
        enum wait   wait;
        const void *on;
        const struct mutex *mutex;
        uint64_t            deadline_ns, since; /* since: order of waits */
        bool                has_timed_out;
        unsigned            n_held_wakes;
        thread_fn           run;
        void               *arg;
        char                name[16];
};

struct held {
        const struct mutex *mutex;
        const struct fiber *by;
};

struct choice {
        uint8_t n_options, taken;
};

static struct {
        struct fiber  fibers[MAX_THREADS];
        unsigned      n_fibers;
        struct fiber *running;
        ucontext_t    outside; /* of run_once() */
        char         *locals;  /* the program's thread-local variables, and their first values */
        const void   *first_locals;
        size_t        n_locals, n_first_locals;
        struct held   held[MAX_HELD];
        unsigned      n_held;
        uint64_t      now_ns, n_waits;
        void (*at_thread_end)(void);

        struct choice path[MAX_CHOICES];
        unsigned      n_path, at; /* at: of the next choice */
        unsigned      n_deviated, max_deviations;
} x;

static struct fiber *self; /* NULL: no thread of the program runs */

/* ---- reports ----------------------------------------------------------------------------------- */

static void print_fiber(const struct fiber *f) {
        static const char *const waits[] = {
                "can go on",          "waits for a mutex",        "waits for a condition",
                "waits until a time", "waits for a thread's end", "has ended"
        };

        fprintf(stderr, "  %s %s%s\n", f->name, waits[f->wait], f == x.running ? " (running)" : "");
}

static NORETURN void end_with(const char *what) {
        fprintf(stderr, "explorer: %s\n", what);
        for (unsigned i = 0; i < x.n_fibers; i++)
                print_fiber(&x.fibers[i]);
        fprintf(stderr, "  schedule:");
        for (unsigned i = 0; i < x.at; i++)
                fprintf(stderr, " %u/%u", x.path[i].taken, x.path[i].n_options);
        fputc('\n', stderr);
        abort();
}

void explorer_check(bool holds, const char *what) {
        if (!holds)
                end_with(what);
}

/* ---- choices ----------------------------------------------------------------------------------- */

static bool is_free(const struct mutex *m) {
        for (unsigned i = 0; i < x.n_held; i++)
                if (x.held[i].mutex == m)
                        return false;
        return true;
}

static bool can_go_on(const struct fiber *f) {
        switch (f->wait) {
        case WAIT_NONE: return true;
        case WAIT_MUTEX: return is_free(f->on);
        case WAIT_END: return ((const struct fiber *)f->on)->wait == WAIT_OVER;
        default: return false;
        }
}

struct options {
        struct fiber *fibers[MAX_OPTIONS];
        unsigned      n;
};

static void add_option(struct options *o, struct fiber *f) {
        if (o->n == 0 || x.n_deviated < x.max_deviations)
                o->fibers[o->n++] = f;
}

/* Behind threads that can go on; else the first deadline is the plain choice. */
static void add_deadlines(struct options *o) {
        struct fiber *first = NULL;

        for (unsigned i = 0; i < x.n_fibers; i++) {
                struct fiber *f = &x.fibers[i];

                if (f->wait == WAIT_DEADLINE && is_free(f->mutex) &&
                    (first == NULL || f->deadline_ns < first->deadline_ns))
                        first = f;
        }
        if (first != NULL)
                add_option(o, first);
        for (unsigned i = 0; i < x.n_fibers; i++) {
                struct fiber *f = &x.fibers[i];

                if (f != first && f->wait == WAIT_DEADLINE && is_free(f->mutex))
                        add_option(o, f);
        }
}

/* The first option is the plain one: the running thread goes on; when it cannot, the next one. */
static void list_options(struct options *o) {
        unsigned at = (unsigned)(x.running - x.fibers);

        o->n = 0;
        for (unsigned i = 0; i < x.n_fibers; i++) {
                struct fiber *f = &x.fibers[(at + i) % x.n_fibers];

                if (can_go_on(f))
                        add_option(o, f);
        }
        add_deadlines(o);
}

static unsigned choose(unsigned n_options) {
        struct choice *c = &x.path[x.at];

        if (n_options == 1)
                return 0;
        if (x.at == MAX_CHOICES)
                end_with("the schedule is too long");
        if (x.at == x.n_path)
                x.path[x.n_path++] = (struct choice){ .n_options = (uint8_t)n_options };
        else if (c->n_options != n_options)
                end_with("the same choices lead to another place");
        x.at++;
        return c->taken;
}

static struct fiber *pick(void) {
        struct options o;
        struct fiber  *to;
        unsigned       taken;

        list_options(&o);
        if (o.n == 0)
                end_with("no thread can go on");
        taken = choose(o.n);
        x.n_deviated += taken > 0 ? 1 : 0;
        to = o.fibers[taken];
        if (to->wait == WAIT_DEADLINE) {
                x.now_ns = MAX(x.now_ns, to->deadline_ns);
                to->has_timed_out = true;
        }
        return to;
}

static void enter(struct fiber *to) {
        x.running = self = to;
        memcpy(x.locals, to->locals, x.n_locals);
}

/* Returns when the calling thread, whose wait says what it needs, has the turn. */
static void give_turn(void) {
        struct fiber *from = self, *to = pick();

        if (to != from) {
                memcpy(from->locals, x.locals, x.n_locals);
                enter(to);
                swapcontext(&from->context, &to->context);
        }
        self->wait = WAIT_NONE;
}

void explorer_point(void) {
        if (self != NULL)
                give_turn();
}

/* ---- base/lock.h ------------------------------------------------------------------------------- */

/* Locks of statistics and of the log order nothing that a program waits for, and that of the program
 * (LOCK_SERVER) is no part of what is explored. */
static bool is_point(const struct mutex *m) {
        return m->rank > LOCK_SERVER && m->rank < LOCK_REGISTRY;
}

static void hold(const struct mutex *m) {
        if (x.n_held == MAX_HELD)
                end_with("too many mutexes are held");
        x.held[x.n_held++] = (struct held){ m, self };
}

static void release(const struct mutex *m) {
        for (unsigned i = 0; i < x.n_held; i++)
                if (x.held[i].mutex == m) {
                        if (x.held[i].by != self)
                                end_with("a mutex is unlocked by another thread");
                        x.held[i] = x.held[--x.n_held];
                        return;
                }
        end_with("a mutex is unlocked that is not held");
}

void mutex_init(struct mutex *m, enum lock_rank rank) {
        m->rank = rank;
}

void mutex_done(struct mutex *m) {
        if (self != NULL && !is_free(m))
                end_with("a mutex is freed that is held");
}

void mutex_lock(struct mutex *m) {
        if (self == NULL)
                return;
        if (is_point(m))
                give_turn();
        while (!is_free(m)) {
                self->wait = WAIT_MUTEX;
                self->on = m;
                give_turn();
        }
        hold(m);
}

void mutex_unlock(struct mutex *m) {
        if (self == NULL)
                return;
        release(m);
        if (is_point(m))
                give_turn();
}

static bool is_held_by(const struct mutex *m, const struct fiber *f) {
        bool is = false;

        for (unsigned i = 0; i < x.n_held && !is; i++)
                is = x.held[i].mutex == m && x.held[i].by == f;
        return is;
}

bool mutex_is_held(const struct mutex *m) {
        return self == NULL || is_held_by(m, self);
}

unsigned explorer_n_held_wakes(void) {
        return self->n_held_wakes;
}

void cond_init(struct cond *c) {
        *c = (struct cond){ 0 };
}

static bool has_waiter(const struct cond *c);

void cond_done(struct cond *c) {
        if (self != NULL && has_waiter(c))
                end_with("a condition is freed that a thread waits for");
}

static struct fiber *first_waiter(const struct cond *c) {
        struct fiber *first = NULL;

        for (unsigned i = 0; i < x.n_fibers; i++) {
                struct fiber *f = &x.fibers[i];

                if ((f->wait == WAIT_COND || f->wait == WAIT_DEADLINE) && f->on == c &&
                    (first == NULL || f->since < first->since))
                        first = f;
        }
        return first;
}

static bool has_waiter(const struct cond *c) {
        return first_waiter(c) != NULL;
}

/* A thread that is woken waits for its mutex. */
static bool wake_one(const struct cond *c) {
        struct fiber *f = first_waiter(c);

        if (f == NULL)
                return false;
        self->n_held_wakes += (f->mutex->rank == LOCK_QUEUE || f->mutex->rank == LOCK_TIMER) &&
                              is_held_by(f->mutex, self);
        f->wait = WAIT_MUTEX;
        f->on = f->mutex;
        return true;
}

/* Counts as the product does: a thread that was signalled and still sleeps gets no second system call. */
_Atomic uint32_t *cond_signal_later(struct cond *c) {
        if (c->n_unsignalled == 0)
                return NULL;
        c->n_unsignalled--;
        return &c->n_signals;
}

void cond_wake(_Atomic uint32_t *signalled) {
        if (signalled != NULL)
                (void)wake_one(CONTAINER_OF(signalled, struct cond, n_signals));
}

void cond_signal(struct cond *c) {
        cond_wake(cond_signal_later(c));
}

void cond_broadcast(struct cond *c) {
        c->n_unsignalled = 0;
        while (wake_one(c))
                ;
}

static bool wait_on(struct cond *c, struct mutex *m, enum wait wait, uint64_t deadline_ns) {
        c->n_waiting++;
        c->n_unsignalled++;
        release(m);
        self->wait = wait;
        self->on = c;
        self->mutex = m;
        self->deadline_ns = deadline_ns;
        self->has_timed_out = false;
        self->since = x.n_waits++;
        give_turn();
        hold(m);
        c->n_waiting--;
        c->n_unsignalled = MIN(c->n_unsignalled, c->n_waiting);
        return !self->has_timed_out;
}

void cond_wait(struct cond *c, struct mutex *m) {
        (void)wait_on(c, m, WAIT_COND, CLOCK_NEVER);
}

bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns) {
        return wait_on(c, m, deadline_ns == CLOCK_NEVER ? WAIT_COND : WAIT_DEADLINE, deadline_ns);
}

/* ---- base/clock.h ------------------------------------------------------------------------------ */

uint64_t clock_now_ns(void) {
        return x.now_ns += LOOK_NS;
}

uint64_t clock_wall_ns(void) {
        return x.now_ns += LOOK_NS;
}

/* ---- base/thread.h ----------------------------------------------------------------------------- */

/* The last thread of all ends the schedule. */
static void end_fiber(void) {
        if (x.at_thread_end != NULL)
                x.at_thread_end();
        self->wait = WAIT_OVER;
        for (unsigned i = 0; i < x.n_fibers; i++)
                if (x.fibers[i].wait != WAIT_OVER) {
                        enter(pick());
                        setcontext(&self->context);
                }
        self = NULL;
        setcontext(&x.outside);
}

static void begin_fiber(void) {
        self->wait = WAIT_NONE;
        self->run(self->arg);
        end_fiber();
}

static struct fiber *add_fiber(const char *name, thread_fn run, void *arg) {
        struct fiber *f = &x.fibers[x.n_fibers];

        if (x.n_fibers++ == MAX_THREADS)
                end_with("too many threads");
        if (f->stack == NULL)
                f->stack = malloc(STACK_BYTES);
        if (f->stack == NULL || getcontext(&f->context) != 0)
                end_with("there is no memory for a thread");
        f->wait = WAIT_NONE;
        f->n_held_wakes = 0;
        f->run = run;
        f->arg = arg;
        snprintf(f->name, sizeof(f->name), "%s", name);
        memset(f->locals, 0, x.n_locals);
        memcpy(f->locals, x.first_locals, x.n_first_locals);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = STACK_BYTES;
        f->context.uc_link = NULL;
        makecontext(&f->context, begin_fiber, 0);
        return f;
}

struct error *thread_start(struct thread *t, const char *name, thread_fn run, void *arg) {
        t->native = (pthread_t)(add_fiber(name, run, arg) - x.fibers);
        t->is_started = true;
        return NULL;
}

void thread_join(struct thread *t) {
        if (!t->is_started)
                return;
        self->wait = WAIT_END;
        self->on = &x.fibers[t->native];
        give_turn();
        t->is_started = false;
}

bool thread_try_join(struct thread *t) {
        if (t->is_started && x.fibers[t->native].wait != WAIT_OVER)
                return false;
        t->is_started = false;
        return true;
}

void thread_enter_background(void) {
}

void thread_leave_background(void) {
}

void thread_lower_priority(void) {
}

void thread_keep_heap_end(void) {
}

unsigned thread_cpu_count(void) {
        return 1;
}

/* ---- schedules --------------------------------------------------------------------------------- */

/* The first object is the program. */
static int find_locals(struct dl_phdr_info *info, size_t size, void *arg) {
        (void)size;
        (void)arg;
        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type != PT_TLS)
                        continue;
                x.locals = info->dlpi_tls_data;
                x.n_locals = p->p_memsz;
                x.first_locals = (const void *)(info->dlpi_addr + p->p_vaddr);
                x.n_first_locals = p->p_filesz;
        }
        return 1;
}

static void run_once(const struct exploration *e) {
        char locals[MAX_LOCAL_BYTES];
        /* Volatile: setcontext() returns to the place of getcontext() a second time. */
        volatile bool has_run = false;

        x.n_fibers = x.n_held = x.at = x.n_deviated = 0;
        x.now_ns = START_NS;
        memcpy(locals, x.locals, x.n_locals);
        getcontext(&x.outside);
        if (!has_run) {
                has_run = true;
                enter(add_fiber("main", e->run, e->arg));
                setcontext(&self->context);
        }
        memcpy(x.locals, locals, x.n_locals);
        if (x.n_held > 0)
                end_with("a mutex is left locked");
}

/* Goes back to the last choice that has another option. False: there is none. */
static bool next_path(void) {
        x.n_path = x.at;
        while (x.n_path > 0) {
                struct choice *c = &x.path[x.n_path - 1];

                if (++c->taken < c->n_options)
                        return true;
                x.n_path--;
        }
        return false;
}

unsigned explore(const struct exploration *e, bool *ret_is_complete) {
        unsigned n = 0;

        dl_iterate_phdr(find_locals, NULL);
        if (x.n_locals > MAX_LOCAL_BYTES)
                end_with("there are too many thread-local variables");
        x.at_thread_end = e->at_thread_end;
        x.n_path = 0;
        x.max_deviations = e->max_deviations;
        *ret_is_complete = false;
        while (!*ret_is_complete && (e->max_schedules == 0 || n < e->max_schedules)) {
                run_once(e);
                n++;
                *ret_is_complete = !next_path();
        }
        return n;
}
