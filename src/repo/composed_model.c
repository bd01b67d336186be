/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/composed_model.h"

#include "base/mem.h"
#include "config/config_edit.h"
#include "infer/model.h"
#include "pipeline/chain.h"
#include "pipeline/chain_metrics.h"
#include "pipeline/chain_plan.h"
#include "pipeline/ensemble.h"
#include "repo/loaded_model.h"
#include "repo/model_key.h"
#include "repo/model_kind.h"
#include "repo/repo.h"

#include <string.h>

struct error *composed_model_new(struct loaded_model *l, struct composed_model **ret) {
        struct model_needs     needs;
        struct composed_model *c;

        *ret = NULL;
        TRY(model_needs_read(l->model.config, &needs));
        if (needs.kind == NEEDS_NOTHING) {
                model_needs_done(&needs);
                return NULL;
        }
        c = mem_zalloc(sizeof(*c));
        c->model = l;
        c->needs = needs;
        step_models_holder_init(&c->holder);
        /* Cannot fail: model_needs_read() has read the same parameters. */
        error_free(chain_line_read(l->model.config, &c->line));
        if (needs.kind != NEEDS_STEPS)
                c->metrics = chain_metrics_new(l->env->metrics, l->name, l->model.version);
        *ret = c;
        return NULL;
}

void composed_model_free(struct composed_model *c) {
        if (c == NULL)
                return;
        step_models_holder_done(&c->holder);
        chain_metrics_free(c->metrics);
        chain_line_done(&c->line);
        model_needs_done(&c->needs);
        free(c);
}

/* ---- finding the models ---------------------------------------------------------------------- */

/* The models found so far, with references of their own. */
struct found_steps {
        struct step_model *items; /* owned, and the references */
        size_t             n;
};

static void add_step(struct found_steps *f, struct model *model, struct step_models *nested,
                     size_t n_next) {
        f->items = mem_realloc(f->items, (f->n + 1) * sizeof(*f->items));
        f->items[f->n++] = (struct step_model){ model, nested, n_next };
}

static void found_steps_done(struct found_steps *f) {
        for (size_t i = 0; i < f->n; i++) {
                model_unref(f->items[i].model);
                step_models_unref(f->items[i].nested);
        }
        free(f->items);
}

/* NULL when the model is not composed. */
static struct composed_model *composed_of(struct model *model) {
        return loaded_model_of(model)->composed;
}

static bool has_next(const struct composed_model *c) {
        return c != NULL && c->needs.kind == NEEDS_NEXT;
}

static char *not_ready(const struct composed_model *c, const char *name) {
        switch (c->needs.kind) {
        case NEEDS_NEXT: return mem_printf("next model '%s' is not ready", name);
        case NEEDS_STAGES: return mem_printf("stage '%s' is not ready", name);
        default: return mem_strdup("unloaded"); /* as the reference server, which unloads it */
        }
}

/* Adds the models that follow the next model in its own chain. */
static void add_followers(struct found_steps *f, struct composed_model *next,
                          struct composed_block *ret) {
        struct step_models *s = step_models_holder_get(&next->holder);

        if (s == NULL) {
                AUTO_ERROR why = step_models_holder_why(&next->holder);

                ret->why = why != NULL ? mem_strdup(why->message)
                                       : not_ready(next, next->needs.items[0].name);
                return;
        }
        for (size_t i = 0; i < s->n; i++) {
                model_ref(s->models[i]);
                if (s->nested[i] != NULL)
                        step_models_ref(s->nested[i]);
                add_step(f, s->models[i], s->nested[i], 0);
        }
        step_models_unref(s);
}

/* 0 when it cannot serve. */
static size_t count_all(struct composed_model *c) {
        struct step_models *s = step_models_holder_get(&c->holder);
        size_t              n = s != NULL ? s->n_all : 0;

        step_models_unref(s);
        return n;
}

