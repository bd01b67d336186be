/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/ensemble.h"

#include "base/log.h"
#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/scheduler.h"
#include "pipeline/ensemble_plan.h"
#include "pipeline/run_answer.h"
#include "pipeline/runner.h"
#include "pipeline/step_models.h"

#include <stdatomic.h>

struct ensemble {
        struct scheduler           base;
        struct step_models_holder *steps; /* borrowed: outlives the scheduler */
        struct runner              runner;
        _Atomic bool               is_draining;
};

static struct ensemble *self_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct ensemble, base);
}

static struct error *draining(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE,
                             "Server is stopping, scheduler for model has stopped accepting new "
                             "inference requests");
}

static struct error *submit_to_ensemble(struct scheduler *s, struct request *req) {
        struct ensemble    *e = self_of(s);
        struct step_models *models;
        struct error       *err;

        if (atomic_load_explicit(&e->is_draining, memory_order_relaxed) && !req->is_inner)
                return draining(req);
        TRY(step_models_take(e->steps, req, &models));
        err = runner_submit(&e->runner, req, models);
        if (err != NULL)
                step_models_unref(models);
        return err;
}

static void cancel_ensemble(struct scheduler *s, struct request *req) {
        runner_cancel(&self_of(s)->runner, req);
}

static void complete_answer(struct scheduler *s, const struct request *req,
                            struct response *response) {
        struct step_models *models;
        AUTO_ERROR          err = step_models_take(self_of(s)->steps, req, &models);

        if (err != NULL)
                return; /* the steps were unloaded a moment ago */
        run_answer_label_all(req, response, models);
        step_models_unref(models);
}

static void drain_ensemble(struct scheduler *s) {
        atomic_store(&self_of(s)->is_draining, true);
}

static void ensemble_free(struct scheduler *s) {
        struct ensemble *e = self_of(s);

        runner_done(&e->runner);
        free(e);
}

struct error *ensemble_prepare(const struct model_config *ensemble, struct step_models *models,
                               bool *ret_is_decoupled) {
        struct pipeline_plan *plan;

        TRY(ensemble_plan_new(ensemble->pb, models, &plan));
        models->plan = plan;
        models->free_plan = ensemble_plan_free;
        *ret_is_decoupled = plan->n_streams > 1;
        return NULL;
}

struct error *ensemble_new(struct model *model, struct step_models_holder *steps,
                           struct step_memory *memory, struct scheduler **ret) {
        static const struct scheduler_ops ops = {
                .submit = submit_to_ensemble,
                .cancel = cancel_ensemble,
                .complete_answer = complete_answer,
                .drain = drain_ensemble,
                .free = ensemble_free,
        };
        const Inference__ModelEnsembling *config = model->config->pb->ensemble_scheduling;
        struct ensemble                  *e = mem_zalloc(sizeof(*e));

        e->base.ops = &ops;
        e->steps = steps;
        runner_init(&e->runner, &(struct runner_options){
                                        .memory = memory,
                                        .n_steps = (uint32_t)config->n_step,
                                        .max_inflight = config->max_inflight_requests,
                                });
        if (config->max_inflight_requests > 0)
                log_info("Ensemble model '%s' configured with max_inflight_requests: %u",
                         model->name, config->max_inflight_requests);
        *ret = &e->base;
        return NULL;
}
