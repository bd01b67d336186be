/* SPDX-License-Identifier: BSD-3-Clause */
/* The rule that turns waiting requests into batches: when to run, how many, on which instance.
 *
 * The engine (sched/pull_engine.h) asks its policy after every event: a request arrived or left, an
 * execution ended, a time was reached, an instance was added or removed. The policy reads the queue and
 * the list of idle instances and returns one dispatch. The engine carries it out and asks again until
 * the policy has nothing to dispatch. A policy has no clock, never blocks, and allocates nothing per
 * request, so that tests run its rules as rows on a clock of their own.
 *
 * A policy either dispatches the first n requests of the queue to any idle instance, or it assigns
 * batches: it chooses the requests of a batch and the instance (struct policy, assigns_batches).
 *
 * Ownership.  policy_..._new() creates a policy, policy_free() frees it. The engine owns it.
 * Threads.  The caller holds the engine's lock.
 */
#pragma once

#include "base/list.h"
#include "sched/adaptive.h"
#include "sched/request_queue.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct batch_filter;
struct batching_config;
struct instance;
struct policy;
struct request;
struct row_range;

enum batch_verdict { BATCH_NOTHING, BATCH_WAIT, BATCH_RUN };

/* Reason why a batch runs now. */
enum dispatch_reason {
        DISPATCH_DUE,  /* the queue delay is over, or there is none */
        DISPATCH_FULL, /* the batch cannot grow */
        DISPATCH_IDLE, /* adaptive batching, see sched/adaptive.h */
        DISPATCH_FLOW,
        DISPATCH_DRAIN, /* the batch would wait, but no client can submit to this model any more */
};

static inline enum dispatch_reason adaptive_reason(const struct adaptive *a) {
        return a->mode == ADAPTIVE_IDLE ? DISPATCH_IDLE : DISPATCH_FLOW;
}

struct dispatch {
        enum batch_verdict verdict;
        /* BATCH_RUN: an idle instance, NULL when none is idle. With a rate limiter, the limiter
         * chooses the instance unless the policy assigns batches. */
        struct instance *on;
        /* BATCH_RUN: length of the batch from the front of the queue, at least 1 */
        uint32_t             n_requests;
        uint64_t             wait_until_ns; /* BATCH_WAIT */
        enum dispatch_reason reason;

        /* BATCH_RUN of a policy that assigns batches: the requests of the batch, linked by queued.next, and
         * the number of rows of the last one, 0 for all. The engine takes them at once, and only
         * the instance `on` runs them. NULL: the batch that was assigned to the instance. */
        struct request *requests;
        uint64_t        part_rows;
};

/* A batch that has been executed. */
struct execution {
        struct instance *on;
        uint64_t         rows;
        uint64_t         start_ns;
        uint64_t         took_ns;
        uint64_t         end_ns;
};

struct sched_view {
        struct request_queue *queue;
        /* struct instance by idle_node, in the order in which the engine wakes them */
        struct list      *idle;
        uint64_t          rows_running;
        struct instance **instances; /* all instances, for a policy that assigns batches */
        uint32_t          n_instances;
};

struct policy_ops {
        /* Returns the next dispatch. The engine has applied the queue's timeouts up to `now_ns`. */
        struct dispatch (*decide)(struct policy *p, const struct sched_view *view, uint64_t now_ns);
        /* Called after a request was queued. NULL: not needed. */
        void (*arrived)(struct policy *p, const struct sched_view *view, struct request *req);
        /* Called after n requests that were submitted together were queued, linked by queued.next.
         * NULL: the engine calls arrived() for each of them. */
        void (*arrived_together)(struct policy *p, const struct sched_view *view,
                                 struct request *first, uint32_t n);
        /* Called after a batch was executed. NULL: not needed. */
        void (*executed)(struct policy *p, const struct execution *done);
        /* Returns an error when the request must not be queued. NULL: accepts all requests. */
        struct error *(*admit)(struct policy *p, const struct request *req);
        /* Called after an instance was added or removed. May allocate, since it is rare. NULL: not
         * needed. */
        void (*instances_changed)(struct policy *p, const struct sched_view *view);
        /* Called when a queued request left the queue by cancellation or timeout. NULL: not needed. */
        void (*withdrawn)(struct policy *p, struct request *req);
        /* Called when one instance was added, and when one is being removed. NULL: not needed. */
        void (*instance_joined)(struct policy *p, const struct sched_view *view,
                                struct instance *in);
        void (*instance_left)(struct policy *p, const struct sched_view *view, struct instance *in);
        /* Called when policy->due_ns was reached. */
        void (*due)(struct policy *p, const struct sched_view *view, uint64_t now_ns);
        /* Called when the model is unloaded or the server stops, perhaps twice. NULL: not needed. */
        void (*drain)(struct policy *p, uint64_t now_ns);
        void (*free)(struct policy *p);
};

