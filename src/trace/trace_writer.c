/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_writer.h"

#include "base/clock.h"
#include "base/heap_end.h"
#include "base/mem.h"
#include "trace/trace_record.h"
#include "trace/trace_settings.h"

/* Records of so many bytes are a burst: what the sink needed for fewer may stay in the heap of the thread. To return it
 * takes longer than to write one trace. */
#define BURST_BYTES ((size_t)64 << 10)

struct trace_writer {
        struct trace_writer_options options;
        struct thread               thread;
        size_t                      n_passed; /* of the thread: bytes since memory was returned */

        struct mutex         lock; /* rank LOCK_LEAF; guards everything below */
        struct cond          changed;
        struct trace_record *first, *last; /* owned */
        size_t               n_spans;
        size_t               n_bytes;
        uint64_t             oldest_ns; /* arrival of the first record */
        bool                 is_woken;
        bool                 is_stopping;
        uint64_t             deadline_ns; /* deadline of the stop; CLOCK_NEVER before a stop */
        struct cond          ended;       /* signalled when `has_ended` is set */
        bool                 has_ended;   /* the sink has all records and has finished */
};

static void drop(struct trace_writer *w, struct trace_record *r) {
        w->options.on_drop(w->options.owner, 1);
        atomic_fetch_add(&r->source->n_dropped, 1);
        trace_record_free(r);
        trace_writer_wake(w); /* the sink may have waited for this record */
}

static bool is_full_locked(const struct trace_writer *w, const struct trace_record *r) {
        if (w->first == NULL)
                return false;
        return w->n_spans + trace_record_n_spans(r) > w->options.max_spans ||
               w->n_bytes + trace_record_bytes(r) > w->options.max_bytes;
}

void trace_writer_push(struct trace_writer *w, struct trace_record *r) {
        bool is_dropped;

        r->next = NULL;
        mutex_lock(&w->lock);
        is_dropped = is_full_locked(w, r);
        if (!is_dropped) {
                if (w->last != NULL)
                        w->last->next = r;
                else
                        w->first = r;
                w->last = r;
                if (w->first == r)
                        w->oldest_ns = clock_now_ns();
                w->n_spans += trace_record_n_spans(r);
                w->n_bytes += trace_record_bytes(r);
                cond_signal(&w->changed);
        }
        mutex_unlock(&w->lock);
        if (is_dropped)
                drop(w, r);
}

void trace_writer_wake(struct trace_writer *w) {
        MUTEX_GUARD(&w->lock);
        w->is_woken = true;
        cond_signal(&w->changed);
}

bool trace_writer_wait(struct trace_writer *w, uint64_t until_ns) {
        MUTEX_GUARD(&w->lock);

        for (;;) {
                if (w->is_stopping)
                        return false;
                if (clock_now_ns() >= until_ns)
                        return true;
                cond_wait_until(&w->changed, &w->lock, until_ns);
        }
}

bool trace_writer_has_time(struct trace_writer *w) {
        MUTEX_GUARD(&w->lock);
        return clock_now_ns() < w->deadline_ns;
}

void trace_writer_count_dropped(struct trace_writer *w, uint64_t n) {
        w->options.on_drop(w->options.owner, n);
}

/* Returns the records for one call of the sink, linked; at least one. */
static struct trace_record *take_batch_locked(struct trace_writer *w) {
        struct trace_record *first = w->first, *last = first;
        size_t               n = 0;

        for (struct trace_record *r = first; r != NULL; r = r->next) {
                size_t spans = trace_record_n_spans(r);

                if (n > 0 && n + spans > w->options.batch_spans)
                        break;
                n += spans;
                w->n_spans -= spans;
                w->n_bytes -= trace_record_bytes(r);
                last = r;
        }
        w->first = last->next;
        if (w->first == NULL)
                w->last = NULL;
        last->next = NULL;
        return first;
}

