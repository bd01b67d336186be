/* SPDX-License-Identifier: BSD-3-Clause */
/* The policy for members that take certain batch sizes only. The rules:
 *   1. Only requests of one shape share a batch. The requests of one shape form a class. The classes
 *      are served in the order of their first requests in the queue.
 *   2. n waiting rows are served by the plan's next size (sched/batch_sizes.h) on a free member that takes
 *      it; among several, the one with the smallest largest size. With exclusive concurrency a member
 *      is free while no other member of its virtual instance runs.
 *   3. As many rows as the largest size run at once. Fewer rows run when they are due (there is no
 *      delay, or the oldest waited for it) or when adaptive batching decides so (sched/adaptive.h).
 *      Adaptive batching does not wait for rows that would not change the next batch.
 *   4. When rows are due and the planned member is busy, the largest batch that any free member takes
 *      runs. While they are not due, they wait for the planned member and the batch grows.
 *   5. A batch ends where a request ends. It consists of the first requests that have exactly the
 *      planned number of rows; else of the most requests with fewer rows whose sum is a size of some
 *      free member. Only when there are none, the last request is split.
 *   6. Once the model is unloaded or replaced or the server stops, all waiting rows are due at once, and
 *      rows that no member takes are refused: no client can send the requests that would fill their
 *      batch.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "config/batching_config.h"
#include "infer/request_shape.h"
#include "sched/batch_sizes.h"
#include "sched/instance.h"
#include "sched/policy.h"

/* Limits of one decision: classes that it distinguishes, and requests that it visits. Requests
 * behind these are considered when the requests before them have left. */
#define MAX_SHAPES 8
#define MAX_LOOKED_AT 4096

struct policy_composite {
        struct policy          base;
        struct batching_config batching;
        struct batch_sizes     plan;
        struct adaptive        adaptive;
        bool                   may_wait;
        bool                   may_split;
        bool                   is_exclusive;
        bool                   equal_shapes;
        bool                   is_greedy;
        bool                   is_draining;
        uint64_t n_delayed; /* nothing runs before this many requests are queued; 0 after that */
};

/* The waiting requests of one shape (rule 1). */
struct shape_class {
        const struct request *first;
        uint64_t              rows;
        uint64_t oldest_ns; /* arrival of the oldest request that fits into one batch */
};

struct query {
        struct policy_composite *policy;
        const struct sched_view *view;
        uint64_t                 now_ns;
        uint64_t                 wait_until_ns; /* nearest time of all classes */
};

static bool is_of_class(const struct policy_composite *c, const struct shape_class *s,
                        const struct request *req) {
        return !c->equal_shapes || s->first == req || request_same_shape(s->first, req);
}

/* ---- members --------------------------------------------------------------------------------- */

static bool is_free(const struct query *q, const struct instance *in) {
        if (!q->policy->is_exclusive)
                return true;
        for (uint32_t i = 0; i < q->view->n_instances; i++) {
                const struct instance *other = q->view->instances[i];

                if (other->state != INSTANCE_FREE && other->executor->index == in->executor->index)
                        return false;
        }
        return true;
}

/* Returns the free member for a batch of n_rows rows, NULL when there is none. */
static struct instance *find_member(const struct query *q, uint64_t n_rows) {
        struct instance *best = NULL;

        LIST_FOR_EACH(q->view->idle, node) {
                struct instance *in = LIST_ENTRY(node, struct instance, idle_node);

                if (n_rows < in->executor->min_rows || n_rows > in->executor->max_rows)
                        continue;
                if ((best == NULL || in->executor->max_rows < best->executor->max_rows) &&
                    is_free(q, in))
                        best = in;
        }
        return best;
}

/* Returns the largest number of rows, at most n_rows, that some free member takes at once; 0: none. */
static uint64_t largest_served(const struct query *q, uint64_t n_rows) {
        uint64_t largest = 0;

        LIST_FOR_EACH(q->view->idle, node) {
                const struct instance *in = LIST_ENTRY(node, struct instance, idle_node);

                if (in->executor->min_rows <= n_rows && is_free(q, in))
                        largest = MAX(largest, MIN(n_rows, in->executor->max_rows));
        }
        return largest;
}

/* ---- forming a batch ------------------------------------------------------------------------- */

/* The requests of a batch: the first n of the class. */
struct cut {
        uint32_t         n;
        uint64_t         rows;
        uint64_t         part_rows; /* rows of the last request; 0: all of it */
        struct instance *on;
};

/* Finds the batch that ends where a request ends, at or before `size` (rule 5). If requests must
 * not be split, the batch may also end after `size`. */