/* A request that the policy refuses to run. */
struct refusal {
        struct refusal *next;
        struct request *req;
        struct error   *why; /* owned */
};

/* A policy that assigns batches may also take requests from the queue itself, for an instance that has
 * no batch (instance_take_rows()), and assign them to that instance as its next batch (policy_assign()). Then
 * decide() returns BATCH_RUN for that instance. Each of its functions that may change the queue may do
 * so. */
struct policy {
        const struct policy_ops      *ops;
        const struct batching_config *limits; /* borrowed: of the queue */
        bool            assigns_batches; /* chooses the requests and the instance of each batch */
        bool            is_immediate;    /* with an empty queue, a request runs at once */
        bool            has_members; /* with `assigns_batches`: executions are counted by member */
        uint64_t        due_ns;      /* time of the next due(); 0: never */
        uint32_t        n_assigned;  /* instances with an assigned batch */
        struct refusal *refused;     /* no longer queued; the engine answers them */
};

static inline void policy_free(struct policy *p) {
        if (p != NULL)
                p->ops->free(p);
}

/* Makes the requests that were taken for the instance its next batch. */
void policy_assign(struct policy *p, struct instance *in);
/* The assigned batch is handed out. The caller changes the instance's state next. */
void policy_take_assigned(struct policy *p, const struct instance *in);
/* Returns the first idle instance with an assigned batch, NULL when there is none. */
struct instance *policy_find_assigned(const struct policy *p, const struct sched_view *view);

/* Has the engine answer a request that is in no queue any more with the error `why`, which it
 * takes. Parts of the request may be running. */
void policy_refuse(struct policy *p, struct request *req, struct error *why);

/* Returns the instance that the engine would wake first, NULL when none is idle. */
struct instance *sched_view_first_idle(const struct sched_view *view);

/* Every request is a batch of its own, first come first served. */
struct policy *policy_single_new(void);

struct policy_dynamic_options {
        struct batching_config *batching; /* taken: moved from */
        /* borrowed: outlives the policy; NULL: no custom batching */
        struct batch_filter *filter;
        bool                 equal_shapes; /* batch only requests with request_same_shape() */
        /* nothing runs before this many requests are queued, once */
        uint64_t           n_delayed;
        enum adaptive_mode adaptive; /* OFF: exactly the reference server's timing */
};

/* The rules of the reference server's dynamic batcher. */
struct policy *policy_dynamic_new(const struct policy_dynamic_options *options);

struct policy_composite_options {
        struct batching_config *batching; /* taken: moved from */
        const struct row_range *ranges;   /* ranges of the instances; borrowed for the call */
        size_t                  n_ranges;
        bool                    may_wait, may_split, is_exclusive; /* config/batch_members.h */
        /* batch only requests with request_same_shape() */
        bool equal_shapes;
        bool is_greedy; /* uses batch_sizes_make_greedy() */
        /* nothing runs before this many requests are queued, once */
        uint64_t           n_delayed;
        enum adaptive_mode adaptive;
};

/* The policy of instances that take certain batch sizes. Returns the errors of batch_sizes_init(), and
 * then leaves the options unchanged. */
struct error *policy_composite_new(const struct policy_composite_options *options,
                                   struct policy                        **ret) NODISCARD;

struct policy_slots_options {
        uint32_t n_slots; /* number of the instance's slots */
        /* smallest used share of the slots that runs at once; 0: no request waits */
        float              min_utilization;
        uint64_t           max_delay_ns; /* 0: no request waits */
        const atomic_bool *is_held;      /* borrowed; nothing runs while it is true */
};

/* The rules of the reference server's direct sequence batcher for one instance. The queue has at
 * most one request of each sequence. */
struct policy *policy_slots_new(const struct policy_slots_options *options);
