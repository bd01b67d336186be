/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/cancel_watch.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "infer/response_stream.h"

struct cancel_watch {
        struct list_node        node;   /* in `watches`, until it is called */
        struct response_stream *stream; /* ref */
        cancel_watch_fn         call;
        void                   *userp;
        bool                    is_running;
};

/* One list for all inferences: only those have a watch whose executions wait for others, and it is searched
 * only when such an inference is cancelled. */
static struct {
        struct mutex lock; /* guards everything here, and the fields of the watches */
        struct cond  changed;
        struct list  watches;
} all = { .lock = { .rank = LOCK_LEAF }, .watches = { { &all.watches.head, &all.watches.head } } };

/* Releases the lock during the call. The watch stays, since cancel_watch_free() waits. */
static void call_locked(struct cancel_watch *w) {
        list_remove(&w->node);
        w->is_running = true;
        mutex_unlock(&all.lock);
        w->call(w->userp);
        mutex_lock(&all.lock);
        w->is_running = false;
        cond_broadcast(&all.changed);
}

static struct cancel_watch *find_locked(const struct response_stream *stream) {
        LIST_FOR_EACH(&all.watches, node) {
                struct cancel_watch *w = LIST_ENTRY(node, struct cancel_watch, node);

                if (w->stream == stream)
                        return w;
        }
        return NULL;
}

static void call_all(struct response_stream *stream) {
        struct cancel_watch *w;

        mutex_lock(&all.lock);
        while ((w = find_locked(stream)) != NULL)
                call_locked(w);
        mutex_unlock(&all.lock);
}

void cancel_watch_cancel(struct response_stream *stream) {
        response_stream_cancel(stream);
        if ((atomic_load(&stream->marks) & STREAM_IS_WATCHED) != 0)
                call_all(stream);
}

struct cancel_watch *cancel_watch_new(struct response_stream *stream, cancel_watch_fn call,
                                      void *userp) {
        struct cancel_watch *w = try_zalloc(sizeof(*w));

        if (w == NULL)
                return NULL;
        response_stream_ref(stream);
        w->stream = stream;
        w->call = call;
        w->userp = userp;
        mutex_lock(&all.lock);
        list_append(&all.watches, &w->node);
        /* A canceller sets the flag, then reads the marks; this thread writes the mark, then reads the
         * flag. At least one of them sees the other, and the list decides which one calls. */
        atomic_fetch_or(&stream->marks, STREAM_IS_WATCHED);
        if (atomic_load(&stream->is_cancelled) && list_is_linked(&w->node))
                call_locked(w);
        mutex_unlock(&all.lock);
        return w;
}

void cancel_watch_free(struct cancel_watch *w) {
        if (w == NULL)
                return;
        mutex_lock(&all.lock);
        while (w->is_running)
                cond_wait(&all.changed, &all.lock);
        if (list_is_linked(&w->node))
                list_remove(&w->node);
        mutex_unlock(&all.lock);
        response_stream_unref(w->stream);
        free(w);
}