static struct cut find_cut(const struct query *q, const struct shape_class *s, uint64_t size,
                           struct instance *on) {
        const struct policy_composite *c = q->policy;
        struct queue_walk              w = queue_walk_begin(q->view->queue);
        struct cut                     best = { 0 };
        struct request                *req;
        uint64_t                       rows = 0;
        uint32_t                       n = 0;

        while (rows < (c->may_split ? size : c->plan.max_rows) &&
               (req = queue_walk_next(&w)) != NULL) {
                struct instance *member = on;

                if (!is_of_class(c, s, req))
                        continue;
                if (rows + request_rows(req) > size && best.n > 0)
                        break;
                if (rows + request_rows(req) > size && c->may_split)
                        return (struct cut){ n + 1, size, size - rows, on };
                rows += request_rows(req);
                n++;
                if (rows != size)
                        member = batch_sizes_has_size(&c->plan, rows) ? find_member(q, rows) : NULL;
                if (member != NULL)
                        best = (struct cut){ .n = n, .rows = rows, .on = member };
        }
        return best;
}

/* Links the first n requests of the class. */
static struct request *pick(const struct query *q, const struct shape_class *s, uint32_t n) {
        struct queue_walk w = queue_walk_begin(q->view->queue);
        struct request   *first = NULL, **next = &first, *req;

        while (n > 0 && (req = queue_walk_next(&w)) != NULL) {
                if (!is_of_class(q->policy, s, req))
                        continue;
                *next = req;
                next = &req->queued.next;
                n--;
        }
        *next = NULL;
        return first;
}

/* Makes a batch of `size` rows on that member, or of the nearest size at which a request ends. */
static bool try_run(const struct query *q, const struct shape_class *s, uint64_t size,
                    struct instance *on, enum dispatch_reason reason, struct dispatch *ret) {
        struct cut cut = find_cut(q, s, size, on);

        if (cut.n == 0)
                return false;
        *ret = (struct dispatch){ .verdict = BATCH_RUN,
                                  .on = cut.on,
                                  .n_requests = cut.n,
                                  .reason = reason,
                                  .requests = pick(q, s, cut.n),
                                  .part_rows = cut.part_rows };
        return true;
}

/* ---- deciding when to run -------------------------------------------------------------------- */

/* Returns the number of waiting rows at which the next batch cannot become larger. If all expected
 * rows would begin with a batch of the same size, this number is reached now. */
static uint64_t rows_worth_waiting_for(const struct query *q, const struct shape_class *s,
                                       uint32_t size) {
        const struct policy_composite *c = q->policy;
        uint64_t                       most = c->plan.max_rows;

        most = MIN(most, adaptive_expected(&c->adaptive, q->view->rows_running));
        return batch_sizes_next(&c->plan, most) == size ? s->rows : c->plan.max_rows;
}

static bool runs_early(struct query *q, const struct shape_class *s, uint32_t size,
                       const struct instance *planned, uint64_t *ret_until_ns) {
        struct policy_composite *c = q->policy;

        *ret_until_ns = CLOCK_NEVER;
        if (planned == NULL || c->adaptive.mode == ADAPTIVE_OFF)
                return false;
        return adaptive_runs(&c->adaptive,
                             &(struct adaptive_view){ .now_ns = q->now_ns,
                                                      .n_requests = q->view->queue->n_waiting,
                                                      .rows_waiting = q->view->queue->n_rows,
                                                      .rows_running = q->view->rows_running,
                                                      .oldest_ns = s->oldest_ns,
                                                      .free_ns = planned->free_ns,
                                                      .max_rows =
                                                              rows_worth_waiting_for(q, s, size) },
                             ret_until_ns);
}

/* Rows that are due do not wait for the planned member. */
static bool try_due(const struct query *q, const struct shape_class *s, uint64_t size,
                    struct instance *planned, enum dispatch_reason reason, struct dispatch *ret) {
        if (planned != NULL && try_run(q, s, size, planned, reason, ret))
                return true;
        size = largest_served(q, MIN(s->rows, (uint64_t)q->policy->plan.max_rows));
        return size > 0 && try_run(q, s, size, find_member(q, size), reason, ret);
}

