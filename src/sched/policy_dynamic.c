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
 *      request, kept_batch), run by themselves, whatever the preferred sizes and the delay are.
 *   5. If there is a preferred batch, and the oldest request is younger than the queue delay or there
 *      is no delay, exactly that batch runs. Otherwise all requests run when the batch cannot grow, has
 *      reached the largest preferred size, the delay is over, or there is no delay. Otherwise the batch
 *      waits for the rest of the delay.
 * With adaptive batching (sched/adaptive.h), which the reference server does not have, a batch that
 * would wait may run earlier. It also runs earlier once the model is unloaded or replaced or the server
 * stops, since clients send no more requests then.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "config/batching_config.h"
#include "infer/batch_filter.h"
#include "infer/request_shape.h"
#include "sched/instance.h"
#include "sched/policy.h"

/* The batch that the first requests of the queue would form (rules 1 to 4). */
struct forming {
        const struct request *first; /* borrowed; NULL: none */
        uint64_t              rows;
        uint32_t              n;
        uint32_t n_preferred; /* requests up to the largest preferred size reached; 0: none */
        bool     cannot_grow;
        uint64_t oldest_ns;
        uint64_t kept_batch; /* kept_batch of all requests of the batch */
};

struct policy_dynamic {
        struct policy          base;
        struct batching_config batching;
        struct batch_filter   *filter; /* borrowed; NULL: no custom batching */
        struct adaptive        adaptive;
        bool                   is_draining;
        uint64_t               largest_preferred; /* 0: no preferred sizes */
        uint64_t n_delayed;    /* nothing runs before this many requests are queued; 0 after that */
        struct forming formed; /* the batch of the queue's version `formed_version` */
        uint64_t       formed_version; /* 0: none */
};

/* ---- forming a batch ------------------------------------------------------------------------- */

static bool is_preferred(const struct batching_config *policy, uint64_t rows) {
        for (size_t i = 0; i < policy->n_preferred_sizes; i++)
                if (policy->preferred_sizes[i] == rows)
                        return true;
        return false;
}

/* Returns the largest preferred size that is more than `from` and at most `to`; 0: none. */
static uint64_t largest_preferred_between(const struct batching_config *policy, uint64_t from,
                                          uint64_t to) {
        for (size_t i = policy->n_preferred_sizes; i > 0; i--)
                if (policy->preferred_sizes[i - 1] <= to)
                        return policy->preferred_sizes[i - 1] > from
                                       ? policy->preferred_sizes[i - 1]
                                       : 0;
        return 0;
}

/* When the next request would exceed the largest preferred size, those so far are a preferred batch. */
static void pass_largest_preferred(const struct policy_dynamic *d, uint64_t rows,
                                   struct forming *f) {
        uint64_t largest = d->largest_preferred;

        if (f->n_preferred == 0 && largest > 0 && f->rows + rows > largest)
                f->n_preferred = f->n;
}

/* True when the batch, which is not empty, ends before this request. */
static bool ends_before(const struct policy_dynamic *d, struct forming *f,
                        const struct request *req) {
        uint64_t rows = request_rows(req);

        if (request_kept_batch(req) != f->kept_batch)
                return true;
        pass_largest_preferred(d, rows, f);
        return f->rows + rows > d->batching.max_batch_size ||
               (d->batching.equal_shapes && !request_same_shape(f->first, req));
}

static void add_request(const struct policy_dynamic *d, struct forming *f, struct request *req) {
        bool is_first = f->n == 0;

        f->cannot_grow = !is_first && ends_before(d, f, req);
        /* The first request of a batch runs in any case, but the filter counts it. */
        if (d->filter != NULL && !f->cannot_grow)
                f->cannot_grow = !d->filter->ops->admits(d->filter, req) && !is_first;
        if (f->cannot_grow)
                return;
        if (is_first) {
                f->first = req;
                f->kept_batch = request_kept_batch(req);
        }
        f->rows += request_rows(req);
        f->n++;
        f->oldest_ns = MIN(f->oldest_ns, req->times.queue_start_ns);
        if (is_preferred(&d->batching, f->rows))
                f->n_preferred = f->n;
}

