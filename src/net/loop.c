/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/heap_end.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "net/loop_timer.h"
#include "net/uv_types.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Bytes of freed buffers that a loop's pool keeps for reuse: enough for one body of the default maximum
 * size. */
#define POOL_KEPT_BYTES ((size_t)64 << 20)
/* The pool halves the memory that it keeps after this many ticks: 10 s. */
#define TICKS_PER_TRIM 20
/* A loop is quiet when it ran fewer than QUIET_ROUNDS rounds between two trims, or had no connection
 * for QUIET_TICKS ticks. */
#define QUIET_ROUNDS 200
#define QUIET_TICKS 3
/* A loop has memory to return when it was not quiet, or when so many of its connections have ended: on a busy machine
 * a few rounds may open, answer and end hundreds. */
#define TRIM_ENDED_CONNS 16
/* The tick timer stops after this many ticks without a connection: by then the pool has halved its
 * memory to nothing. */
#define MAX_IDLE_TICKS 16

/* Limit of work threads of a loop, since peers control the amount of work. Further work waits until one
 * of them has ended. */
#define MAX_WORK_THREADS 32
/* Bytes of large blocks that a loop frees in one round; freeing them takes a few tenths of a
 * millisecond. The size of a huge page, which is costly to free in parts. */
#define DISCARD_SLICE_BYTES ((size_t)2 << 20)
/* Limit of the bytes that wait to be freed in slices; a block beyond it is freed at once. */
#define MAX_DISCARDED_BYTES ((size_t)1 << 30)

/* Pipes whose descriptors are enough for the first loop of a process. */
#define FIRST_LOOP_PIPES 4

struct loop_group {
        struct work_pool *workers;       /* owned */
        struct work_pool *short_workers; /* owned */
        size_t            n_loops;
        struct loop       loops[];
};

static _Thread_local struct loop *current_loop;

/* ---- libuv's memory ---- */

static void *uv_malloc(size_t size) {
        void *memory = try_alloc(size);

        return memory != NULL ? memory : reserve_take(size);
}

static void *uv_calloc(size_t n, size_t size) {
        size_t bytes;
        void  *memory = size_mul(n, size, &bytes) ? uv_malloc(bytes) : NULL;

        return memory != NULL ? memset(memory, 0, bytes) : NULL;
}

static void *uv_realloc(void *old, size_t size) {
        void *memory = try_realloc(old, size);

        if (memory != NULL)
                return memory;
        return reserve_move(old, size);
}

void loop_use_reserve(void) {
        uv_replace_allocator(uv_malloc, uv_realloc, uv_calloc, free);
}

/* ---- the mailbox ---- */

/* Reverses the list. The stack links the newest mail first; delivery is in the order of posting. */
static struct mail *reverse_mails(struct mail *m) {
        struct mail *reversed = NULL;

        while (m != NULL) {
                struct mail *next = m->next;

                m->next = reversed;
                reversed = m;
                m = next;
        }
        return reversed;
}

static void deliver_all(struct mailbox *box) {
        struct loop *l = CONTAINER_OF(box, struct loop, mailbox);
        struct mail *m = atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire);

        m = reverse_mails(m);
        l->delivers_several = m->next != NULL;
        while (m != NULL) {
                struct mail *next = m->next; /* the owner may reuse the mail once it is delivered */

                m->deliver(m);
                m = next;
        }
        l->delivers_several = false;
}

/* Delivers, once per round, the mails that the loop's own thread has posted. True when there were any.
 * Mails that it posts later in this round go through the eventfd and are delivered in the next round: a
 * receiver that posts again and again must not keep the loop from its sockets. */
static bool deliver_own_mail(struct loop *l) {
        if (!l->has_own_mail)
                return false;
        l->has_own_mail = false;
        l->wakes_itself = true;
        deliver_all(&l->mailbox);
        return true;
}

