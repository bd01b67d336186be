/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules are those of the reference server's dynamic batcher, observed from outside:
 *   1. A request counts as max(1, its batch size) rows. A batch has at most max_batch_size rows, but a
 *      single request always runs.
 *   2. A batch ends before a request whose shape must not be mixed with that of the others, and before
 *      a request that the model's custom batching does not admit.
 *   3. When the rows of the first requests equal a preferred size, the largest such size is the
 *      preferred batch. When the next request would exceed the largest preferred size and no size was
 *      equal, the requests so far are the preferred batch.
 *   4. Requests that were one batch in the previous stage of a chain, and are to stay one (struct
 *      request, group), run by themselves, whatever the preferred sizes and the delay are.
 *   5. If there is a preferred batch, and the oldest request is younger than the queue delay or there
 *      is no delay, exactly that batch runs. Otherwise all requests run when the batch cannot grow, has
 *      reached the largest preferred size, the delay is over, or there is no delay. Otherwise the batch
 *      waits for the rest of the delay.
 * With adaptive batching (sched/adaptive.h), which the reference server does not have, a batch that
 * would wait may run earlier. It also runs earlier once the model is unloaded or replaced or the server
 * stops, since clients send no more requests then.
 */
#include "sched/policy.h"

#include "base/clock.h"
#include "base/mem.h"
#include "config/batching_config.h"
#include "infer/batch_filter.h"
#include "infer/request_shape.h"
#include "sched/instance.h"

struct policy_dynamic {
        struct policy          base;
        struct batching_config batching;
        struct batch_filter   *filter; /* borrowed; NULL: no custom batching */
        struct adaptive        adaptive;
        bool                   equal_shapes;
        bool                   is_draining;
        uint64_t n_delayed; /* nothing runs before this many requests are queued; 0 after that */
};

/* The batch that the first requests of the queue would form (rules 1 to 4). */
struct forming {
        uint64_t rows;
        uint32_t n;
        uint32_t n_preferred; /* requests up to the largest preferred size reached; 0: none */
        bool     cannot_grow;
        uint64_t oldest_ns;
        uint64_t group; /* group of all requests of the batch */
};

static uint64_t group_of(const struct request *req) {
        return UNLIKELY(req->is_inner) ? req->group : 0;
}

static bool is_preferred(const struct batching_config *policy, uint64_t rows) {
        for (size_t i = 0; i < policy->n_preferred_sizes; i++)
                if (policy->preferred_sizes[i] == rows)
                        return true;
        return false;
}

/* The first request of a batch runs in any case, but the filter counts it. */
static bool is_admitted(struct batch_filter *filter, struct request *req, const struct forming *f) {
        return filter->ops->admits(filter, req) || f->n == 0;
}

static struct forming form_batch(const struct policy_dynamic *d, struct request_queue *q) {
        const struct batching_config *batching = &d->batching;
        uint64_t                      largest = batching_config_largest_preferred(batching);
        struct forming                f = { .oldest_ns = CLOCK_NEVER };
        struct queue_walk             w = queue_walk_begin(q);
        const struct request         *first = NULL;
        struct request               *req;

        while ((req = queue_walk_next(&w)) != NULL) {
                uint64_t rows = MAX(req->batch_size, 1);

                if (UNLIKELY(f.n > 0 && group_of(req) != f.group)) {
                        f.cannot_grow = true;
                        break;
                }
                if (f.n > 0) {
                        if (f.n_preferred == 0 && largest > 0 && f.rows + rows > largest)
                                f.n_preferred = f.n;
                        if (f.rows + rows > batching->max_batch_size ||
                            (d->equal_shapes && !request_same_shape(first, req))) {
                                f.cannot_grow = true;
                                break;
                        }
                } else {
                        first = req;
                        f.group = group_of(req);
                }
                if (UNLIKELY(d->filter != NULL) && !is_admitted(d->filter, req, &f)) {
                        f.cannot_grow = true;
                        break;
                }
                f.rows += rows;
                f.n++;
                f.oldest_ns = MIN(f.oldest_ns, req->times.queue_start_ns);
                if (is_preferred(batching, f.rows))
                        f.n_preferred = f.n;
        }
        if (UNLIKELY(f.group != 0)) {
                f.cannot_grow =
                        true; /* the other requests of the group are in the batch or have ended */
                f.n_preferred = 0;
        }
        return f;
}

static struct forming form_with_filter(const struct policy_dynamic *d, struct request_queue *q) {
        struct batch_filter *filter = d->filter;
        struct forming       f;

        if (LIKELY(filter == NULL))
                return form_batch(d, q);
        filter->ops->begin(filter);
        f = form_batch(d, q);
        filter->ops->end(filter);
        return f;
}

/* TRITONSERVER_DELAY_SCHEDULER: lets a test fill the queue before the first batch is formed. */
static bool is_held_back(struct policy_dynamic *d, const struct request_queue *q) {
        if (LIKELY(d->n_delayed == 0))
                return false;
        if (q->n_waiting < d->n_delayed)
                return true;
        d->n_delayed = 0;
        return false;
}

