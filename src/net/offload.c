/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "base/thread.h"
#include "net/loop.h"
#include "net/uv_types.h"

/* More than this at a time wait for a thread of libuv's pool: peers choose how many there are. */
#define MAX_THREADS 64

/* Each piece of work has a thread of its own: a look at the index must not wait behind models that
 * take minutes to load, as it would in a pool of a few threads. */
struct offload {
        uv_work_t         native;
        struct loop_work *work;   /* borrowed: its owner's */
        struct loop      *loop;   /* borrowed */
        struct thread     thread;
        struct mail       done;
        struct list_node  node; /* in loop->leaving: only its thread is left of it */
};

static _Atomic unsigned n_threads; /* at work: those that have ended may wait long to be joined */

static void end_work(struct loop_work *w) {
        w->native = NULL;
        w->done(w);
}

static void thread_main(void *arg) {
        struct offload *o = arg;

        if (o->work->gives_way)
                thread_give_way();
        if (o->work->steps_back)
                thread_step_back();
        o->work->run(o->work);
        mailbox_post(loop_mailbox(o->loop), &o->done);
        atomic_fetch_sub_explicit(&n_threads, 1, memory_order_relaxed);
}

static void forget(struct offload *o) {
        list_remove(&o->node);
        free(o);
}

/* A thread that has posted may wait long for its turn to end, and the loop does not wait with it. */
static void join_ended(struct loop *l) {
        LIST_FOR_EACH(&l->leaving, node) {
                struct offload *o = LIST_ENTRY(node, struct offload, node);

                if (thread_try_join(&o->thread))
                        forget(o);
        }
}

void loop_offload_done(struct loop *l) {
        while (!list_is_empty(&l->leaving)) {
                struct offload *o = LIST_ENTRY(list_first(&l->leaving), struct offload, node);

                thread_join(&o->thread);
                forget(o);
        }
}

static void on_thread_done(struct mail *m) {
        struct offload *o = CONTAINER_OF(m, struct offload, done);

        join_ended(o->loop);
        list_append(&o->loop->leaving, &o->node);
        end_work(o->work);
}

static bool start_thread(struct offload *o) {
        struct error *err;

        if (atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) < MAX_THREADS) {
                err = thread_start(&o->thread, "neso-offload", thread_main, o);
                if (err == NULL)
                        return true;
                error_free(err);
        }
        atomic_fetch_sub_explicit(&n_threads, 1, memory_order_relaxed);
        return false;
}

static void on_run(uv_work_t *native) {
        struct offload *o = CONTAINER_OF(native, struct offload, native);

        o->work->run(o->work);
}

/* Nothing is ever cancelled, so the status is always success. */
static void on_done(uv_work_t *native, int status UNUSED) {
        struct offload   *o = CONTAINER_OF(native, struct offload, native);
        struct loop_work *w = o->work;

        free(o);
        end_work(w);
}

void loop_offload(struct loop *l, struct loop_work *w) {
        struct offload *o = mem_zalloc(sizeof(*o));

        join_ended(l);
        o->work = w;
        o->loop = l;
        o->done.deliver = on_thread_done;
        w->native = o;
        if (!start_thread(o))
                uv_queue_work(&l->uv, &o->native, on_run, on_done);
}