/* Returns true when a batch of the class runs. Otherwise notes when to ask again. */
static bool try_class(struct query *q, const struct shape_class *s, struct dispatch *ret) {
        struct policy_composite *c = q->policy;
        uint64_t                 delay_ns = c->batching.max_queue_delay_ns;
        uint64_t                 age_ns = q->now_ns > s->oldest_ns ? q->now_ns - s->oldest_ns : 0;
        uint32_t                 size = batch_sizes_next(&c->plan, s->rows);
        struct instance         *planned = size > 0 ? find_member(q, size) : NULL;
        uint64_t                 until_ns, sooner_ns;
        bool                     is_early;

        if (size == 0)
                return false; /* the rows wait for more rows, however old they are */
        if (s->rows >= c->plan.max_rows && planned != NULL &&
            try_run(q, s, size, planned, DISPATCH_FULL, ret))
                return true;
        is_early = runs_early(q, s, size, planned, &sooner_ns);
        if (delay_ns == 0 || age_ns >= delay_ns)
                return try_due(q, s, size, planned, DISPATCH_DUE, ret);
        if (is_early && try_due(q, s, size, planned, adaptive_reason(&c->adaptive), ret))
                return true;
        if (c->is_draining)
                return try_due(q, s, size, planned, DISPATCH_DRAIN, ret);
        if (__builtin_add_overflow(s->oldest_ns, delay_ns, &until_ns))
                until_ns = CLOCK_NEVER;
        q->wait_until_ns = MIN(q->wait_until_ns, MIN(until_ns, sooner_ns));
        return false;
}

/* ---- classes of the queue -------------------------------------------------------------------- */

/* Without shapes there is one class: the queue knows its rows, and the first batch its age. */
static size_t find_one_class(const struct query *q, struct shape_class *ret) {
        struct queue_walk w = queue_walk_begin(q->view->queue);
        struct request   *req;
        uint64_t          rows = 0;

        *ret = (struct shape_class){ .rows = q->view->queue->n_rows, .oldest_ns = CLOCK_NEVER };
        while (rows < q->policy->plan.max_rows && (req = queue_walk_next(&w)) != NULL) {
                if (ret->first == NULL)
                        ret->first = req;
                rows += request_rows(req);
                ret->oldest_ns = MIN(ret->oldest_ns, req->times.queue_start_ns);
        }
        return 1;
}

static size_t find_classes(const struct query *q, struct shape_class *classes) {
        struct queue_walk w = queue_walk_begin(q->view->queue);
        struct request   *req;
        size_t            n = 0;

        if (!q->policy->equal_shapes)
                return find_one_class(q, classes);
        for (uint32_t seen = 0; seen < MAX_LOOKED_AT && (req = queue_walk_next(&w)) != NULL;
             seen++) {
                size_t i = 0;

                while (i < n && !is_of_class(q->policy, &classes[i], req))
                        i++;
                if (i == MAX_SHAPES)
                        continue;
                if (i == n)
                        classes[n++] =
                                (struct shape_class){ .first = req, .oldest_ns = CLOCK_NEVER };
                if (classes[i].rows < q->policy->plan.max_rows)
                        classes[i].oldest_ns = MIN(classes[i].oldest_ns, req->times.queue_start_ns);
                classes[i].rows += request_rows(req);
        }
        return n;
}

/* TRITONSERVER_DELAY_SCHEDULER: lets a test fill the queue before the first batch is formed. */
static bool is_held_back(struct policy_composite *c, const struct request_queue *q) {
        if (c->n_delayed == 0)
                return false;
        if (q->n_waiting < c->n_delayed)
                return true;
        c->n_delayed = 0;
        return false;
}

/* Refuses the rows of a class that can form no batch without further requests. */
static void refuse_rest(const struct query *q, const struct shape_class *s) {
        struct policy_composite *c = q->policy;
        struct request          *req = pick(q, s, UINT32_MAX);

        for (struct request *next; req != NULL; req = next) {
                next = req->queued.next;
                request_queue_remove(q->view->queue, req);
                policy_refuse(&c->base, req,
                              request_error(req, ERR_UNAVAILABLE,
                                            "the model is being unloaded, and no instance takes a "
                                            "batch of the rows that wait"));
        }
}

static bool try_classes(struct query *q, struct dispatch *ret) {
        struct policy_composite *c = q->policy;
        struct shape_class       classes[MAX_SHAPES];
        uint64_t                 n_waiting;
        size_t                   n;

        do {
                n_waiting = q->view->queue->n_waiting;
                n = find_classes(q, classes);
                for (size_t i = 0; i < n; i++)
                        if (try_class(q, &classes[i], ret))
                                return true;
                for (size_t i = 0; c->is_draining && i < n; i++)
                        if (batch_sizes_next(&c->plan, classes[i].rows) == 0)
                                refuse_rest(q, &classes[i]);
        } while (q->view->queue->n_waiting != n_waiting); /* there may be classes behind these */
        return false;
}

