/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/instance.h"

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/mem.h"
#include "base/placement.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_split.h"
#include "infer/trace.h"
#include "observe/batch_counts.h"
#include "sched/policy.h"
#include "sched/pull_private.h"
#include "sched/rate_limiter.h"
#include "sched/request_queue.h"

#include <assert.h>

struct instance *instance_new(struct pull_engine *e, struct executor *executor) {
        struct instance *in = mem_zalloc(sizeof(*in));

        in->engine = e;
        in->executor = executor;
        cond_init(&in->wake);
        list_node_init(&in->idle_node);
        return in;
}

void instance_free(struct instance *in) {
        if (in->member != NULL)
                atomic_fetch_sub_explicit(&in->member->n_instances, 1, memory_order_relaxed);
        rate_claim_free(in->claim);
        rate_group_free(in->group);
        cond_done(&in->wake);
        free(in->batch);
        free(in->items);
        free(in);
}

/* ---- states ---------------------------------------------------------------------------------- */

#define TO(state) (1u << (state))

bool instance_may_change_state(enum instance_state from, enum instance_state to) {
        enum {
                HANDED_OUT = TO(INSTANCE_DISPATCHED) | TO(INSTANCE_RUNNING) | TO(INSTANCE_BORROWED)
        };
        static const uint8_t targets[INSTANCE_N_STATES] = {
                [INSTANCE_FREE] = HANDED_OUT | TO(INSTANCE_ASSIGNED),
                [INSTANCE_ASSIGNED] = HANDED_OUT,
                [INSTANCE_DISPATCHED] = TO(INSTANCE_RUNNING),
                [INSTANCE_RUNNING] = TO(INSTANCE_FREE),
                [INSTANCE_BORROWED] = TO(INSTANCE_FREE),
        };

        return (targets[from] & TO(to)) != 0;
}

bool instance_may_change_permit(enum instance_permit from, enum instance_permit to) {
        static const uint8_t targets[INSTANCE_N_PERMITS] = {
                [PERMIT_NONE] = TO(PERMIT_ASKED) | TO(PERMIT_GIVEN),
                [PERMIT_ASKED] = TO(PERMIT_DOUBTED) | TO(PERMIT_GIVEN),
                [PERMIT_DOUBTED] = TO(PERMIT_NONE) | TO(PERMIT_ASKED) | TO(PERMIT_GIVEN),
                [PERMIT_GIVEN] = TO(PERMIT_NONE) | TO(PERMIT_EXECUTED),
                [PERMIT_EXECUTED] = TO(PERMIT_NONE),
        };

        return (targets[from] & TO(to)) != 0;
}

/* Tests of policies have instances without an engine. */
void instance_set_state_locked(struct instance *in, enum instance_state to) {
        assert(in->engine == NULL || mutex_is_held(&in->engine->lock));
        assert(instance_may_change_state(in->state, to));
        in->state = to;
}

void instance_set_permit_locked(struct instance *in, enum instance_permit to) {
        assert(in->engine == NULL || mutex_is_held(&in->engine->lock));
        assert(instance_may_change_permit(in->permit, to));
        in->permit = to;
}

/* ---- the thread ------------------------------------------------------------------------------ */

struct error *instance_start_thread(struct instance *in, thread_fn main) {
        struct executor *e = in->executor;

        if (e->thread == NULL)
                return placement_start_thread(e->place, &in->thread, e->name, main, in);
        job_thread_run(e->thread, main, in);
        return NULL;
}

void instance_join_thread(struct instance *in) {
        if (in->executor->thread != NULL)
                job_thread_wait(in->executor->thread);
        else
                thread_join(&in->thread);
}

/* ---- running a batch ------------------------------------------------------------------------- */

static void reserve_batch(struct instance *in, uint32_t n) {
        if (n <= in->cap_batch)
                return;
        in->cap_batch = MAX(n, 16);
        in->batch = mem_realloc(in->batch, in->cap_batch * sizeof(struct request *));
}

static void begin_request(struct request *req) {
        atomic_store_explicit(&req->state, REQUEST_EXECUTING, memory_order_relaxed);
        if (req->trace != NULL)
                trace_report_inputs(req, TRACE_TENSOR_BACKEND_INPUT);
}