static void on_wake_up(uv_poll_t *poll_handle, int status, int events) {
        struct mailbox *box = CONTAINER_OF(poll_handle, struct mailbox, poll);
        eventfd_t       n;

        (void)status;
        (void)events;
        /* Reads the eventfd before it empties the mailbox. In the other order, a mail that is posted
         * between the two steps would lose its wake-up. */
        if (eventfd_read(box->wake_fd, &n) == 0)
                deliver_all(box);
}

static struct error *mailbox_init(struct mailbox *box, uv_loop_t *uv) {
        int rc;

        *box = (struct mailbox){ .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
        if (box->wake_fd < 0)
                return error_errno(errno, "unable to create an event descriptor");
        rc = uv_poll_init(uv, &box->poll, box->wake_fd);
        if (rc == 0)
                rc = uv_poll_start(&box->poll, UV_READABLE, on_wake_up);
        if (rc == 0)
                return NULL;
        close(box->wake_fd);
        return error_new(ERR_INTERNAL, "unable to watch an event descriptor: %s", uv_strerror(rc));
}

/* Runs on the loop after all threads have stopped posting. The eventfd can be closed: a thread that
 * posts into the empty mailbox writes to the eventfd next, the loop empties the mailbox only after
 * that write, and the mailbox is empty now. */
static void mailbox_close(struct mailbox *box) {
        uv_close((uv_handle_t *)&box->poll, NULL);
        assert(!atomic_load_explicit(&box->newest, memory_order_relaxed));
        close(box->wake_fd);
}

bool mailbox_post_without_wake(struct mailbox *box, struct mail *m) {
        struct mail *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);

        do {
                m->next = newest;
        } while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest, m,
                                                        memory_order_release,
                                                        memory_order_relaxed));
        return newest == NULL;
}

void mailbox_wake(struct mailbox *box) {
        struct loop *l = CONTAINER_OF(box, struct loop, mailbox);
        int          rc;

        if (l == current_loop && !l->wakes_itself) {
                l->has_own_mail = true;
                return;
        }
        rc = eventfd_write(box->wake_fd, 1);
        assert(rc == 0);
        (void)rc;
}

void mailbox_post(struct mailbox *box, struct mail *m) {
        if (mailbox_post_without_wake(box, m))
                mailbox_wake(box);
}

/* ---- timers ---- */

static struct loop_timer *first_timer(const struct loop *l) {
        struct due *first = due_heap_first(&l->timers);

        return first != NULL ? CONTAINER_OF(first, struct loop_timer, due) : NULL;
}

static void on_alarm(uv_timer_t *alarm);

/* libuv's timers count whole milliseconds from the time that libuv read last in this round (uv_now()).
 * The alarm is rounded up, since an alarm that fires early would have to be set again. */
