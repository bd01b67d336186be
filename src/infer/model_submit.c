/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/model_submit.h"

#include "base/clock.h"
#include "infer/model.h"
#include "infer/model_line.h"
#include "infer/request.h"
#include "infer/request_check.h"
#include "infer/trace.h"

struct error *model_submit_in_use(void) {
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

/* The request's model has it, as far as the model's configuration allows. */
static struct error *submit_prepared(struct request *req) {
        struct model *model = req->model;
        struct error *err;

        /* Before the scheduler has it: afterwards it may be released and gone at any moment. */
        atomic_fetch_add_explicit(&model->n_in_flight, 1, memory_order_relaxed);
        err = model->scheduler->ops->submit(model->scheduler, req);
        if (UNLIKELY(err != NULL))
                atomic_fetch_sub_explicit(&model->n_in_flight, 1, memory_order_relaxed);
        return err;
}

/* The model was replaced between the look-up and the submission. */
static COLD struct error *submit_elsewhere(struct request *req) {
        TRY(model_line_route(req));
        TRY(request_prepare(req));
        return submit_prepared(req);
}

struct error *model_submit(struct request *req) {
        struct error *err;

        /* The program submits it again before it has it back. */
        if (UNLIKELY(request_is_in_use(req)))
                return model_submit_in_use();
        if (UNLIKELY(atomic_load_explicit(&req->model->is_routed, memory_order_acquire)))
                TRY(model_line_route(req));
        req->times.request_start_ns = clock_now_ns();
        if (UNLIKELY(req->trace != NULL))
                trace_report(req->trace, TRACE_REQUEST_START, req->times.request_start_ns);
        TRY(request_prepare(req));
        TRY(begin_flow(req));
        if (UNLIKELY(req->trace != NULL))
                report_queued(req);
        err = submit_prepared(req);
        if (UNLIKELY(err != NULL) && err == model_line_retired())
                err = submit_elsewhere(req);
        return err;
}