static void find_step(struct composed_model *c, const struct model_need *need,
                      struct found_steps *f, struct composed_block *ret) {
        const struct loaded_model *l = c->model;
        const struct model_key     key = { .namespace = l->namespace, .name = l->name };
        struct model              *model = l->env->find_step(l->env->owner, &key, need);
        struct composed_model     *of_step;
        struct step_models        *nested = NULL;

        if (model == NULL) {
                ret->why = not_ready(c, need->name);
                return;
        }
        of_step = composed_of(model);
        if (of_step != NULL && !has_next(of_step)) {
                nested = step_models_holder_get(&of_step->holder);
                if (nested == NULL)
                        ret->why = not_ready(c, need->name);
        }
        add_step(f, model, nested, has_next(of_step) && !has_next(c) ? count_all(of_step) : 0);
        if (has_next(of_step) && has_next(c))
                add_followers(f, of_step, ret);
}

static void find_steps(struct composed_model *c, struct found_steps *f,
                       struct composed_block *ret) {
        if (c->model->env->find_step == NULL) {
                ret->why = mem_strdup("models that need others are not supported here");
                return;
        }
        for (size_t i = 0; i < c->needs.n && ret->why == NULL; i++)
                find_step(c, &c->needs.items[i], f, ret);
}

/* ---- binding --------------------------------------------------------------------------------- */

static bool is_same(const struct step_models *s, const struct found_steps *f) {
        if (s == NULL || s->n != f->n)
                return false;
        for (size_t i = 0; i < f->n; i++)
                if (s->models[i] != f->items[i].model || s->nested[i] != f->items[i].nested)
                        return false;
        return true;
}

static const struct chain_line *line_of(struct model *model) {
        static const struct chain_line none = { .kind = CHAIN_NONE };
        struct composed_model         *c = composed_of(model);

        return has_next(c) ? &c->line : &none;
}

static struct error *plan_chain(struct composed_model *c, struct step_models *s) {
        bool                      is_next = c->needs.kind == NEEDS_NEXT;
        size_t                    n = s->n + is_next;
        struct chain_stage_model *stages = mem_zalloc((n + 1) * sizeof(*stages));
        struct chain_plan        *plan = NULL;
        struct error             *err;

        for (size_t i = 0; i < n; i++) {
                struct model *model = is_next && i == 0 ? &c->model->model : s->models[i - is_next];
                const struct chain_line *line = line_of(model);

                stages[i].model = model;
                if (!is_next || i > 0)
                        stages[i].nested = s->nested[i - is_next];
                if (!is_next)
                        continue; /* the `next` of a stage has no effect here */
                stages[i].map = line->map;
                stages[i].n_map = line->n_map;
        }
        err = chain_plan_new(c->model->name, c->metrics, stages, n, &plan);
        free(stages);
        if (err == NULL) {
                s->plan = plan;
                s->free_plan = chain_plan_free;
        }
        return err;
}

/* Checks an ensemble against the models of its steps, and makes the plan of the snapshot. */
static struct error *plan_ensemble(struct loaded_model *l, struct step_models *s) {
        bool is_decoupled;

        TRY(ensemble_prepare(l->model.config, s, &is_decoupled));
        /* At the load the configuration gets the value that follows from the steps, whatever the
         * file contains. */
        if (l->model.scheduler == NULL)
                return config_edit_set_decoupled(l->model.config, is_decoupled);
        if (is_decoupled == l->model.is_decoupled)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "the steps of ensemble '%s' %s decoupled now, load it again", l->name,
                         is_decoupled ? "are" : "are not");
}

static struct error *make_plan(struct composed_model *c, struct step_models *s) {
        TRY(model_needs_check_size(c->model->name, s->n_all));
        switch (c->needs.kind) {
        case NEEDS_NEXT:
        case NEEDS_STAGES: return plan_chain(c, s);
        default: return plan_ensemble(c->model, s);
        }
}

/* The error for requests that come while the model cannot serve. */
static struct error *refusal(const struct composed_model *c, const char *why) {
        if (c->needs.kind == NEEDS_STEPS)
                return error_new(ERR_NOT_FOUND,
                                 "Request for unknown model: '%s' has no available versions",
                                 c->model->name);
        return error_new_text(ERR_UNAVAILABLE, why);
}

