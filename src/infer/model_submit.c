/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/model_submit.h"

#include "base/clock.h"
#include "base/log.h"
#include "infer/cancel_watch.h"
#include "infer/host_inputs.h"
#include "infer/model.h"
#include "infer/model_generations.h"
#include "infer/request.h"
#include "infer/request_prepare.h"
#include "infer/trace.h"

struct error *model_submit_in_use(void) {
        return error_new(ERR_INVALID_ARG,
                         "the request is in use by an inference that has not released it");
}

static void report_queued(const struct request *req) {
        trace_report(req->trace, TRACE_QUEUE_START, req->times.request_start_ns);
        trace_report_inputs(req, TRACE_TENSOR_QUEUE_INPUT);
}

/* Gives a request that was used before a new stream, since late responses of the earlier use keep the
 * old one. A cancellation before the submission still applies. */
static inline struct error *begin_stream(struct request *req) {
        if (atomic_load_explicit(&req->state, memory_order_relaxed) == REQUEST_RELEASED) {
                bool was_cancelled = request_is_cancelled(req);

                TRY(request_renew_stream(req));
                if (was_cancelled)
                        cancel_watch_cancel(req->stream);
        }
        req->stream->start_ns = req->times.request_start_ns;
        return NULL;
}

/* Logged as the reference server logs it, which people search the log for. */
static COLD void log_arrival(const struct request *req) {
        log_verbose(1, "[request id: %s] Setting state from INITIALIZED to PENDING",
                    *req->id != '\0' ? req->id : "<id_unknown>");
}

/* Checks the request and begins its stream. */
static inline struct error *prepare_submission(struct request *req, uint64_t now_ns) {
        req->times.request_start_ns = now_ns;
        if (req->trace != NULL)
                trace_report(req->trace, TRACE_REQUEST_START, req->times.request_start_ns);
        TRY(request_prepare(req));
        TRY(begin_stream(req));
        if (req->trace != NULL)
                report_queued(req);
        if (log_is_verbose(1))
                log_arrival(req);
        return NULL;
}

/* To be called before the scheduler gets the request, which may be released and freed at any moment
 * afterwards. */
static void add_in_flight(struct model *model) {
        atomic_fetch_add_explicit(&model->n_in_flight, 1, memory_order_relaxed);
}

static void subtract_in_flight(struct model *model) {
        atomic_fetch_sub_explicit(&model->n_in_flight, 1, memory_order_relaxed);
}

static inline struct error *submit_prepared(struct request *req) {
        struct model *model = req->model;
        struct error *err;

        add_in_flight(model);
        err = model->scheduler->ops->submit(model->scheduler, req);
        if (err != NULL)
                subtract_in_flight(model);
        return err;
}

/* For a model that was replaced between look-up and submission. */
static COLD struct error *submit_elsewhere(struct request *req) {
        TRY(model_generations_route(req));
        TRY(request_prepare(req));
        return submit_prepared(req);
}

/* The request is its caller's again, unless another model takes it. */
static COLD struct error *not_submitted(struct request *req, struct error *err) {
        if (err == model_generations_retired())
                err = submit_elsewhere(req);
        if (err != NULL)
                host_inputs_return(req);
        return err;
}

static bool needs_routing(const struct model *model) {
        return atomic_load_explicit(&model->needs_routing, memory_order_acquire);
}

struct error *model_submit_at(struct request *req, uint64_t now_ns) {
        struct error *err;

        /* The program submitted a request that was not released yet. */
        if (request_is_in_use(req))
                return model_submit_in_use();
        if (needs_routing(req->model))
                TRY(model_generations_route(req));
        err = prepare_submission(req, now_ns);
        if (err == NULL)
                err = submit_prepared(req);
        return err == NULL ? NULL : not_submitted(req, err);
}

struct error *model_submit(struct request *req) {
        return model_submit_at(req, clock_now_ns());
}

#define MAX_TOGETHER 64

/* Submits n prepared requests together. The error of requests[i] goes to ret_errors[places[i]]. */
static void submit_together(struct model *model, struct request *const *requests,
                            const uint32_t *places, uint32_t n, struct error **ret_errors) {
        struct scheduler *s = model->scheduler;
        struct error     *errors[MAX_TOGETHER];

        s->ops->submit_all(s, requests, n, errors);
        for (uint32_t i = 0; i < n; i++) {
                ret_errors[places[i]] = errors[i];
                if (errors[i] == NULL)
                        continue;
                subtract_in_flight(model);
                host_inputs_return(requests[i]);
        }
}

void model_submit_all(struct request *const *requests, uint32_t n, struct error **ret_errors) {
        struct model *model = requests[0]->model;

        if (n == 1 || model->scheduler->ops->submit_all == NULL || needs_routing(model)) {
                for (uint32_t i = 0; i < n; i++)
                        ret_errors[i] = model_submit(requests[i]);
                return;
        }
        while (n > 0) {
                uint32_t        n_now = MIN(n, (uint32_t)MAX_TOGETHER);
                uint32_t        n_prepared = 0;
                struct request *prepared[MAX_TOGETHER];
                uint32_t        places[MAX_TOGETHER];

                for (uint32_t i = 0; i < n_now; i++) {
                        if (request_is_in_use(requests[i])) {
                                ret_errors[i] = model_submit_in_use();
                                continue;
                        }
                        ret_errors[i] = prepare_submission(requests[i], clock_now_ns());
                        if (ret_errors[i] != NULL) {
                                host_inputs_return(requests[i]);
                                continue;
                        }
                        add_in_flight(model);
                        places[n_prepared] = i;
                        prepared[n_prepared++] = requests[i];
                }
                if (n_prepared > 0)
                        submit_together(model, prepared, places, n_prepared, ret_errors);
                requests += n_now;
                ret_errors += n_now;
                n -= n_now;
        }
}