/* Adds n requests that begin with `req` and have the batch's kept_batch and shape, by their sums. Nothing
 * happens to the batch between the first and the last of them. */
static void add_together(struct forming *f, const struct request *req, uint32_t n, uint64_t rows) {
        f->rows += rows;
        f->n += n;
        f->oldest_ns = MIN(f->oldest_ns, req->times.queue_start_ns);
}

/* Adds the next n requests, each of one row, as far as they fit. */
static void add_singles(const struct policy_dynamic *d, struct forming *f,
                        const struct request *next, uint32_t n) {
        const struct batching_config *batching = &d->batching;
        uint64_t room = batching->max_batch_size > f->rows ? batching->max_batch_size - f->rows : 0;
        uint32_t n_now = (uint32_t)MIN(n, room);
        uint64_t size;

        pass_largest_preferred(d, 1, f);
        if (n_now > 0) {
                size = largest_preferred_between(batching, f->rows, f->rows + n_now);
                if (size > 0)
                        f->n_preferred = f->n + (uint32_t)(size - f->rows);
                add_together(f, next, n_now, n_now);
        }
        if (n_now < n) {
                pass_largest_preferred(d, 1, f);
                f->cannot_grow = true;
        }
}

/* True when the batch has room for all these rows, and no preferred size is reached or passed
 * meanwhile. */
static bool may_add_together(const struct policy_dynamic *d, const struct forming *f,
                             uint64_t rows) {
        const struct batching_config *batching = &d->batching;
        uint64_t                      largest = d->largest_preferred;

        return f->rows + rows <= batching->max_batch_size &&
               largest_preferred_between(batching, f->rows, f->rows + rows) == 0 &&
               (f->n_preferred > 0 || largest == 0 || f->rows + rows <= largest);
}

/* True when the sums of the list show all that the rules need to know of its requests. */
static bool is_uniform(const struct policy_dynamic *d, const struct queue_list *l,
                       const struct forming *f, const struct request *head) {
        return l->n_kept_batch == 0 && f->kept_batch == 0 && l->n_inversions == 0 &&
               (!d->batching.equal_shapes ||
                (l->n_differing == 0 && (f->n == 0 || request_same_shape(f->first, head))));
}

/* Adds the requests of the list where the walk is. Each is looked at only as long as it may decide. */
static void add_list(const struct policy_dynamic *d, struct forming *f, struct queue_walk *w) {
        const struct queue_list *l = w->list;
        struct request          *req = queue_walk_next(w);
        uint64_t                 rows = l->n_rows;
        uint32_t                 n = l->n;
        bool is_slow = n > 1 && (d->filter != NULL || !is_uniform(d, l, f, req));

        while (n > 0 && !f->cannot_grow) {
                if (f->n > 0 && n > 1 && !is_slow && l->n_large == 0) {
                        add_singles(d, f, req, n);
                        return;
                }
                if (f->n > 0 && n > 1 && !is_slow && may_add_together(d, f, rows)) {
                        add_together(f, req, n, rows);
                        return;
                }
                add_request(d, f, req);
                rows -= request_rows(req);
                if (--n > 0)
                        req = queue_walk_next(w);
        }
}

static void form_batch(const struct policy_dynamic *d, struct request_queue *q, struct forming *f) {
        struct queue_walk w = queue_walk_begin(q);

        *f = (struct forming){ .oldest_ns = CLOCK_NEVER };
        while (!f->cannot_grow && f->n < q->n_waiting && queue_walk_next_list(&w)) {
                add_list(d, f, &w);
                queue_walk_skip_list(&w);
        }
        /* A request that comes to the end of a list, or to a later one, does not change the batch. */
        q->settled = UINT64_MAX;
        if (f->cannot_grow)
                q->settled =
                        queue_walk_level(&w)->level + (w.list == &queue_walk_level(&w)->delayed);
        if (f->kept_batch != 0) {
                f->cannot_grow =
                        true; /* the other requests of the kept batch are in the batch or have ended */
                f->n_preferred = 0;
        }
}

