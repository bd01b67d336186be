/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/batch_queue.h"

#include "base/clock.h"
#include "base/mem.h"
#include "infer/batch_filter.h"
#include "infer/request.h"
#include "infer/request_shape.h"

/* Empty levels beyond this many are freed: priorities are chosen by peers. */
#define MAX_IDLE_LEVELS 16

struct queue_level {
        uint64_t                   level;
        const struct queue_policy *policy; /* borrowed */
        struct list                waiting;
        struct list                delayed;
        uint32_t                   n; /* of both lists */
        struct list_node           node;
};

void batch_queue_init(struct batch_queue *q, const struct batch_rules *rules) {
        *q = (struct batch_queue){ .rules = *rules };
        list_init(&q->levels);
        due_heap_init(&q->dues);
}

static void free_level(struct batch_queue *q, struct queue_level *level) {
        list_remove(&level->node);
        q->n_levels--;
        free(level);
}

void batch_queue_done(struct batch_queue *q) {
        LIST_FOR_EACH(&q->levels, node)
                free_level(q, LIST_ENTRY(node, struct queue_level, node));
        due_heap_done(&q->dues);
}

/* The level, made when it is not there; NULL when memory is short. */
static struct queue_level *find_level(struct batch_queue *q, uint64_t number) {
        struct list_node   *after = &q->levels.head;
        struct queue_level *level;

        LIST_FOR_EACH(&q->levels, node) {
                level = LIST_ENTRY(node, struct queue_level, node);
                if (level->level == number)
                        return level;
                if (level->level > number) {
                        after = node;
                        break;
                }
        }
        level = try_zalloc(sizeof(*level));
        if (level == NULL)
                return NULL;
        level->level = number;
        level->policy = queue_policy_for_level(q->rules.policy, number);
        list_init(&level->waiting);
        list_init(&level->delayed);
        list_insert_before(after, &level->node);
        q->n_levels++;
        return level;
}

static struct error *queue_full(const struct request *req) {
        static struct error nameless = ERROR_STATIC(
                ERR_UNAVAILABLE, "[request id: <id_unknown>] Exceeds maximum queue size");

        if (*req->id == '\0')
                return &nameless;
        return request_error(req, ERR_UNAVAILABLE, "Exceeds maximum queue size");
}

struct error *batch_queue_push(struct batch_queue *q, struct request *req, uint64_t now_ns) {
        const struct batch_policy *policy = q->rules.policy;
        struct queue_level        *level;
        uint64_t                   timeout_ns;

        req->queued.level = batch_policy_level(policy, req->priority);
        level = find_level(q, req->queued.level);
        if (level == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        if (level->policy->max_queue_size > 0 && level->n >= level->policy->max_queue_size)
                return queue_full(req);

        timeout_ns = queue_policy_timeout_ns(level->policy, req->timeout_us);
        if (timeout_ns == 0 || __builtin_add_overflow(now_ns, timeout_ns, &req->queued.due.due_ns))
                req->queued.due.due_ns = CLOCK_NEVER;
        /* The heap has exactly the requests whose due time is not "never". */
        if (req->queued.due.due_ns != CLOCK_NEVER && !due_heap_push(&q->dues, &req->queued.due))
                return error_new(ERR_UNAVAILABLE, "out of memory");
        list_append(&level->waiting, &req->queued.node);
        level->n++;
        q->n_waiting++;
        return NULL;
}

static void unlink_request(struct batch_queue *q, struct queue_level *level, struct request *req) {
        list_remove(&req->queued.node);
        if (req->queued.due.due_ns != CLOCK_NEVER)
                due_heap_remove(&q->dues, &req->queued.due);
        req->queued.due.due_ns = CLOCK_NEVER;
        level->n--;
        q->n_waiting--;
        if (level->n == 0 && q->n_levels > MAX_IDLE_LEVELS)
                free_level(q, level);
}

bool batch_queue_remove(struct batch_queue *q, struct request *req) {
        if (!list_is_linked(&req->queued.node))
                return false;
        unlink_request(q, find_level(q, req->queued.level), req);
        return true;
}

struct request *batch_queue_expire(struct batch_queue *q, uint64_t now_ns) {
        struct request  *first = NULL;
        struct request **next = &first;
        struct due      *due;

