/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/instance.h"

#include "base/clock.h"
#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/trace.h"
#include "sched/policy.h"
#include "sched/rate_limiter.h"

struct instance *instance_new(struct pull_engine *e, struct executor *executor) {
        struct instance *in = mem_zalloc(sizeof(*in));

        in->engine = e;
        in->executor = executor;
        cond_init(&in->wake);
        list_node_init(&in->idle_node);
        return in;
}

void instance_free(struct instance *in) {
        rate_claim_free(in->claim);
        cond_done(&in->wake);
        free(in->batch);
        free(in);
}

static void reserve(struct instance *in, uint32_t n) {
        if (n <= in->cap_batch)
                return;
        in->cap_batch = MAX(n, 16);
        in->batch = mem_realloc(in->batch, in->cap_batch * sizeof(struct request *));
}

void instance_run(struct instance *in, struct request *first, uint32_t n, bool is_inline,
                  struct execution *ret) {
        struct model_stats *stats = first->model->stats;
        uint64_t            start_ns;
        uint32_t            at = 0;

        reserve(in, n);
        for (struct request *req = first; req != NULL; req = req->queued.next) {
                atomic_store_explicit(&req->state, REQUEST_EXECUTING, memory_order_relaxed);
                if (UNLIKELY(req->trace != NULL))
                        trace_report_inputs(req, TRACE_TENSOR_BACKEND_INPUT);
                in->batch[at++] = req;
        }
        model_stats_pending(stats, -(int)n);
        model_stats_path(stats, is_inline);
        start_ns = clock_now_ns();
        in->executor->ops->execute(in->executor, in->batch, n);
        ret->on = in;
        ret->end_ns = clock_now_ns();
        ret->took_ns = ret->end_ns - start_ns;
}