/* Returns the batch, which is formed again only when the queue has changed. A filter may decide
 * otherwise each time. */
static const struct forming *current_batch(struct policy_dynamic *d, struct request_queue *q) {
        if (d->filter != NULL) {
                d->filter->ops->begin(d->filter);
                form_batch(d, q, &d->formed);
                d->filter->ops->end(d->filter);
        } else if (d->formed_version != q->version) {
                form_batch(d, q, &d->formed);
                d->formed_version = q->version;
        }
        return &d->formed;
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* TRITONSERVER_DELAY_SCHEDULER: lets a test fill the queue before the first batch is formed. */
static bool is_held_back(struct policy_dynamic *d, const struct request_queue *q) {
        if (d->n_delayed == 0)
                return false;
        if (q->n_waiting < d->n_delayed)
                return true;
        d->n_delayed = 0;
        return false;
}

static struct dispatch run_first(const struct sched_view *view, uint32_t n,
                                 enum dispatch_reason reason) {
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
        struct policy_dynamic *d = CONTAINER_OF(p, struct policy_dynamic, base);
        uint64_t               delay_ns = d->batching.max_queue_delay_ns;
        struct request_queue  *q = view->queue;

        if (q->n_waiting == 0 || is_held_back(d, q))
                return (struct dispatch){ .verdict = BATCH_NOTHING };

        const struct forming *f = current_batch(d, q);
        uint64_t              age_ns = now_ns > f->oldest_ns ? now_ns - f->oldest_ns : 0;
        bool                  is_late = delay_ns > 0 && age_ns >= delay_ns;
        uint64_t              sooner_ns = CLOCK_NEVER;

        if (f->n_preferred > 0 && !is_late)
                return run_first(view, f->n_preferred, DISPATCH_FULL);
        if (f->cannot_grow || f->rows >= d->largest_preferred)
                return run_first(view, f->n, DISPATCH_FULL);
        if (delay_ns == 0)
                return run_first(view, f->n, DISPATCH_DUE);

        bool is_early =
                d->adaptive.mode != ADAPTIVE_OFF && runs_early(d, view, f, now_ns, &sooner_ns);

        if (is_late)
                return run_first(view, f->n, DISPATCH_DUE);
        if (is_early)
                return run_first(view, f->n, adaptive_reason(&d->adaptive));
        if (d->is_draining)
                return run_first(view, f->n, DISPATCH_DRAIN);
        return wait_for_more(d, q, f, sooner_ns);
}

static void arrived(struct policy *p, const struct sched_view *view, struct request *req) {
        (void)req;
        adaptive_arrived(&CONTAINER_OF(p, struct policy_dynamic, base)->adaptive,
                         view->queue->n_rows, view->rows_running);
}

static void executed(struct policy *p, const struct execution *done) {
        adaptive_executed(&CONTAINER_OF(p, struct policy_dynamic, base)->adaptive, done->took_ns);
}

static void drain_dynamic(struct policy *p, uint64_t now_ns) {
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
                                                 .drain = drain_dynamic,
                                                 .free = free_dynamic };
        static const struct policy_ops adaptive = { .decide = decide,
                                                    .arrived = arrived,
                                                    .executed = executed,
                                                    .drain = drain_dynamic,
                                                    .free = free_dynamic };
        struct policy_dynamic         *d = mem_zalloc(sizeof(*d));

        *d = (struct policy_dynamic){
                .base = { .ops = options->adaptive == ADAPTIVE_OFF ? &plain : &adaptive,
                          .limits = &d->batching },
                .batching = *options->batching,
                .filter = options->filter,
                .adaptive = { .mode = options->adaptive,
                              .delay_ns = options->batching->max_queue_delay_ns },
                .n_delayed = options->n_delayed,
        };
        d->largest_preferred = batching_config_largest_preferred(&d->batching);
        d->batching.equal_shapes = options->equal_shapes;
        *options->batching = (struct batching_config){ 0 };
        return &d->base;
}
