/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "net/uv_types.h"

#include <assert.h>
#include <string.h>

/* What a loop's pool keeps of freed buffers: one body of the default maximum. */
#define POOL_KEPT_BYTES ((size_t)64 << 20)
/* The pool forgets half of what it keeps every so many ticks: 10 s. */
#define TICKS_PER_TRIM 20
/* A loop is quiet when it woke less often than this between two trims, or has had no connection for
 * so many ticks. */
#define QUIET_ROUNDS 200
#define QUIET_TICKS 3
/* Ticks without a connection after which the timer stops: the pool has been halved to nothing. */
#define MAX_IDLE_TICKS 16

struct loop_group {
        struct work_pool *workers; /* owned */
        size_t            n_loops;
        struct loop       loops[];
};

static _Thread_local struct loop *current_loop;

static void on_prepare(uv_prepare_t *prepare) {
        struct loop *l = CONTAINER_OF(prepare, struct loop, prepare);

        l->n_rounds++;
        while (!list_is_empty(&l->chores)) {
                struct loop_chore *c = LIST_ENTRY(list_first(&l->chores), struct loop_chore, node);

                list_remove(&c->node);
                c->run(c);
        }
        if (l->before_wait)
                l->before_wait();
}

void loop_put_off(struct loop *l, struct loop_chore *c) {
        assert(loop_is_current(l));
        if (!list_is_linked(&c->node))
                list_append(&l->chores, &c->node);
}

bool loop_before_wait(void (*call)(void)) {
        struct loop *l = current_loop;

        if (!l || (l->before_wait && l->before_wait != call))
                return false;
        l->before_wait = call;
        return true;
}

/* Bursts leave much behind that is free and in nobody's pool. It goes back to the system once the
 * loop is quiet: while it is busy it would be wanted again, and the allocator's locks would be in
 * the way. */
static void look_after_memory(struct loop *l, bool is_quiet) {
        buf_pool_trim(l->pool);
        if (is_quiet && l->was_busy)
                mem_give_back();
        l->was_busy = !is_quiet;
}

static void on_tick(uv_timer_t *timer) {
        struct loop *l = CONTAINER_OF(timer, struct loop, tick);

        conn_tick_all(l, clock_now_ns());
        l->n_ticks++;
        if (!list_is_empty(&l->conns)) {
                l->n_idle_ticks = 0;
                if (l->n_ticks % TICKS_PER_TRIM != 0)
                        return;
                look_after_memory(l, l->n_rounds < QUIET_ROUNDS);
                l->n_rounds = 0;
                return;
        }
        l->n_idle_ticks++;
        look_after_memory(l, l->n_idle_ticks >= QUIET_TICKS);
        if (l->n_idle_ticks >= MAX_IDLE_TICKS)
                uv_timer_stop(timer);
}

void loop_conn_added(struct loop *l) {
        uint64_t tick_ms = LOOP_TICK_NS / NS_PER_MS;

        atomic_fetch_add_explicit(&l->n_conns, 1, memory_order_relaxed);
        l->n_idle_ticks = 0;
        if (!uv_is_active((uv_handle_t *)&l->tick))
                uv_timer_start(&l->tick, on_tick, tick_ms, tick_ms);
}

void loop_conn_removed(struct loop *l) {
        atomic_fetch_sub_explicit(&l->n_conns, 1, memory_order_relaxed);
}

/* ---- libuv's memory ---- */

static void *uv_malloc(size_t size) {
        void *memory = try_alloc(size);

        return LIKELY(memory != NULL) ? memory : reserve_take(size);
}

static void *uv_calloc(size_t n, size_t size) {
        size_t bytes;
        void  *memory = size_mul(n, size, &bytes) ? uv_malloc(bytes) : NULL;

        return memory ? memset(memory, 0, bytes) : NULL;
}

static void *uv_realloc(void *old, size_t size) {
        void *memory = try_realloc(old, size);

        if (LIKELY(memory != NULL))
                return memory;
        return reserve_move(old, size);
}

void loop_use_reserve(void) {
        uv_replace_allocator(uv_malloc, uv_realloc, uv_calloc, free);
}

static void on_stop(struct mail *m) {
        struct loop *l = CONTAINER_OF(m, struct loop, stop);

        uv_close((uv_handle_t *)&l->tick, NULL);
        uv_close((uv_handle_t *)&l->prepare, NULL);
        loop_discard_close(l);
        loop_timers_close(l);
        mailbox_close(&l->mailbox);
}

/* How the threads of a group tell that their loops are open. */
struct opening {
        struct mutex  lock; /* rank LOCK_MAILBOX; guards what follows */
        struct cond   changed;
        size_t        n_left;
        struct error *err; /* the first failure */
};

static struct error *open_native(struct loop *l) {
        int           rc = uv_loop_init(&l->uv);
        struct error *err;

        if (rc < 0)
                return error_new(ERR_INTERNAL, "unable to create an event loop: %s",
                                 uv_strerror(rc));
        err = mailbox_init(&l->mailbox, &l->uv);
        if (err) {
                uv_run(&l->uv, UV_RUN_DEFAULT);
                uv_loop_close(&l->uv);
                return err;
        }
        uv_timer_init(&l->uv, &l->tick);
        uv_prepare_init(&l->uv, &l->prepare);
        uv_prepare_start(&l->prepare, on_prepare);
        loop_timers_init(l);
        loop_discard_init(l);
        l->is_open = true;
        return NULL;
}