static struct dispatch run(const struct sched_view *view, uint32_t n, enum dispatch_reason reason) {
        return (struct dispatch){ .verdict = BATCH_RUN,
                                  .reason = reason,
                                  .on = sched_view_first_idle(view),
                                  .n_requests = n };
}

/* True when the batch runs before its delay is over. Called after that as well: then adaptive
 * batching forgets clients that did not send. */
static bool runs_early(struct policy_dynamic *d, const struct sched_view *view,
                       const struct forming *f, uint64_t now_ns, uint64_t *ret_until_ns) {
        const struct instance *in = sched_view_first_idle(view);

        *ret_until_ns = CLOCK_NEVER;
        if (in == NULL)
                return false;
        return adaptive_runs(&d->adaptive,
                             &(struct adaptive_view){ .now_ns = now_ns,
                                                      .n_requests = view->queue->n_waiting,
                                                      .rows_waiting = view->queue->n_rows,
                                                      .rows_running = view->rows_running,
                                                      .oldest_ns = f->oldest_ns,
                                                      .free_ns = in->free_ns,
                                                      .max_rows = d->batching.max_batch_size },
                             ret_until_ns);
}

static struct dispatch wait_for_more(const struct policy_dynamic *d, const struct request_queue *q,
                                     const struct forming *f, uint64_t sooner_ns) {
        uint64_t until_ns;

        if (__builtin_add_overflow(f->oldest_ns, d->batching.max_queue_delay_ns, &until_ns))
                until_ns = CLOCK_NEVER;
        until_ns = MIN(until_ns, sooner_ns);
        return (struct dispatch){ .verdict = BATCH_WAIT,
                                  .wait_until_ns = MIN(until_ns, request_queue_next_due(q)) };
}

static struct dispatch decide(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        struct policy_dynamic        *d = CONTAINER_OF(p, struct policy_dynamic, base);
        const struct batching_config *batching = &d->batching;
        uint64_t                      delay_ns = batching->max_queue_delay_ns;
        struct request_queue         *q = view->queue;

        if (q->n_waiting == 0 || is_held_back(d, q))
                return (struct dispatch){ .verdict = BATCH_NOTHING };

        struct forming f = form_with_filter(d, q);
        uint64_t       age_ns = now_ns > f.oldest_ns ? now_ns - f.oldest_ns : 0;
        bool           is_late = delay_ns > 0 && age_ns >= delay_ns;
        uint64_t       sooner_ns = CLOCK_NEVER;

        if (f.n_preferred > 0 && !is_late)
                return run(view, f.n_preferred, DISPATCH_FULL);
        if (f.cannot_grow || f.rows >= batching_config_largest_preferred(batching))
                return run(view, f.n, DISPATCH_FULL);
        if (delay_ns == 0)
                return run(view, f.n, DISPATCH_DUE);

        bool is_early = UNLIKELY(d->adaptive.mode != ADAPTIVE_OFF) &&
                        runs_early(d, view, &f, now_ns, &sooner_ns);

        if (is_late)
                return run(view, f.n, DISPATCH_DUE);
        if (is_early)
                return run(view, f.n, adaptive_reason(&d->adaptive));
        if (UNLIKELY(d->is_draining))
                return run(view, f.n, DISPATCH_DRAIN);
        return wait_for_more(d, q, &f, sooner_ns);
}

static void arrived(struct policy *p, const struct sched_view *view, struct request *req) {
        (void)req;
        adaptive_arrived(&CONTAINER_OF(p, struct policy_dynamic, base)->adaptive,
                         view->queue->n_rows, view->rows_running);
}

static void executed(struct policy *p, const struct execution *done) {
        adaptive_executed(&CONTAINER_OF(p, struct policy_dynamic, base)->adaptive, done->took_ns);
}

static void drain(struct policy *p, uint64_t now_ns) {
        struct policy_dynamic *d = CONTAINER_OF(p, struct policy_dynamic, base);

        (void)now_ns;
        d->is_draining = true;
        d->n_delayed = 0;
}

static void free_dynamic(struct policy *p) {
        struct policy_dynamic *d = CONTAINER_OF(p, struct policy_dynamic, base);

        batching_config_done(&d->batching);
        free(d);
}

struct policy *policy_dynamic_new(const struct policy_dynamic_options *options) {
        static const struct policy_ops plain = { .decide = decide,
                                                 .drain = drain,
                                                 .free = free_dynamic };
        static const struct policy_ops adaptive = { .decide = decide,
                                                    .arrived = arrived,
                                                    .executed = executed,
                                                    .drain = drain,
                                                    .free = free_dynamic };
        struct policy_dynamic         *d = mem_zalloc(sizeof(*d));

        *d = (struct policy_dynamic){
                .base = { .ops = options->adaptive == ADAPTIVE_OFF ? &plain : &adaptive,
                          .limits = &d->batching },
                .batching = *options->batching,
                .filter = options->filter,
                .adaptive = { .mode = options->adaptive,
                              .delay_ns = options->batching->max_queue_delay_ns },
                .equal_shapes = options->equal_shapes,
                .n_delayed = options->n_delayed,
        };
        *options->batching = (struct batching_config){ 0 };
        return &d->base;
}
