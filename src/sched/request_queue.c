/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/request_queue.h"

#include "base/clock.h"
#include "base/mem.h"

/* Clients choose priorities, so empty levels beyond this number are freed. */
#define MAX_IDLE_LEVELS 16

static uint32_t count_requests(const struct queue_level *level) {
        return level->waiting.n + level->delayed.n;
}

static struct queue_list *list_of(struct queue_level *level, const struct request *req) {
        return req->is_delayed ? &level->delayed : &level->waiting;
}

void request_queue_init(struct request_queue *q, const struct batching_config *limits) {
        *q = (struct request_queue){ .limits = limits, .version = 1, .settled = UINT64_MAX };
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
        queue_list_init(&level->waiting);
        queue_list_init(&level->delayed);
        list_insert_before(after, &level->node);
        q->n_levels++;
        return level;
}

/* Most queues have one level. */
static inline struct queue_level *level_of(struct request_queue *q, uint64_t number) {
        struct queue_level *first = LIST_ENTRY(q->levels.head.next, struct queue_level, node);

        return (q->n_levels > 0 && first->level == number) ? first : find_level(q, number);
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
        level = level_of(q, req->queued.level);
        if (level == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        if (level->policy->max_queue_size > 0 &&
            count_requests(level) >= level->policy->max_queue_size)
                return queue_full(req);

        timeout_ns = queue_policy_timeout_ns(level->policy, req->timeout_us);
        if (timeout_ns == 0 || __builtin_add_overflow(now_ns, timeout_ns, &req->queued.due.due_ns))
                req->queued.due.due_ns = CLOCK_NEVER;
        /* The heap has exactly the requests whose due time is not CLOCK_NEVER. */
        if (req->queued.due.due_ns != CLOCK_NEVER && !due_heap_push(&q->dues, &req->queued.due))
                return error_new(ERR_UNAVAILABLE, "out of memory");
        queue_list_append(&level->waiting, req, q->limits->equal_shapes);
        if (level->level < q->settled)
                q->version++;
        q->n_waiting++;
        q->n_rows += request_rows(req);
        return NULL;
}

static inline void unlink_request(struct request_queue *q, struct queue_level *level,
                                  struct queue_list *list, struct request *req) {
        queue_list_remove(list, req);
        if (req->queued.due.due_ns != CLOCK_NEVER)
                due_heap_remove(&q->dues, &req->queued.due);
        req->queued.due.due_ns = CLOCK_NEVER;
        q->version++;
        q->n_waiting--;
        q->n_rows -= request_rows(req);
        if (q->n_levels > MAX_IDLE_LEVELS && count_requests(level) == 0)
                free_level(q, level);
}

bool request_queue_remove(struct request_queue *q, struct request *req) {
        struct queue_level *level;

        if (!list_is_linked(&req->queued.node))
                return false;
        level = level_of(q, req->queued.level);
        unlink_request(q, level, list_of(level, req), req);
        return true;
}

void request_queue_begin_parts(struct request_queue *q, struct request *req, uint64_t n_rows) {
        if (req->queued.due.due_ns != CLOCK_NEVER)
                due_heap_remove(&q->dues, &req->queued.due);
        req->queued.due.due_ns = CLOCK_NEVER;
        queue_list_take_rows(list_of(level_of(q, req->queued.level), req), req, n_rows);
        q->version++;
        q->n_rows -= n_rows;
}

struct request *request_queue_expire(struct request_queue *q, uint64_t now_ns) {
        struct request  *first = NULL;
        struct request **next = &first;
        struct due      *due;

        while ((due = due_heap_first(&q->dues)) != NULL && due->due_ns <= now_ns) {
                struct request     *req = CONTAINER_OF(due, struct request, queued.due);
                struct queue_level *level = level_of(q, req->queued.level);

                if (level->policy->action == QUEUE_TIMEOUT_DELAY) {
                        due_heap_remove(&q->dues, &req->queued.due);
                        req->queued.due.due_ns = CLOCK_NEVER;
                        queue_list_remove(&level->waiting, req);
                        queue_list_append(&level->delayed, req, q->limits->equal_shapes);
                        req->is_delayed = true;
                        q->version++;
                        continue;
                }
                unlink_request(q, level, list_of(level, req), req);
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
                                w->node = list_first(&w->list->requests);
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
                w->node = list_first(&w->list->requests);
        }
        return true;
}

uint64_t request_queue_oldest(struct request_queue *q) {
        struct queue_walk w = queue_walk_begin(q);
        uint64_t          oldest_ns = CLOCK_NEVER;
        struct request   *req;

        while ((req = queue_walk_next(&w)) != NULL) {
                oldest_ns = MIN(oldest_ns, req->times.queue_start_ns);
                if (w.list->n_inversions == 0)
                        queue_walk_skip_list(&w);
        }
        return oldest_ns;
}

struct request *request_queue_take(struct request_queue *q, uint32_t n) {
        struct request  *first = NULL;
        struct request **next = &first;

        while (n > 0) {
                struct queue_walk w = queue_walk_begin(q);

                (void)queue_walk_next_list(&w);
                for (uint32_t n_here = MIN(n, w.list->n); n_here > 0; n_here--, n--) {
                        struct request *req = queue_list_entry(w.list->requests.head.next);

                        /* The last one may free the list with its level. */
                        unlink_request(q, LIST_ENTRY(w.level_node, struct queue_level, node),
                                       w.list, req);
                        req->queued.next = NULL;
                        *next = req;
                        next = &req->queued.next;
                }
        }
        return first;
}