static void on_opened(struct opening *o, struct error *err) {
        MUTEX_GUARD(&o->lock);

        o->n_left--;
        if (!o->err)
                o->err = err;
        else
                error_free(err);
        cond_signal(&o->changed);
}

static struct error *wait_until_open(struct opening *o) {
        MUTEX_GUARD(&o->lock);

        while (o->n_left > 0)
                cond_wait(&o->changed, &o->lock);
        return o->err;
}

/* Opens the native loop, runs it until the last of its handles is closed, and closes it: on one
 * thread, since libuv may give a loop an io_uring (1.45 and later do), and when that is closed the
 * kernel interrupts the calls that wait in every thread that has opened or used it. */
static void run(void *arg) {
        struct loop    *l = arg;
        struct opening *o = STEAL(l->opening);
        struct error   *err = open_native(l);
        int             rc;

        current_loop = l;
        on_opened(o, err);
        if (!l->is_open)
                return;
        loop_discard_begin(l);
        uv_run(&l->uv, UV_RUN_DEFAULT);
        rc = uv_loop_close(&l->uv);
        assert(rc == 0);
        (void)rc;
}

static void loop_init(struct loop *l, const char *name, size_t index, struct opening *o) {
        list_init(&l->leaving);
        list_init(&l->chores);
        list_init(&l->conns);
        list_init(&l->corked);
        l->cork_room = mem_alloc(LOOP_CORK_BYTES);
        l->pool = buf_pool_new(POOL_KEPT_BYTES);
        l->index = index;
        l->name = mem_printf("%s-%zu", name, index);
        l->stop.deliver = on_stop;
        l->opening = o;
}

/* Its thread has ended, or never began. */
static void loop_done(struct loop *l) {
        loop_offload_done(l);
        loop_timers_done(l);
        buf_pool_unref(l->pool);
        loop_tls_free(l->tls);
        free(l->cork_room);
        free(l->name);
}

/* All at the same time. The error of a thread that cannot start, or of a loop that cannot open. */
static struct error *open_all(struct loop_group *g, struct opening *o) {
        struct error *err = NULL, *failure;

        for (size_t i = 0; !err && i < g->n_loops; i++) {
                mutex_lock(&o->lock);
                o->n_left++;
                mutex_unlock(&o->lock);
                err = thread_start(&g->loops[i].thread, g->loops[i].name, run, &g->loops[i]);
                if (err)
                        on_opened(o, NULL);
        }
        failure = wait_until_open(o);
        if (!err)
                return failure;
        error_free(failure);
        return err;
}

struct error *loop_group_new(const char *name, size_t n_loops, struct loop_group **ret) {
        struct opening     opening = { 0 };
        struct loop_group *g;
        struct error      *err;

        assert(n_loops > 0);
        g = mem_zalloc(sizeof(*g) + n_loops * sizeof(g->loops[0]));
        g->workers = work_pool_new("neso-compute", MAX(thread_cpu_count() / 2, 1));
        g->n_loops = n_loops;
        mutex_init(&opening.lock, LOCK_MAILBOX);
        cond_init(&opening.changed);
        for (size_t i = 0; i < n_loops; i++) {
                loop_init(&g->loops[i], name, i, &opening);
                g->loops[i].workers = g->workers;
        }
        err = open_all(g, &opening);
        cond_done(&opening.changed);
        mutex_done(&opening.lock);
        if (err) {
                loop_group_free(g);
                return err;
        }
        *ret = g;
        return NULL;
}

void loop_group_free(struct loop_group *g) {
        if (!g)
                return;
        work_pool_free(g->workers); /* its threads post to the loops */
        for (size_t i = 0; i < g->n_loops; i++)
                if (g->loops[i].is_open)
                        mailbox_post(&g->loops[i].mailbox, &g->loops[i].stop);
        for (size_t i = 0; i < g->n_loops; i++) {
                thread_join(&g->loops[i].thread);
                loop_done(&g->loops[i]);
        }
        free(g);
}

void loop_group_set_budget(struct loop_group *g, struct byte_budget *budget) {
        for (size_t i = 0; i < g->n_loops; i++)
                buf_pool_set_budget(g->loops[i].pool, budget);
}

size_t loop_group_size(const struct loop_group *g) {
        return g->n_loops;
}

struct loop *loop_group_get(struct loop_group *g, size_t i) {
        assert(i < g->n_loops);
        return &g->loops[i];
}

size_t loop_n_conns(const struct loop *l) {
        return atomic_load_explicit(&l->n_conns, memory_order_relaxed) +
               atomic_load_explicit(&l->n_dealt, memory_order_relaxed);
}

struct loop *loop_group_least_busy(struct loop_group *g) {
        struct loop *best = &g->loops[0];
        size_t       fewest = loop_n_conns(best);

        for (size_t i = 1; i < g->n_loops && fewest > 0; i++) {
                size_t n = loop_n_conns(&g->loops[i]);

                if (n < fewest) {
                        fewest = n;
                        best = &g->loops[i];
                }
        }
        return best;
}

struct mailbox *loop_mailbox(struct loop *l) {
        return &l->mailbox;
}

struct buf_pool *loop_buf_pool(struct loop *l) {
        return l->pool;
}

size_t loop_index(const struct loop *l) {
        return l->index;
}

bool loop_is_current(const struct loop *l) {
        return l == current_loop;
}