static void use(struct composed_model *c, const struct found_steps *f, struct composed_block *ret) {
        struct step_models *s = step_models_new(f->items, f->n);
        AUTO_ERROR          err = make_plan(c, s);

        if (err == NULL) {
                step_models_holder_set(&c->holder, s);
                /* Invalidates the cached responses of the previous models. */
                if (c->needs.kind != NEEDS_NEXT)
                        atomic_fetch_add(&c->model->model.cache_epoch, 1);
                return;
        }
        ret->why = mem_strdup(err->message);
        ret->is_fault = true;
        step_models_unref(s);
}

struct scheduler *composed_model_chain(struct composed_model *c, struct scheduler *own) {
        return chain_new(&(struct chain_options){ .own = own,
                                                  .holder = &c->holder,
                                                  .metrics = c->metrics,
                                                  .memory = c->model->env->step_memory,
                                                  .may_end = c->line.may_end,
                                                  .keeps_batches = c->line.keeps_batches });
}

void composed_model_bind(struct composed_model *c, struct composed_block *ret) {
        struct step_models *current = step_models_holder_get(&c->holder);
        struct found_steps  f = { 0 };

        *ret = (struct composed_block){ 0 };
        find_steps(c, &f, ret);
        if (ret->why == NULL && !is_same(current, &f))
                use(c, &f, ret);
        if (ret->why != NULL)
                step_models_holder_block(&c->holder, refusal(c, ret->why));
        step_models_unref(current);
        found_steps_done(&f);
}

struct error *composed_block_error(struct composed_block *b) {
        struct error *err = NULL;

        if (b->why != NULL)
                err = error_new_text(b->is_fault ? ERR_INVALID_ARG : ERR_UNAVAILABLE, b->why);
        free(STEAL(b->why));
        return err;
}

struct step_models *composed_model_get(struct composed_model *c) {
        return step_models_holder_get(&c->holder);
}

/* The steps of a step, which have to be ready, too; NULL: none. A model with a `next` has all that follow as
 * steps: asking each of them for its own would double the questions with each model. */
static struct composed_model *steps_of_step(const struct composed_model *c, struct model *step) {
        struct composed_model *of_step = composed_of(step);

        return has_next(c) && has_next(of_step) ? NULL : of_step;
}

bool model_is_ready_itself(struct model *model) {
        struct loaded_model *l = loaded_model_of(model);

        return l->kind->is_ready(l);
}

/* True when the models of all steps exist and can serve. */
static bool are_steps_ready(struct composed_model *c) {
        struct step_models *s = composed_model_get(c);
        bool                is_ready = s != NULL;

        for (size_t i = 0; is_ready && i < s->n; i++) {
                struct composed_model *steps = steps_of_step(c, s->models[i]);

                is_ready = model_is_ready_itself(s->models[i]) &&
                           (steps == NULL || are_steps_ready(steps));
        }
        step_models_unref(s);
        return is_ready;
}

static struct readiness readiness_of(struct model *model, struct composed_model *steps);

static void add_steps(struct readiness *to, struct composed_model *c) {
        struct step_models *s = composed_model_get(c);

        to->is_ready = s != NULL;
        for (size_t i = 0; s != NULL && i < s->n; i++) {
                struct readiness one = readiness_of(s->models[i], steps_of_step(c, s->models[i]));

                to->is_ready = to->is_ready && one.is_ready;
                to->asks_backends = to->asks_backends || one.asks_backends;
        }
        step_models_unref(s);
}

static struct readiness readiness_of(struct model *model, struct composed_model *steps) {
        struct readiness found = { .is_ready = true, .asks_backends = model->may_be_unready };

        if (steps != NULL)
                add_steps(&found, steps);
        return found;
}

struct readiness model_readiness(struct model *model) {
        return readiness_of(model, composed_of(model));
}

bool model_is_ready(struct model *model) {
        struct composed_model *steps = composed_of(model);

        return model_is_ready_itself(model) && (steps == NULL || are_steps_ready(steps));
}
