/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cached_scheduler.h"

#include "base/mem.h"
#include "cache/response_cache.h"
#include "infer/infer_thread.h"
#include "infer/scheduler.h"

struct cached_scheduler {
        struct scheduler       base;
        struct scheduler_ops   ops;   /* without released() if the inner scheduler has none */
        struct scheduler      *inner; /* owned */
        struct response_cache *cache; /* borrowed: the server's */
};

static struct cached_scheduler *self(struct scheduler *s) {
        return CONTAINER_OF(s, struct cached_scheduler, base);
}

static struct error *submit_cached(struct scheduler *s, struct request *req) {
        struct scheduler *inner = self(s)->inner;
        struct error     *err;

        if (response_cache_answer(self(s)->cache, req, inner))
                return NULL;
        infer_thread_forget_time(
                infer_thread_self()); /* the key was computed from all the inputs */
        err = inner->ops->submit(inner, req);
        if (err != NULL)
                response_cache_forget(req);
        return err;
}

static void cancel_cached(struct scheduler *s, struct request *req) {
        struct scheduler *inner = self(s)->inner;

        inner->ops->cancel(inner, req);
}

static bool released(struct scheduler *s, struct request *req, uint32_t flags) {
        struct scheduler *inner = self(s)->inner;

        return inner->ops->released(inner, req, flags);
}

static struct error *add_executor(struct scheduler *s, struct executor *e) {
        struct scheduler *inner = self(s)->inner;

        return inner->ops->add_executor(inner, e);
}

static void remove_executor(struct scheduler *s, struct executor *e) {
        struct scheduler *inner = self(s)->inner;

        inner->ops->remove_executor(inner, e);
}

static void drain_cached(struct scheduler *s) {
        struct scheduler *inner = self(s)->inner;

        inner->ops->drain(inner);
}

static void retire(struct scheduler *s) {
        struct scheduler *inner = self(s)->inner;

        if (inner->ops->retire != NULL)
                inner->ops->retire(inner);
}

static void free_both(struct scheduler *s) {
        struct scheduler *inner = self(s)->inner;

        inner->ops->free(inner);
        free(self(s));
}

struct scheduler *cached_scheduler_new(struct response_cache *cache, struct scheduler *inner) {
        static const struct scheduler_ops all = {
                .submit = submit_cached,
                .cancel = cancel_cached,
                .released = released,
                .add_executor = add_executor,
                .remove_executor = remove_executor,
                .drain = drain_cached,
                .retire = retire,
                .free = free_both,
        };
        struct cached_scheduler *s = mem_zalloc(sizeof(*s));

        s->ops = all;
        if (inner->ops->released == NULL)
                s->ops.released = NULL;
        s->base = (struct scheduler){
                .ops = &s->ops,
                .order = inner->order,
                .may_reschedule = inner->may_reschedule,
                .may_split = inner->may_split,
        };
        s->inner = inner;
        s->cache = cache;
        return &s->base;
}