/* True when a batch is due. Otherwise *ret_due_ns is the time at which it will be. */
static bool is_due_locked(const struct trace_writer *w, uint64_t *ret_due_ns) {
        *ret_due_ns = CLOCK_NEVER;
        if (w->first == NULL)
                return false;
        if (w->is_stopping || w->n_spans >= w->options.batch_spans)
                return true;
        *ret_due_ns = w->oldest_ns + w->options.delay_ns;
        return clock_now_ns() >= *ret_due_ns;
}

/* Passes a batch to the sink. After the last one of a burst the memory that the sink needed for it is returned. The lock
 * is released meanwhile. */
static void pass_batch_locked(struct trace_writer *w) {
        struct trace_sink   *sink = w->options.sink;
        size_t               before = w->n_bytes;
        struct trace_record *batch = take_batch_locked(w);
        bool                 is_end;

        w->n_passed += before - w->n_bytes;
        is_end = w->first == NULL && w->n_passed >= BURST_BYTES;
        w->oldest_ns = clock_now_ns(); /* an approximation for the rest of the queue */
        mutex_unlock(&w->lock);
        sink->ops->take(sink, batch);
        if (is_end) {
                w->n_passed = 0;
                heap_end_trim();
        }
        mutex_lock(&w->lock);
}

static void writer_main(void *arg) {
        struct trace_writer *w = arg;
        struct trace_sink   *sink = w->options.sink;
        uint64_t             due_ns;

        mutex_lock(&w->lock);
        for (;;) {
                if (is_due_locked(w, &due_ns)) {
                        pass_batch_locked(w);
                } else if (w->is_woken) {
                        w->is_woken = false;
                        mutex_unlock(&w->lock);
                        if (sink->ops->on_change != NULL)
                                sink->ops->on_change(sink);
                        mutex_lock(&w->lock);
                } else if (w->is_stopping) {
                        break;
                } else {
                        cond_wait_until(&w->changed, &w->lock, due_ns);
                }
        }
        mutex_unlock(&w->lock);
        sink->ops->finish(sink);
        mutex_lock(&w->lock);
        w->has_ended = true;
        cond_signal(&w->ended);
        mutex_unlock(&w->lock);
}

static void free_writer(struct trace_writer *w) {
        w->options.sink->ops->free(w->options.sink);
        cond_done(&w->changed);
        cond_done(&w->ended);
        mutex_done(&w->lock);
        free(w);
}

struct error *trace_writer_start(const struct trace_writer_options *o, struct trace_writer **ret) {
        struct trace_writer *w = mem_zalloc(sizeof(*w));

        w->options = *o;
        w->deadline_ns = CLOCK_NEVER;
        mutex_init(&w->lock, LOCK_LEAF);
        cond_init(&w->changed);
        cond_init(&w->ended);
        o->sink->writer = w;
        TRY_OR(thread_start(&w->thread, "neso-traces", writer_main, w), free_writer(w));
        *ret = w;
        return NULL;
}

static void begin_to_stop_locked(struct trace_writer *w) {
        w->is_stopping = true;
        w->deadline_ns = clock_now_ns() + w->options.stop_ns;
        cond_signal(&w->changed);
}

void trace_writer_flush(struct trace_writer *w) {
        bool has_ended;

        mutex_lock(&w->lock);
        begin_to_stop_locked(w);
        while (!w->has_ended && cond_wait_until(&w->ended, &w->lock, w->deadline_ns))
                ;
        has_ended = w->has_ended;
        mutex_unlock(&w->lock);
        if (has_ended) /* the thread ends at once */
                thread_join(&w->thread);
}

void trace_writer_stop(struct trace_writer *w) {
        if (w == NULL)
                return;
        mutex_lock(&w->lock);
        begin_to_stop_locked(w);
        mutex_unlock(&w->lock);
        thread_join(&w->thread);
        /* Records that came after a flush has ended the thread. */
        while (w->first != NULL) {
                struct trace_record *r = w->first;

                w->first = r->next;
                drop(w, r);
        }
        free_writer(w);
}