        while ((due = due_heap_first(&q->dues)) != NULL && due->due_ns <= now_ns) {
                struct request     *req = CONTAINER_OF(due, struct request, queued.due);
                struct queue_level *level = find_level(q, req->queued.level);

                if (level->policy->action == QUEUE_TIMEOUT_DELAY) {
                        due_heap_remove(&q->dues, &req->queued.due);
                        req->queued.due.due_ns = CLOCK_NEVER;
                        list_remove(&req->queued.node);
                        list_append(&level->delayed, &req->queued.node);
                        continue;
                }
                unlink_request(q, level, req);
                req->queued.next = NULL;
                *next = req;
                next = &req->queued.next;
        }
        return first;
}

uint64_t batch_queue_next_due(const struct batch_queue *q) {
        const struct due *due = due_heap_first(&q->dues);

        return due != NULL ? due->due_ns : CLOCK_NEVER;
}

/* A walk over the queue in the order of service. */
struct walk {
        struct batch_queue *q;
        struct list        *list;
        struct list_node   *level_node;
        struct list_node   *node;
};

/* On to the next list that has somebody; false at the end of the queue. */
static bool walk_on(struct walk *w) {
        while (w->node == NULL) {
                struct queue_level *level;

                if (w->list != NULL) {
                        level = LIST_ENTRY(w->level_node, struct queue_level, node);
                        if (w->list == &level->waiting) {
                                w->list = &level->delayed;
                                w->node = list_first(w->list);
                                continue;
                        }
                        w->level_node = list_next(&w->q->levels, w->level_node);
                } else {
                        w->level_node = list_first(&w->q->levels);
                }
                if (w->level_node == NULL)
                        return false;
                level = LIST_ENTRY(w->level_node, struct queue_level, node);
                w->list = &level->waiting;
                w->node = list_first(w->list);
        }
        return true;
}

static inline struct request *walk_next(struct walk *w) {
        struct request *req;

        if (w->node == NULL && !walk_on(w))
                return NULL;
        req = LIST_ENTRY(w->node, struct request, queued.node);
        w->node = list_next(w->list, w->node);
        return req;
}

/* What the first requests of the queue would make as a batch (rules 1 to 3). */
struct forming {
        uint64_t rows;
        uint32_t n;
        uint32_t n_preferred;  /* requests up to the largest preferred size hit; 0 = none */
        bool     cannot_grow;
        uint64_t oldest_ns;
};

static bool is_preferred(const struct batch_policy *policy, uint64_t rows) {
        for (size_t i = 0; i < policy->n_preferred_sizes; i++)
                if (policy->preferred_sizes[i] == rows)
                        return true;
        return false;
}

/* The first one of a batch runs, but its share counts. */
static bool is_admitted(struct batch_queue *q, struct request *req, const struct forming *f) {
        return q->rules.filter->ops->admits(q->rules.filter, req) || f->n == 0;
}

static struct forming form_filtered(struct batch_queue *q) {
        const struct batch_policy *policy = q->rules.policy;
        uint64_t                   largest = batch_policy_largest_preferred(policy);
        struct forming             f = { .oldest_ns = CLOCK_NEVER };
        struct walk                w = { .q = q };
        const struct request      *first = NULL;
        struct request            *req;

        while ((req = walk_next(&w)) != NULL) {
                uint64_t rows = MAX(req->batch_size, 1);

                if (f.n > 0) {
                        if (f.n_preferred == 0 && largest > 0 && f.rows + rows > largest)
                                f.n_preferred = f.n;
                        if (f.rows + rows > policy->max_batch_size ||
                            (q->rules.equal_shapes && !request_same_shape(first, req))) {
                                f.cannot_grow = true;
                                break;
                        }
                } else {
                        first = req;
                }
                if (UNLIKELY(q->rules.filter != NULL) && !is_admitted(q, req, &f)) {
                        f.cannot_grow = true;
                        break;
                }
                f.rows += rows;
                f.n++;
                f.oldest_ns = MIN(f.oldest_ns, req->times.queue_start_ns);
                if (is_preferred(policy, f.rows))
                        f.n_preferred = f.n;
        }
        return f;
}

static struct forming form(struct batch_queue *q) {
        struct batch_filter *filter = q->rules.filter;
        struct forming       f;

        if (LIKELY(filter == NULL))
                return form_filtered(q);
        filter->ops->begin(filter);
        f = form_filtered(q);
        filter->ops->end(filter);
        return f;
}

struct batch_decision batch_queue_decide(struct batch_queue *q, uint64_t now_ns) {
        const struct batch_policy *policy = q->rules.policy;
        uint64_t                   delay_ns = policy->max_queue_delay_ns;

        if (q->n_waiting == 0)
                return (struct batch_decision){ .verdict = BATCH_NOTHING };
        if (q->rules.one_by_one)
                return (struct batch_decision){ .verdict = BATCH_RUN, .n_requests = 1 };

        struct forming f = form(q);
        uint64_t       age_ns = now_ns > f.oldest_ns ? now_ns - f.oldest_ns : 0;
        bool           is_late = delay_ns > 0 && age_ns >= delay_ns;

        if (f.n_preferred > 0 && !is_late)
                return (struct batch_decision){ .verdict = BATCH_RUN, .n_requests = f.n_preferred };
        if (f.cannot_grow || f.rows >= batch_policy_largest_preferred(policy) || is_late ||
            delay_ns == 0)
                return (struct batch_decision){ .verdict = BATCH_RUN, .n_requests = f.n };

        uint64_t until_ns = CLOCK_NEVER;

        if (__builtin_add_overflow(f.oldest_ns, delay_ns, &until_ns))
                until_ns = CLOCK_NEVER;
        return (struct batch_decision){ .verdict = BATCH_WAIT,
                                        .wait_until_ns = MIN(until_ns, batch_queue_next_due(q)) };
}

struct request *batch_queue_take(struct batch_queue *q, uint32_t n) {
        struct request  *first = NULL;
        struct request **next = &first;
        struct walk      w = { .q = q };

        while (n-- > 0) {
                struct request *req;

                if (w.node == NULL) /* a level that is empty may be gone */
                        w = (struct walk){ .q = q };
                req = walk_next(&w);
                unlink_request(q, LIST_ENTRY(w.level_node, struct queue_level, node), req);
                req->queued.next = NULL;
                *next = req;
                next = &req->queued.next;
        }
        return first;
}

struct request *batch_queue_take_all(struct batch_queue *q) {
        return batch_queue_take(q, (uint32_t)q->n_waiting);
}
