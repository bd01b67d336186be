/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/request_queue.h"

#include "base/clock.h"
#include "base/mem.h"

/* Clients choose priorities, so empty levels beyond this number are freed. */
#define MAX_IDLE_LEVELS 16

struct queue_level {
        uint64_t                   level;
        const struct queue_policy *policy; /* borrowed */
        struct list                waiting;
        struct list                delayed;
        uint32_t                   n; /* requests in both lists */
        struct list_node           node;
};

void request_queue_init(struct request_queue *q, const struct batching_config *limits) {
        *q = (struct request_queue){ .limits = limits };
        list_init(&q->levels);
        due_heap_init(&q->dues);
}

static void free_level(struct request_queue *q, struct queue_level *level) {
        list_remove(&level->node);
        q->n_levels--;
        free(level);
}

void request_queue_done(struct request_queue *q) {
        LIST_FOR_EACH(&q->levels, node)
                free_level(q, LIST_ENTRY(node, struct queue_level, node));
        due_heap_done(&q->dues);
}

/* Finds or creates the level; NULL when memory is short. */
static struct queue_level *find_level(struct request_queue *q, uint64_t number) {
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
        level->policy = queue_policy_for_level(q->limits, number);
        list_init(&level->waiting);
        list_init(&level->delayed);
        list_insert_before(after, &level->node);
        q->n_levels++;
        return level;
}

static struct error *queue_full(const struct request *req) {
        static struct error nameless =
                ERROR_STATIC(ERR_UNAVAILABLE,
                             "[request id: <id_unknown>] Exceeds maximum queue size");

        if (*req->id == '\0')
                return &nameless;
        return request_error(req, ERR_UNAVAILABLE, "Exceeds maximum queue size");
}

struct error *request_queue_push(struct request_queue *q, struct request *req, uint64_t now_ns) {
        struct queue_level *level;
        uint64_t            timeout_ns;

        req->queued.level = batching_config_level(q->limits, req->priority);
        level = find_level(q, req->queued.level);
        if (level == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        if (level->policy->max_queue_size > 0 && level->n >= level->policy->max_queue_size)
                return queue_full(req);

        timeout_ns = queue_policy_timeout_ns(level->policy, req->timeout_us);
        if (timeout_ns == 0 || __builtin_add_overflow(now_ns, timeout_ns, &req->queued.due.due_ns))
                req->queued.due.due_ns = CLOCK_NEVER;
        /* The heap has exactly the requests whose due time is not CLOCK_NEVER. */
        if (req->queued.due.due_ns != CLOCK_NEVER && !due_heap_push(&q->dues, &req->queued.due))
                return error_new(ERR_UNAVAILABLE, "out of memory");
        list_append(&level->waiting, &req->queued.node);
        level->n++;
        q->n_waiting++;
        q->n_rows += request_rows(req);
        return NULL;
}

static void unlink_request(struct request_queue *q, struct queue_level *level,
                           struct request *req) {
        list_remove(&req->queued.node);
        if (req->queued.due.due_ns != CLOCK_NEVER)
                due_heap_remove(&q->dues, &req->queued.due);
        req->queued.due.due_ns = CLOCK_NEVER;
        level->n--;
        q->n_waiting--;
        q->n_rows -= request_rows(req);
        if (level->n == 0 && q->n_levels > MAX_IDLE_LEVELS)
                free_level(q, level);
}

bool request_queue_remove(struct request_queue *q, struct request *req) {
        if (!list_is_linked(&req->queued.node))
                return false;
        unlink_request(q, find_level(q, req->queued.level), req);
        return true;
}

void request_queue_begin_parts(struct request_queue *q, struct request *req, uint64_t n_rows) {
        if (req->queued.due.due_ns != CLOCK_NEVER)
                due_heap_remove(&q->dues, &req->queued.due);
        req->queued.due.due_ns = CLOCK_NEVER;
        q->n_rows -= n_rows;
}

struct request *request_queue_expire(struct request_queue *q, uint64_t now_ns) {
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

uint64_t request_queue_next_due(const struct request_queue *q) {
        const struct due *due = due_heap_first(&q->dues);

        return due != NULL ? due->due_ns : CLOCK_NEVER;
}

bool queue_walk_next_list(struct queue_walk *w) {
        while (w->node == NULL) {
                struct queue_level *level;

                if (w->list != NULL) {
                        level = LIST_ENTRY(w->level_node, struct queue_level, node);
                        if (w->list == &level->waiting) {
                                w->list = &level->delayed;
                                w->node = list_first(w->list);
                                continue;
                        }
                        w->level_node = list_next(&w->queue->levels, w->level_node);
                } else {
                        w->level_node = list_first(&w->queue->levels);
                }
                if (w->level_node == NULL)
                        return false;
                level = LIST_ENTRY(w->level_node, struct queue_level, node);
                w->list = &level->waiting;
                w->node = list_first(w->list);
        }
        return true;
}

struct request *request_queue_take(struct request_queue *q, uint32_t n) {
        struct request   *first = NULL;
        struct request  **next = &first;
        struct queue_walk w = queue_walk_begin(q);

        while (n-- > 0) {
                struct request *req;

                if (w.node == NULL) /* an empty level may have been freed */
                        w = queue_walk_begin(q);
                req = queue_walk_next(&w);
                unlink_request(q, LIST_ENTRY(w.level_node, struct queue_level, node), req);
                req->queued.next = NULL;
                *next = req;
                next = &req->queued.next;
        }
        return first;
}
