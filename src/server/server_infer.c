/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server.h"

#include "base/clock.h"
#include "cache/response_cache.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_check.h"
#include "infer/trace.h"

static COLD struct error *in_use(void) {
        return error_new(ERR_INVALID_ARG,
                         "the request is in use by an inference that has not released it");
}

static void report_queued(const struct request *req) {
        trace_report(req->trace, TRACE_QUEUE_START, req->times.request_start_ns);
        trace_report_inputs(req, TRACE_TENSOR_QUEUE_INPUT);
}

/* The responses of an earlier use may still come; a cancellation before this one holds. */
static struct error *begin_flow(struct request *req) {
        bool was_cancelled = request_is_cancelled(req);

        if (atomic_load_explicit(&req->state, memory_order_relaxed) == REQUEST_RELEASED) {
                TRY(request_renew_flow(req));
                if (was_cancelled)
                        response_flow_cancel(req->flow);
        }
        req->flow->start_ns = req->times.request_start_ns;
        return NULL;
}

struct error *server_infer(struct server *s, struct request *req) {
        struct model *model = req->model;
        struct error *err;

        if (UNLIKELY(atomic_load_explicit(&s->state, memory_order_relaxed) != SERVER_READY))
                return error_new(ERR_UNAVAILABLE, "Server not ready");
        if (req->on_response == NULL || req->on_release == NULL)
                return request_error(req, ERR_INVALID_ARG,
                                     "release and response callbacks must be set before inference");
        /* The program submits it again before it has it back: not even its id may be read. */
        if (UNLIKELY(request_is_in_use(req)))
                return in_use();
        req->times.request_start_ns = clock_now_ns();
        if (UNLIKELY(req->trace != NULL))
                trace_report(req->trace, TRACE_REQUEST_START, req->times.request_start_ns);
        TRY(request_prepare(req));
        TRY(begin_flow(req));

        if (UNLIKELY(req->trace != NULL))
                report_queued(req);
        /* Before the scheduler has it: afterwards it may be released and gone at any moment. */
        atomic_fetch_add_explicit(&model->n_in_flight, 1, memory_order_relaxed);
        if (UNLIKELY(model->cache != NULL) && response_cache_answer(model->cache, req))
                return NULL;
        err = model->scheduler->ops->submit(model->scheduler, req);
        if (UNLIKELY(err != NULL)) {
                if (model->cache != NULL)
                        response_cache_forget(req);
                atomic_fetch_sub_explicit(&model->n_in_flight, 1, memory_order_relaxed);
        }
        return err;
}

/* A trace that never came to an inference goes back to its program. */
static struct error *give_back(struct trace *t, struct error *err) {
        t->options.on_release(t, t->options.userp);
        return err;
}

struct error *server_infer_traced(struct server *s, struct request *req, struct trace *t) {
        struct error *err;

        if (UNLIKELY(atomic_load(&t->n_holders) > 0))
                return trace_begin(t, req);
        if (UNLIKELY(request_is_in_use(req)))
                return give_back(t, in_use());
        err = trace_begin(t, req);
        if (err != NULL)
                return give_back(t, err);
        err = server_infer(s, req);
        if (err != NULL)
                trace_refuse(req);
        return err;
}
