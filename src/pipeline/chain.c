/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/chain.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_prepare.h"
#include "infer/scheduler.h"
#include "pipeline/chain_plan.h"
#include "pipeline/runner.h"
#include "pipeline/step_models.h"

#include <stdatomic.h>

struct chain {
        struct scheduler           base;
        struct scheduler          *own;    /* owned; NULL for platform "chain" */
        struct step_models_holder *holder; /* borrowed: outlives the scheduler */
        struct runner              runner;
        _Atomic bool               is_draining;
};

static struct chain *self_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct chain, base);
}

/* True when the request runs the first model only, not the chain. */
static bool is_for_model_alone(const struct chain *c, const struct request *req) {
        return c->own != NULL && !request_runs_chain(req);
}

/* ---- admission ------------------------------------------------------------------------------- */

static struct error *check_outputs(const struct chain *c, const struct chain_plan *plan,
                                   const struct request *req) {
        const struct model *last = chain_plan_stage(plan, chain_plan_count(plan) - 1);
        uint32_t            at = 0;

        if (c->own == NULL)
                return NULL; /* checked against the chain's own configuration */
        for (const struct requested_output *o = req->first_output; o != NULL; o = o->next, at++)
                if (model_io_find_output(last->io, str_of(o->name), at) == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "unexpected inference output '%s' for model '%s', whose "
                                         "chain ends with model '%s'",
                                         o->name, req->model->name, last->name);
        return NULL;
}

static struct error *check_request(const struct chain *c, const struct chain_plan *plan,
                                   const struct request *req) {
        TRY(check_outputs(c, plan, req));
        if (plan->max_batch == 0 || req->batch_size <= plan->max_batch)
                return NULL;
        return request_error(req, ERR_INVALID_ARG,
                             "inference request batch-size must be <= %u for stage '%s' of chain "
                             "'%s'",
                             plan->max_batch, chain_plan_stage(plan, plan->narrowest)->name,
                             req->model->name);
}

/* True when the request continues a live sequence of the first model. */
static bool continues_sequence(const struct chain *c, const struct request *req) {
        return c->base.sequences != NULL && (req->flags & REQUEST_SEQUENCE_START) == 0 &&
               c->own->sequences->knows(c->own, req);
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static struct error *submit_to_chain(struct scheduler *s, struct request *req) {
        struct chain       *c = self_of(s);
        struct step_models *models;
        struct error       *err;

        if (is_for_model_alone(c, req))
                return c->own->ops->submit(c->own, req);
        if (atomic_load_explicit(&c->is_draining, memory_order_relaxed) && !req->is_inner &&
            !continues_sequence(c, req))
                return request_error(
                        req, ERR_UNAVAILABLE,
                        "Server is stopping, scheduler for model has stopped accepting "
                        "new inference requests");
        TRY(step_models_take(c->holder, req, &models));
        err = check_request(c, models->plan, req);
        if (err == NULL)
                err = runner_submit(&c->runner, req, models);
        if (err != NULL)
                step_models_unref(models);
        return err;
}

static void submit_all(struct scheduler *s, struct request *const *requests, uint32_t n,
                       struct error **ret_errors) {
        struct scheduler *own = self_of(s)->own;

        if (own != NULL && own->ops->submit_all != NULL) {
                /* submit_all() gets inner requests only; these do not run the chain. */
                own->ops->submit_all(own, requests, n, ret_errors);
                return;
        }
        for (uint32_t i = 0; i < n; i++)
                ret_errors[i] = submit_to_chain(s, requests[i]);
}

static void cancel_chain(struct scheduler *s, struct request *req) {
        struct chain *c = self_of(s);

        if (is_for_model_alone(c, req))
                c->own->ops->cancel(c->own, req);
        else
                runner_cancel(&c->runner, req);
}

static bool released(struct scheduler *s, struct request *req, uint32_t flags) {
        struct chain     *c = self_of(s);
        struct scheduler *own = c->own;

        return is_for_model_alone(c, req) && own->ops->released != NULL &&
               own->ops->released(own, req, flags);
}

static struct error *add_executor(struct scheduler *s, struct executor *e) {
        struct scheduler *own = self_of(s)->own;

        return own != NULL ? own->ops->add_executor(own, e) : NULL;
}

static void remove_executor(struct scheduler *s, struct executor *e) {
        struct scheduler *own = self_of(s)->own;

        if (own != NULL)
                own->ops->remove_executor(own, e);
}

static void drain_chain(struct scheduler *s) {
        struct chain *c = self_of(s);

        atomic_store(&c->is_draining, true);
        if (c->own != NULL)
                c->own->ops->drain(c->own);
}

static void retire(struct scheduler *s) {
        struct scheduler *own = self_of(s)->own;

        if (own != NULL && own->ops->retire != NULL)
                own->ops->retire(own);
}

static void free_chain(struct scheduler *s) {
        struct chain *c = self_of(s);

        if (c->own != NULL)
                c->own->ops->free(c->own);
        runner_done(&c->runner);
        free(c);
}

/* ---- the sequences of the first model -------------------------------------------------------- */

static bool sequences_knows(struct scheduler *s, const struct request *req) {
        struct scheduler *own = self_of(s)->own;

        return own->sequences->knows(own, req);
}

static void sequences_forget(struct scheduler *s, const struct request *req) {
        struct scheduler *own = self_of(s)->own;

        own->sequences->forget(own, req);
}

static void sequences_retire(struct scheduler *s) {
        struct scheduler *own = self_of(s)->own;

        own->sequences->retire(own);
}

static void sequences_end_idle(struct scheduler *s) {
        struct scheduler *own = self_of(s)->own;

        own->sequences->end_idle(own);
}

static void sequences_close_executor(struct scheduler *s, const struct executor *e) {
        struct scheduler *own = self_of(s)->own;

        own->sequences->close_executor(own, e);
}

static struct sequence_count sequences_count(struct scheduler *s) {
        struct scheduler *own = self_of(s)->own;

        return own->sequences->count(own);
}

static size_t sequences_list(struct scheduler *s, struct sequence_cursor *at,
                             struct sequence_row *rows, size_t n_rows) {
        struct scheduler *own = self_of(s)->own;

        return own->sequences->list(own, at, rows, n_rows);
}

static const struct sequence_ops sequences = {
        .knows = sequences_knows,
        .forget = sequences_forget,
        .retire = sequences_retire,
        .end_idle = sequences_end_idle,
        .close_executor = sequences_close_executor,
        .count = sequences_count,
        .list = sequences_list,
};

struct scheduler *chain_new(const struct chain_options *o) {
        static const struct scheduler_ops ops = {
                .submit = submit_to_chain,
                .submit_all = submit_all,
                .cancel = cancel_chain,
                .released = released,
                .add_executor = add_executor,
                .remove_executor = remove_executor,
                .drain = drain_chain,
                .retire = retire,
                .free = free_chain,
        };
        struct chain *c = mem_zalloc(sizeof(*c));

        c->base.ops = &ops;
        if (o->own != NULL) {
                c->base.sequences = o->own->sequences != NULL ? &sequences : NULL;
                c->base.order = o->own->order;
                c->base.may_reschedule = o->own->may_reschedule;
        }
        c->own = o->own;
        c->holder = o->holder;
        runner_init(&c->runner, &(struct runner_options){ .memory = o->memory,
                                                          .metrics = o->metrics,
                                                          .begins_at_own = o->own != NULL,
                                                          .may_end = o->may_end,
                                                          .keeps_batches = o->keeps_batches });
        return &c->base;
}