static struct dispatch decide(struct policy *p, const struct sched_view *view, uint64_t now_ns) {
        struct policy_composite *c = CONTAINER_OF(p, struct policy_composite, base);
        struct query             q = { c, view, now_ns, CLOCK_NEVER };
        struct dispatch          d = { .verdict = BATCH_NOTHING };

        if (view->queue->n_waiting == 0 || is_held_back(c, view->queue))
                return d;
        if (try_classes(&q, &d))
                return d;
        if (q.wait_until_ns != CLOCK_NEVER) {
                d.verdict = BATCH_WAIT;
                d.wait_until_ns = MIN(q.wait_until_ns, request_queue_next_due(view->queue));
        }
        return d;
}

/* ---- operations of the policy ---------------------------------------------------------------- */

static void arrived(struct policy *p, const struct sched_view *view, struct request *req) {
        (void)req;
        adaptive_arrived(&CONTAINER_OF(p, struct policy_composite, base)->adaptive,
                         view->queue->n_rows, view->rows_running);
}

static void executed(struct policy *p, const struct execution *done) {
        adaptive_executed(&CONTAINER_OF(p, struct policy_composite, base)->adaptive, done->took_ns);
}

static void drain_composite(struct policy *p, uint64_t now_ns) {
        struct policy_composite *c = CONTAINER_OF(p, struct policy_composite, base);

        (void)now_ns;
        c->is_draining = true;
        c->n_delayed = 0;
}

static struct error *admit(struct policy *p, const struct request *req) {
        struct policy_composite *c = CONTAINER_OF(p, struct policy_composite, base);
        AUTO_STRBUF              sizes = { 0 };

        if (c->may_split || batch_sizes_has_size(&c->plan, request_rows(req)))
                return NULL;
        batch_sizes_print_sizes(&c->plan, &sizes);
        TRY(strbuf_check(&sizes, "the text of an error"));
        return request_error(req, ERR_INVALID_ARG, "batch size %llu not supported; allowed: %.*s",
                             (unsigned long long)request_rows(req), STR_ARG(strbuf_str(&sizes)));
}

/* Plans for the sizes of the current instances. If these cannot serve the model, the old plan
 * stays: an update of the instances is still in progress. */
static void instances_changed(struct policy *p, const struct sched_view *view) {
        struct policy_composite *c = CONTAINER_OF(p, struct policy_composite, base);
        struct row_range        *ranges = mem_zalloc((view->n_instances + 1) * sizeof(*ranges));
        struct batch_sizes       plan;
        struct error            *err;

        for (uint32_t i = 0; i < view->n_instances; i++)
                ranges[i] = (struct row_range){ view->instances[i]->executor->min_rows,
                                                view->instances[i]->executor->max_rows };
        if (view->n_instances > 0) {
                err = batch_sizes_init(&plan, ranges, view->n_instances, c->may_wait);
                if (err == NULL) {
                        if (c->is_greedy)
                                batch_sizes_make_greedy(&plan);
                        batch_sizes_done(&c->plan);
                        c->plan = plan;
                }
                error_free(err);
        }
        free(ranges);
}

static void free_composite(struct policy *p) {
        struct policy_composite *c = CONTAINER_OF(p, struct policy_composite, base);

        batching_config_done(&c->batching);
        batch_sizes_done(&c->plan);
        free(c);
}

struct error *policy_composite_new(const struct policy_composite_options *o, struct policy **ret) {
        static const struct policy_ops ops = { .decide = decide,
                                               .arrived = arrived,
                                               .executed = executed,
                                               .admit = admit,
                                               .instances_changed = instances_changed,
                                               .drain = drain_composite,
                                               .free = free_composite };
        struct batch_sizes             plan;
        struct policy_composite       *c;

        TRY(batch_sizes_init(&plan, o->ranges, o->n_ranges, o->may_wait));
        if (o->is_greedy)
                batch_sizes_make_greedy(&plan);
        c = mem_zalloc(sizeof(*c));
        *c = (struct policy_composite){
                .base = { .ops = &ops,
                          .limits = &c->batching,
                          .assigns_batches = true,
                          .has_members = true },
                .batching = *o->batching,
                .plan = plan,
                .adaptive = { .mode = o->adaptive, .delay_ns = o->batching->max_queue_delay_ns },
                .may_wait = o->may_wait,
                .may_split = o->may_split,
                .is_exclusive = o->is_exclusive,
                .equal_shapes = o->equal_shapes,
                .is_greedy = o->is_greedy,
                .n_delayed = o->n_delayed,
        };
        *o->batching = (struct batching_config){ 0 };
        *ret = &c->base;
        return NULL;
}