/* A step of a pipeline sends nothing to a client, so it has ended when its backend reports its end, and
 * the next step begins then: the clock is not read again. */
static uint64_t end_of(const struct instance *in, uint64_t start_ns, bool is_step) {
        uint64_t end_ns = 0;

        if (is_step)
                end_ns = atomic_load_explicit(&in->executor->reported_end_ns, memory_order_relaxed);
        return end_ns > start_ns ? end_ns : clock_now_ns();
}

static ALWAYS_INLINE uint64_t execute_batch(struct instance *in, struct request **batch, uint32_t n,
                                            uint64_t start_ns) {
        bool is_step = n == 1 && batch[0]->is_inner;

        atomic_store_explicit(&in->busy_since_ns, start_ns, memory_order_relaxed);
        atomic_store_explicit(&in->executor->start_ns, start_ns, memory_order_relaxed);
        if (n > 0)
                in->executor->ops->execute(in->executor, batch, n);
        return end_of(in, start_ns, is_step);
}

uint64_t instance_run(struct instance *in, struct request *first, uint32_t n, bool is_inline,
                      uint64_t start_ns) {
        struct model_stats *stats = first->model->stats;
        uint32_t            at = 0;

        reserve_batch(in, n);
        for (struct request *req = first; req != NULL; req = req->queued.next) {
                begin_request(req);
                in->batch[at++] = req;
        }
        model_stats_path(stats, is_inline);
        return execute_batch(in, in->batch, n, start_ns);
}

uint64_t instance_run_one(struct instance *in, struct request *req, uint64_t start_ns) {
        begin_request(req);
        model_stats_path(req->model->stats, true);
        return execute_batch(in, &req, 1, start_ns);
}

/* ---- batches of policies that assign batches ----------------------------------------------------------- */

static void add_item(struct instance *in, struct batch_item item) {
        if (in->n_items == in->cap_items) {
                in->cap_items = MAX(2 * in->cap_items, 16);
                in->items = mem_realloc(in->items, in->cap_items * sizeof(*in->items));
        }
        in->items[in->n_items++] = item;
}

static void take_part(struct instance *in, struct request_queue *q, struct request *req,
                      uint64_t n_rows) {
        if (n_rows < request_rows(req)) {
                request_queue_begin_parts(q, req, n_rows);
        } else {
                request_queue_remove(q, req);
                atomic_store_explicit(&req->state, REQUEST_EXECUTING, memory_order_relaxed);
                in->n_left++;
        }
        if (!req->is_split) {
                request_split_begin(req);
                in->n_new_splits++;
        }
        add_item(in, (struct batch_item){ .part = request_split_take(req, n_rows) });
}

void instance_begin_batch(struct instance *in) {
        in->n_items = in->n_left = in->n_new_splits = 0;
        in->rows = 0;
}

void instance_take_rows(struct instance *in, struct request_queue *q, struct request *req,
                        uint64_t n_rows) {
        in->rows += n_rows;
        if (req->is_split || n_rows < request_rows(req)) {
                take_part(in, q, req, n_rows);
                return;
        }
        request_queue_remove(q, req);
        add_item(in, (struct batch_item){ .request = req });
        in->n_left++;
}

void instance_take(struct instance *in, struct request_queue *q, const struct dispatch *d) {
        instance_begin_batch(in);
        for (struct request *req = d->requests, *next; req != NULL; req = next) {
                uint64_t n_rows = request_rows(req);

                next = req->queued.next;
                if (next == NULL && d->part_rows > 0)
                        n_rows = d->part_rows;
                instance_take_rows(in, q, req, n_rows);
        }
}

uint64_t instance_run_items(struct instance *in, struct model_stats *stats, bool is_inline,
                            uint64_t start_ns) {
        uint32_t n = 0;

        reserve_batch(in, in->n_items);
        for (uint32_t i = 0; i < in->n_items; i++) {
                struct request *req = in->items[i].request;

                if (req != NULL)
                        begin_request(req);
                else
                        req = split_part_make(in->items[i].part);
                if (req != NULL)
                        in->batch[n++] = req;
        }
        model_stats_pending(stats, -(int)in->n_left);
        model_stats_path(stats, is_inline);
        return execute_batch(in, in->batch, n, start_ns);
}