static void set_alarm(struct loop *l, uint64_t due_ns) {
        uint64_t due_ms = due_ns / NS_PER_MS + 1;
        uint64_t now_ms = uv_now(&l->uv);

        l->alarm_ns = due_ns;
        uv_timer_start(&l->alarm, on_alarm, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* Fires the timers that are due now. Timers that their callbacks arm fire at the next alarm, even if
 * they are due already. */
static void on_alarm(uv_timer_t *alarm) {
        struct loop       *l = CONTAINER_OF(alarm, struct loop, alarm);
        uint64_t           now_ns = clock_now_ns();
        struct loop_timer *t;

        l->alarm_ns = 0; /* keeps loop_timer_arm() from setting the alarm: it is set below */
        l->firing_ns = now_ns;
        while ((t = first_timer(l)) != NULL && t->due.due_ns <= now_ns) {
                loop_timer_cancel(t);
                t->fire(t);
        }
        l->firing_ns = 0;
        l->alarm_ns = CLOCK_NEVER;
        if (t != NULL)
                set_alarm(l, t->due.due_ns);
}

void loop_timer_init(struct loop_timer *t, loop_timer_fn fire) {
        *t = (struct loop_timer){ .due.due_ns = CLOCK_NEVER, .fire = fire };
}

bool loop_timer_arm(struct loop *l, struct loop_timer *t, uint64_t due_ns) {
        assert(loop_is_current(l));
        loop_timer_cancel(t);
        if (due_ns == CLOCK_NEVER)
                return true;
        t->due.due_ns = MAX(due_ns, l->firing_ns + 1);
        if (!due_heap_push(&l->timers, &t->due))
                return false;
        t->loop = l;
        if (due_ns < l->alarm_ns)
                set_alarm(l, due_ns);
        return true;
}

void loop_timer_cancel(struct loop_timer *t) {
        if (t->loop == NULL)
                return;
        due_heap_remove(&t->loop->timers, &t->due);
        t->loop = NULL;
}

bool loop_timer_is_armed(const struct loop_timer *t) {
        return t->loop != NULL;
}

static void loop_timers_init(struct loop *l) {
        uv_timer_init(&l->uv, &l->alarm);
        due_heap_init(&l->timers);
        l->alarm_ns = CLOCK_NEVER;
}

static void loop_timers_close(struct loop *l) {
        uv_close((uv_handle_t *)&l->alarm, NULL);
}

static void loop_timers_done(struct loop *l) {
        assert(l->timers.n == 0);
        due_heap_done(&l->timers);
}

/* ---- large blocks ---- */

/* The kernel takes about a millisecond to free ten megabytes of pages. So a loop frees a large block
 * in slices, one at the end of each round, and does not sleep until all slices are freed. This struct
 * lies at the front of the block itself. */
struct discarded {
        struct discarded *next;
        size_t            left; /* bytes of the block that were not freed yet */
        bool              is_mapped;
};

static void free_slice(struct loop *l) {
        struct discarded *d = l->discarded;
        size_t            beyond = ((uintptr_t)d + d->left) % DISCARD_SLICE_BYTES;
        size_t            n = MIN(d->left, beyond > 0 ? beyond : DISCARD_SLICE_BYTES);
        bool              is_mapped = d->is_mapped;

        d->left -= n;
        l->discarded_bytes -= n;
        if (d->left > 0 && is_mapped) {
                mem_unmap((char *)d + d->left, n);
        } else if (d->left > 0) {
                mem_discard_pages((char *)d + d->left, n);
        } else {
                l->discarded = d->next;
                if (is_mapped)
                        mem_unmap(d, n);
                else
                        free(d);
        }
}

static bool discard_block(void *block, size_t size, bool is_mapped) {
        struct loop      *l = current_loop;
        struct discarded *d = block;

        if (l->discarded_bytes > MAX_DISCARDED_BYTES)
                return false;
        *d = (struct discarded){ l->discarded, size, is_mapped };
        l->discarded = d;
        l->discarded_bytes += size;
        return true;
}

static void loop_discard_done(struct loop *l) {
        mem_free_large_by(NULL);
        while (l->discarded != NULL)
                free_slice(l);
}

/* ---- a round of the loop ---- */

/* Runs the tasks; true when there was one. */
static bool run_tasks(struct list *tasks) {
        bool is_empty = list_is_empty(tasks);

        while (!list_is_empty(tasks)) {
                struct loop_task *t = LIST_ENTRY(list_first(tasks), struct loop_task, node);

                list_remove(&t->node);
                t->run(t);
        }
        return !is_empty;
}

static void on_awake(uv_idle_t *idle) {
        (void)idle; /* an active idle handle is enough: libuv polls without sleeping */
}

static void stay_awake(struct loop *l, bool is_awake) {
        if (is_awake)
                uv_idle_start(&l->awake, on_awake);
        else
                uv_idle_stop(&l->awake);
}

/* One round, between two waits. libuv has fired the timers that are due, and called back for the mailbox
 * and for each socket that was ready. Connections of HTTP have read, and deferred the parsing to
 * LOOP_HANDLE; those of gRPC have parsed what they read. libuv calls this function once before each wait,
 * and waits when it returns. */
static void run_round(uv_prepare_t *prepare) {
        struct loop *l = CONTAINER_OF(prepare, struct loop, prepare);
        struct turn *t;
        bool         has_more;

        l->n_rounds++;

        /* Input that has just arrived goes before the rest of a pipeline, so that a connection that is
         * quiet mostly does not wait for those that always have more. */
        run_tasks(&l->tasks[LOOP_HANDLE]);
        while (!turns_is_empty(&l->turns) && (t = turns_next(&l->turns, clock_now_ns())) != NULL)
                t->run(t);

        do {
                run_tasks(&l->tasks[LOOP_HANDLE]);

                /* Not before all requests of the round are in their queues: an instance that is woken
                 * for the first of them would run it alone. Before the answers are written, since the
                 * instance works while this thread does. */
                if (l->waker != NULL)
                        l->waker();

                /* After the last submission, so that answers of batches that ran on this thread are
                 * written together with all others. */
                has_more = deliver_own_mail(l);
                has_more = run_tasks(&l->tasks[LOOP_WRITE]) || has_more;
        } while (has_more); /* a delivery or the end of a write may submit requests */
        l->wakes_itself = false;

        /* Last, because no answer should wait for the kernel to free pages. */
        if (l->discarded != NULL)
                free_slice(l);

        turns_end_round(&l->turns);
        stay_awake(l, !turns_is_empty(&l->turns) || l->discarded != NULL);
}

void loop_defer(struct loop *l, enum loop_phase phase, struct loop_task *t) {
        assert(loop_is_current(l));
        if (!list_is_linked(&t->node))
                list_append(&l->tasks[phase], &t->node);
}

bool loop_take_share(struct loop *l, struct turn *t, uint64_t now_ns) {
        return turns_take(&l->turns, t, now_ns);
}

bool loop_is_late(uint64_t now_ns) {
        return current_loop != NULL && turns_is_late(&current_loop->turns, now_ns);
}

void loop_wait_turn(struct loop *l, struct turn *t) {
        assert(loop_is_current(l));
        turns_wait(&l->turns, t);
}

bool loop_set_waker(void (*wake)(void)) {
        struct loop *l = current_loop;

        if (l == NULL || (l->waker != NULL && l->waker != wake))
                return false;
        l->waker = wake;
        return true;
}

/* ---- ticks ---- */

/* After a burst of requests the allocator keeps freed memory. This returns it to the system once the
 * loop is quiet. A busy loop would soon need the memory again, and would wait for the allocator's
 * locks. */
static void trim_memory(struct loop *l, bool is_quiet) {
        buf_pool_trim(l->pool);
        if (is_quiet && (l->was_busy || l->n_ended_conns >= TRIM_ENDED_CONNS)) {
                mem_trim();
                l->n_ended_conns = 0;
        }
        if (is_quiet)
                heap_end_trim(); /* also alone: one large page of metrics or index makes no loop busy */
        l->was_busy = !is_quiet;
}

static void on_tick(uv_timer_t *timer) {
        struct loop *l = CONTAINER_OF(timer, struct loop, tick);

        if (l->conn_ops != NULL)
                l->conn_ops->tick(l, clock_now_ns());
        l->n_ticks++;
        if (!list_is_empty(&l->conns)) {
                l->n_idle_ticks = 0;
                if (l->n_ticks % TICKS_PER_TRIM != 0)
                        return;
                trim_memory(l, l->n_rounds < QUIET_ROUNDS);
                l->n_rounds = 0;
                return;
        }
        l->n_idle_ticks++;
        trim_memory(l, l->n_idle_ticks >= QUIET_TICKS);
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
        l->n_ended_conns++;
        atomic_fetch_sub_explicit(&l->n_conns, 1, memory_order_relaxed);
}

/* ---- work that blocks ---- */

/* The thread of one struct loop_work. Blocking work does not share the pool of loop_compute(): reading
 * the index must not wait for models that take minutes to load, and a thread that has lowered its
 * priority cannot raise it again. */
struct work_thread {
        struct loop_work *work; /* borrowed from its owner */
        struct loop      *loop; /* borrowed */
        struct thread     thread;
        struct error     *refusal; /* owned; NULL once a thread was started */
        struct mail       done;
        struct list_node
                node; /* in loop->waiting before the thread starts, in loop->finished after it
                                 * has ended */
};

static void work_thread_main(void *arg) {
        struct work_thread *t = arg;

        if (t->work->is_background)
                thread_enter_background();
        if (t->work->is_low_priority)
                thread_lower_priority();
        t->work->run(t->work);
        mailbox_post(loop_mailbox(t->loop), &t->done);
}

static void free_work_thread(struct work_thread *t) {
        list_remove(&t->node);
        free(t);
}

/* Does not wait: a thread that has posted its result may get a CPU much later, and ends only then. */
static void join_finished_threads(struct loop *l) {
        LIST_FOR_EACH(&l->finished, node) {
                struct work_thread *t = LIST_ENTRY(node, struct work_thread, node);

                if (thread_try_join(&t->thread))
                        free_work_thread(t);
        }
}

static void join_work_threads(struct loop *l) {
        while (!list_is_empty(&l->finished)) {
                struct work_thread *t =
                        LIST_ENTRY(list_first(&l->finished), struct work_thread, node);

                thread_join(&t->thread);
                free_work_thread(t);
        }
}

/* A refusal is delivered as a result is: the owner does not expect `done` before
 * loop_start_work_thread() has returned. */
static void start_or_refuse(struct work_thread *t) {
        AUTO_ERROR err = thread_start(&t->thread, "neso-work", work_thread_main, t);

        if (err == NULL)
                return;
        t->refusal = error_new(ERR_UNAVAILABLE, "no thread for this request: %s", err->message);
        mailbox_post(loop_mailbox(t->loop), &t->done);
}

static void start_next_thread(struct loop *l) {
        struct list_node *first;

        if (list_is_empty(&l->waiting))
                return;
        first = list_first(&l->waiting);
        list_remove(first);
        l->n_work_threads++;
        start_or_refuse(LIST_ENTRY(first, struct work_thread, node));
}

static void on_thread_done(struct mail *m) {
        struct work_thread *t = CONTAINER_OF(m, struct work_thread, done);
        struct loop_work   *w = t->work;
        struct error       *refusal = STEAL(t->refusal);

        t->loop->n_work_threads--;
        join_finished_threads(t->loop);
        start_next_thread(t->loop);
        if (refusal != NULL) {
                w->refuse(w, refusal);
                free(t);
        } else {
                list_append(&t->loop->finished, &t->node);
        }
        w->done(w);
}

void loop_start_work_thread(struct loop *l, struct loop_work *w) {
        struct work_thread *t = mem_zalloc(sizeof(*t));

        join_finished_threads(l);
        t->work = w;
        t->loop = l;
        t->done.deliver = on_thread_done;
        list_append(&l->waiting, &t->node);
        if (l->n_work_threads < MAX_WORK_THREADS)
                start_next_thread(l);
}

/* ---- work that computes, on the threads that the loops of a group share ---- */

/* Runs on a thread of the pool. The owner may free the work as soon as its mail is posted. */
static void run_compute(struct work *queued) {
        struct loop_work *w = CONTAINER_OF(queued, struct loop_work, queued);

        w->run(w);
        mailbox_post(loop_mailbox(w->loop), &w->back);
}

static void on_computed(struct mail *m) {
        struct loop_work *w = CONTAINER_OF(m, struct loop_work, back);

        w->done(w);
}

static struct work_pool *pool_of(const struct loop_work *w) {
        return w->is_short ? w->loop->short_workers : w->loop->workers;
}

void loop_compute(struct loop *l, struct loop_work *w) {
        w->loop = l;
        w->queued = (struct work){ .run = run_compute };
        w->back = (struct mail){ .deliver = on_computed };
        w->is_cancelled = false;
        work_pool_push(pool_of(w), &w->queued);
}

void loop_compute_cancel(struct loop_work *w) {
        if (!work_pool_take_back(pool_of(w), &w->queued))
                return;
        w->is_cancelled = true;
        mailbox_post(loop_mailbox(w->loop), &w->back);
}

/* ---- opening and closing ---- */

static void on_stop(struct mail *m) {
        struct loop *l = CONTAINER_OF(m, struct loop, stop);

        uv_close((uv_handle_t *)&l->tick, NULL);
        uv_close((uv_handle_t *)&l->prepare, NULL);
        uv_close((uv_handle_t *)&l->awake, NULL);
        loop_discard_done(l);
        loop_timers_close(l);
        mailbox_close(&l->mailbox);
}

/* The threads of a group report here that their loops are open. */
struct opening {
        struct mutex  lock; /* rank LOCK_LEAF; guards the fields below */
        struct cond   changed;
        size_t        n_left;
        struct error *err; /* the first failure */
};

static struct error *open_loop(struct loop *l) {
        int           rc = uv_loop_init(&l->uv);
        struct error *err;

        if (rc < 0)
                return error_new(ERR_INTERNAL, "unable to create an event loop: %s",
                                 uv_strerror(rc));
        err = mailbox_init(&l->mailbox, &l->uv);
        if (err != NULL) {
                uv_run(&l->uv, UV_RUN_DEFAULT);
                uv_loop_close(&l->uv);
                return err;
        }
        uv_timer_init(&l->uv, &l->tick);
        uv_prepare_init(&l->uv, &l->prepare);
        uv_prepare_start(&l->prepare, run_round);
        loop_timers_init(l);
        uv_idle_init(&l->uv, &l->awake);
        turns_init(&l->turns);
        l->is_open = true;
        return NULL;
}

static void on_opened(struct opening *o, struct error *err) {
        MUTEX_GUARD(&o->lock);

        o->n_left--;
        if (o->err == NULL)
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

/* The main function of a loop's thread: opens the loop, runs it until its last handle is closed, and
 * closes it. One thread does all three, because libuv (since 1.45) may give a loop an io_uring: when
 * that is closed, the kernel interrupts the system calls of every thread that has opened or used it. */
static void loop_main(void *arg) {
        struct loop    *l = arg;
        struct opening *o = STEAL(l->opening);
        struct error   *err = open_loop(l);
        int             rc;

        current_loop = l;
        on_opened(o, err);
        if (!l->is_open)
                return;
        mem_free_large_by(discard_block);
        uv_run(&l->uv, UV_RUN_DEFAULT);
        rc = uv_loop_close(&l->uv);
        assert(rc == 0);
        (void)rc;
}

static void loop_init(struct loop *l, const char *name, size_t index, struct opening *o) {
        list_init(&l->waiting);
        list_init(&l->finished);
        for (size_t i = 0; i < N_LOOP_PHASES; i++)
                list_init(&l->tasks[i]);
        list_init(&l->conns);
        l->pool = buf_pool_new(POOL_KEPT_BYTES);
        l->index = index;
        l->name = mem_printf("%s-%zu", name, index);
        l->stop.deliver = on_stop;
        l->opening = o;
}

/* The loop's thread has ended, or was never started. */
static void loop_done(struct loop *l) {
        join_work_threads(l);
        loop_timers_done(l);
        buf_pool_unref(l->pool);
        if (l->tls != NULL)
                l->free_tls(l->tls);
        free(l->writes.memory);
        free(l->name);
}

/* Starts all threads at the same time. Returns the error of a thread that cannot start, or of a loop
 * that cannot open. */
static struct error *open_all(struct loop_group *g, struct opening *o) {
        struct error *err = NULL, *failure;

        for (size_t i = 0; err == NULL && i < g->n_loops; i++) {
                mutex_lock(&o->lock);
                o->n_left++;
                mutex_unlock(&o->lock);
                err = thread_start(&g->loops[i].thread, g->loops[i].name, loop_main, &g->loops[i]);
                if (err != NULL)
                        on_opened(o, NULL);
        }
        failure = wait_until_open(o);
        if (err == NULL)
                return failure;
        error_free(failure);
        return err;
}

/* Whether as many descriptors are free as the first loop opens; errno says why not. */
static bool has_first_descriptors(void) {
        int    fds[FIRST_LOOP_PIPES][2], error = 0;
        size_t n = 0;

        while (n < FIRST_LOOP_PIPES && pipe2(fds[n], O_CLOEXEC) == 0)
                n++;
        if (n < FIRST_LOOP_PIPES)
                error = errno;
        while (n > 0) {
                n--;
                close(fds[n][0]);
                close(fds[n][1]);
        }
        errno = error;
        return error == 0;
}

static void open_and_close(void *arg) {
        struct error **ret = arg;
        uv_loop_t      first;
        int            rc = uv_loop_init(&first);

        if (rc < 0)
                *ret = error_new(ERR_UNAVAILABLE, "unable to create an event loop: %s",
                                 uv_strerror(rc));
        else
                uv_loop_close(&first);
}

/* With the first loop of a process libuv opens a pipe of its own, and ends the process when that fails.
 * So a loop is opened and closed here, after a look whether descriptors are free. On a thread of its own,
 * for the reason that loop_main() gives: this one may be the main thread. */
static struct error *open_first_loop(void) {
        static atomic_bool is_done;
        struct thread      thread = { 0 };
        struct error      *err = NULL;

        if (atomic_load(&is_done))
                return NULL;
        if (!has_first_descriptors())
                return error_new(ERR_UNAVAILABLE, "unable to create an event loop: %s",
                                 strerror(errno));
        TRY(thread_start(&thread, "first-loop", open_and_close, &err));
        thread_join(&thread);
        if (err == NULL)
                atomic_store(&is_done, true);
        return err;
}

struct error *loop_group_new(const char *name, size_t n_loops, struct loop_group **ret) {
        struct opening     opening = { 0 };
        struct loop_group *g;
        struct error      *err;

        assert(n_loops > 0);
        TRY(open_first_loop());
        g = mem_zalloc(sizeof(*g) + n_loops * sizeof(g->loops[0]));
        g->workers =
                work_pool_new("neso-compute", MAX(thread_cpu_count() / 2, 1), WORK_LOW_PRIORITY);
        g->short_workers =
                work_pool_new("neso-compute", MAX(thread_cpu_count() / 2, 1), WORK_LOW_PRIORITY);
        g->n_loops = n_loops;
        mutex_init(&opening.lock, LOCK_LEAF);
        cond_init(&opening.changed);
        for (size_t i = 0; i < n_loops; i++) {
                loop_init(&g->loops[i], name, i, &opening);
                g->loops[i].workers = g->workers;
                g->loops[i].short_workers = g->short_workers;
        }
        err = open_all(g, &opening);
        cond_done(&opening.changed);
        mutex_done(&opening.lock);
        if (err != NULL) {
                loop_group_free(g);
                return err;
        }
        *ret = g;
        return NULL;
}

void loop_group_free(struct loop_group *g) {
        if (g == NULL)
                return;
        work_pool_free(g->workers); /* before the loops: its threads post to them */
        work_pool_free(g->short_workers);
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
               atomic_load_explicit(&l->n_arriving, memory_order_relaxed);
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
