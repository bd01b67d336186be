/* SPDX-License-Identifier: BSD-3-Clause */
/* The rule that turns waiting requests into batches: when to run, how many, on which instance.
 *
 * The engine (sched/pull_engine.h) asks its policy after every event: a request arrived or left, an
 * execution ended, a time was reached, an instance came or went. The policy looks at the queue and
 * at the idle instances and answers with one dispatch; the engine acts on it and asks again while
 * there is something to hand out. A policy is pure: it has no clock, blocks on nothing, and
 * allocates nothing per request, so that its rules are tested as rows on a clock of the test.
 *
 * Ownership.  policy_..._new() makes it, policy_free() ends it; the engine owns it.
 * Threads.  Called with the engine's lock held.
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

/* Why a batch runs now. */
enum dispatch_reason {
        DISPATCH_DUE,  /* its delay is over, or there is none */
        DISPATCH_FULL, /* it cannot grow */
        DISPATCH_IDLE, /* adaptive batching, see sched/adaptive.h */
        DISPATCH_FLOW,
        DISPATCH_DRAIN, /* it would wait for others, but none come: the model or the server ends */
};

static inline enum dispatch_reason adaptive_reason(const struct adaptive *a) {
        return a->mode == ADAPTIVE_IDLE ? DISPATCH_IDLE : DISPATCH_FLOW;
}

struct dispatch {
        enum batch_verdict   verdict;
        struct instance     *on;         /* RUN: which idle instance; NULL when none is idle. With a
                                             * rate limiter its choice goes before the policy's,
                                             * unless the policy picks. */
        uint32_t             n_requests; /* RUN: the first n in the queue's order, 1 at least */
        uint64_t             wait_until_ns; /* WAIT */
        enum dispatch_reason reason;

        /* RUN, of a policy that picks: these requests, linked by queued.next; of the last one so many
         * rows, 0 for all. They are taken at once, and run on that instance and no other. NULL: the
         * batch that was assigned to it. */
        struct request *picked;
        uint64_t        part_rows;
};

/* A batch that was executed. */
struct execution {
        struct instance *on;
        uint64_t         rows;
        uint64_t         start_ns;
        uint64_t         took_ns;
        uint64_t         end_ns;
};

struct sched_view {
        struct request_queue *queue;
        struct list          *idle; /* struct instance by idle_node; the best to wake first */
        uint64_t              rows_running;
        struct instance     **instances; /* all; of a policy that picks */
        uint32_t              n_instances;
};

struct policy_ops {
        /* The queue's timeouts have been applied up to `now_ns`. */
        struct dispatch (*decide)(struct policy *p, const struct sched_view *view, uint64_t now_ns);
        /* After a request was queued. NULL: of no interest. */
        void (*arrived)(struct policy *p, const struct sched_view *view, struct request *req);
        /* After n requests were queued that came as one, linked by queued.next. NULL: arrived() is
         * called for each of them. */
        void (*arrived_together)(struct policy *p, const struct sched_view *view,
                                 struct request *first, uint32_t n);
        /* After a batch was executed. NULL: of no interest. */
        void (*executed)(struct policy *p, const struct execution *done);
        /* May such a request be queued? NULL: any. */
        struct error *(*admit)(struct policy *p, const struct request *req);
        /* After an instance came or went; with a lock held, but seldom. NULL: of no interest. */
        void (*instances_changed)(struct policy *p, const struct sched_view *view);
        /* A request that was queued has left the queue without the policy: it was cancelled, or
         * timed out. NULL: of no interest. */
        void (*withdrawn)(struct policy *p, struct request *req);
        /* There is one instance more; one leaves. NULL: of no interest. */
        void (*instance_joined)(struct policy *p, const struct sched_view *view,
                                struct instance *in);
        void (*instance_left)(struct policy *p, const struct sched_view *view, struct instance *in);
        /* policy->due_ns has come. */
        void (*due)(struct policy *p, const struct sched_view *view, uint64_t now_ns);
        /* The model is unloaded, or the server stops. NULL: of no interest. May come twice. */
        void (*drain)(struct policy *p, uint64_t now_ns);
        void (*free)(struct policy *p);
};

