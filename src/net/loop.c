/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/uv_types.h"

#include <assert.h>

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
        size_t      n_loops;
        struct loop loops[];
};

static _Thread_local struct loop *current_loop;

static void on_prepare(uv_prepare_t *prepare) {
        struct loop *l = CONTAINER_OF(prepare, struct loop, prepare);
        uint64_t     hold_ns;

        l->n_rounds++;
        while (!list_is_empty(&l->chores)) {
                struct loop_chore *c = LIST_ENTRY(list_first(&l->chores), struct loop_chore, node);

                list_remove(&c->node);
                c->run(c);
        }
        if (l->before_wait)
                l->before_wait();
        hold_ns = wake_moderation_end_round(&l->moderation, clock_now_ns);
        if (UNLIKELY(hold_ns > 0))
                mailbox_wait(&l->mailbox, hold_ns);
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

static void on_stop(struct mail *m) {
        struct loop *l = CONTAINER_OF(m, struct loop, stop);

        uv_close((uv_handle_t *)&l->tick, NULL);
        uv_close((uv_handle_t *)&l->prepare, NULL);
        loop_timers_close(l);
        mailbox_close(&l->mailbox);
}

/* Returns when the last handle of the loop is closed. */
static void run(void *arg) {
        struct loop *l = arg;

        current_loop = l;
        uv_run(&l->uv, UV_RUN_DEFAULT);
}

static struct error *loop_init(struct loop *l, const char *name, size_t index) {
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
        list_init(&l->leaving);
        list_init(&l->chores);
        list_init(&l->conns);
        list_init(&l->corked);
        l->cork_room = mem_alloc(LOOP_CORK_BYTES);
        l->pool = buf_pool_new(POOL_KEPT_BYTES);
        l->index = index;
        l->name = mem_printf("%s-%zu", name, index);
        l->stop.deliver = on_stop;
        return NULL;
}

/* The thread has ended, or never began: then the handles are closed here. */
static void loop_done(struct loop *l, bool has_run) {
        int rc;

        if (!has_run) {
                on_stop(&l->stop);
                uv_run(&l->uv, UV_RUN_DEFAULT);
        }
        rc = uv_loop_close(&l->uv);
        assert(rc == 0);
        (void)rc;
        loop_offload_done(l);
        loop_timers_done(l);
        buf_pool_unref(l->pool);
        loop_tls_free(l->tls);
        free(l->cork_room);
        free(l->name);
}

struct error *loop_group_new(const char *name, size_t n_loops, struct loop_group **ret) {
        struct loop_group *g;
        struct error      *err = NULL;

        assert(n_loops > 0);
        g = mem_zalloc(sizeof(*g) + n_loops * sizeof(g->loops[0]));
        while (!err && g->n_loops < n_loops) {
                struct loop *l = &g->loops[g->n_loops];

                err = loop_init(l, name, g->n_loops);
                if (err)
                        break;
                g->n_loops++;
                err = thread_start(&l->thread, l->name, run, l);
        }
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
        for (size_t i = 0; i < g->n_loops; i++)
                if (g->loops[i].thread.is_started)
                        mailbox_post(&g->loops[i].mailbox, &g->loops[i].stop);
        for (size_t i = 0; i < g->n_loops; i++) {
                bool has_run = g->loops[i].thread.is_started;

                thread_join(&g->loops[i].thread);
                loop_done(&g->loops[i], has_run);
        }
        free(g);
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