/* A request that the policy does not want to be run. */
struct refusal {
        struct refusal *next;
        struct request *req;
        struct error   *why; /* owned */
};

/* A policy that picks may take requests out of the queue itself, for an instance that has no batch
 * (instance_take_rows()), and assign them to it as its next one (policy_assign()); decide() then says RUN
 * on that instance. It may do so in any of its functions that are not const to the queue. */
struct policy {
        const struct policy_ops      *ops;
        const struct batching_config *limits; /* of the queue: levels, sizes, timeouts, ordering */
        bool                          picks;  /* instances differ, and requests are chosen */
        bool                          is_immediate; /* one that comes alone always runs at once */
        bool                          has_members; /* of a picking one: its instances are counted */
        uint64_t                      due_ns;      /* 0: never; else due() is called then */
        uint32_t                      n_assigned;  /* instances with an assigned batch */
        struct refusal *refused; /* out of the queue; the engine takes and answers them */
};

static inline void policy_free(struct policy *p) {
        if (p != NULL)
                p->ops->free(p);
}

/* What was taken for the instance is its next batch. */
void policy_assign(struct policy *p, struct instance *in);
/* The batch is handed out. */
void policy_take_assigned(struct policy *p, struct instance *in);
/* An idle instance with an assigned batch, the best to wake first; NULL: none. */
struct instance *policy_find_assigned(const struct policy *p, const struct sched_view *view);

/* Has the engine answer a request that is in no queue any more; rows of it may run in parts. Takes
 * `why`. */
void policy_refuse(struct policy *p, struct request *req, struct error *why);

/* The instance that the engine would wake first; NULL when none is idle. */
struct instance *sched_view_first_idle(const struct sched_view *view);

/* Every request is a batch of its own, first come first served. */
struct policy *policy_single_new(void);

struct policy_dynamic_options {
        struct batching_config *batching;     /* taken: moved out of */
        struct batch_filter    *filter;       /* borrowed: outlives it; NULL: no custom batching */
        bool                    equal_shapes; /* check request_same_shape() */
        uint64_t                n_delayed;    /* nothing runs before so many are queued, once */
        enum adaptive_mode      adaptive;     /* OFF: exactly the reference server's times */
};

/* policy_dynamic.c: the reference server's dynamic batcher. */
struct policy *policy_dynamic_new(const struct policy_dynamic_options *options);

struct policy_composite_options {
        struct batching_config *batching; /* taken: moved out of */
        const struct row_range *ranges;   /* of the instances; borrowed for the call */
        size_t                  n_ranges;
        bool                    may_wait, may_split, is_exclusive; /* config/batch_members.h */
        bool                    equal_shapes;                      /* check request_same_shape() */
        bool                    is_greedy;                         /* row_plan_make_greedy() */
        uint64_t                n_delayed; /* nothing runs before so many are queued, once */
        enum adaptive_mode      adaptive;
};

/* policy_composite.c: instances that take certain batch sizes. Errors of row_plan_init(); then the
 * options are as they were. */
struct error *policy_composite_new(const struct policy_composite_options *options,
                                   struct policy                        **ret) NODISCARD;

struct policy_slots_options {
        uint32_t           n_slots;         /* of the instance */
        float              min_utilization; /* 0: nothing waits for more */
        uint64_t           max_delay_ns;    /* 0: nothing waits */
        const atomic_bool *is_held;         /* borrowed; nothing runs while it is set */
};

/* The rules of the reference server's direct sequence batcher for one instance; the queue has at most
 * one request of each sequence. */
struct policy *policy_slots_new(const struct policy_slots_options *options);
