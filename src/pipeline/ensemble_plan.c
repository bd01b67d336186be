/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/ensemble_plan.h"

#include "base/mem.h"
#include "config/config_edit.h"
#include "config/ensemble_models.h"
#include "infer/model.h"
#include "pipeline/runner.h"
#include "pipeline/step_models.h"

#include <string.h>

/* A plan with its graph, which has the names of the tensors. */
struct ensemble_plan {
        struct pipeline_plan   base;
        struct ensemble_graph *graph; /* owned */
};

/* ---- the models ------------------------------------------------------------------------------ */

static struct ensemble_step_model *describe_models(const struct step_models *models) {
        struct ensemble_step_model *m = try_zalloc((models->n + 1) * sizeof(*m));

        for (size_t i = 0; m != NULL && i < models->n; i++)
                m[i] = (struct ensemble_step_model){ .pb = models->models[i]->config->pb,
                                                     .is_decoupled =
                                                             models->models[i]->is_decoupled };
        return m;
}

static struct error *assign_streams(struct ensemble_plan *e, const struct ensemble_step_model *m,
                                    uint32_t *streams) {
        const struct ensemble_graph *g = e->graph;
        uint32_t                     n;

        TRY(ensemble_models_check(g, m));
        TRY(ensemble_models_streams(g, m, streams, &n));
        for (uint32_t i = 0; i < g->n_tensors; i++)
                e->base.tensors[i].stream = streams[i];
        e->base.n_streams = n + 1;
        if (g->pb->n_output > 0)
                e->base.out_stream = streams[g->outputs[0]];
        return NULL;
}

static struct error *check_models(struct ensemble_plan *e, const struct step_models *models) {
        struct ensemble_step_model *m = describe_models(models);
        uint32_t     *streams = try_zalloc((e->graph->n_tensors + (size_t)1) * sizeof(*streams));
        struct error *err = NULL;

        if (m == NULL || streams == NULL)
                err = config_out_of_memory();
        if (err == NULL)
                err = assign_streams(e, m, streams);
        free(streams);
        free(m);
        return err;
}

/* ---- tensors and steps ----------------------------------------------------------------------- */

/* The plan borrows the arrays of the graph, which it owns. */
static struct error *plan_tensors(struct ensemble_plan *e) {
        struct pipeline_plan        *p = &e->base;
        const struct ensemble_graph *g = e->graph;

        p->tensors = arena_try_calloc(&p->arena, g->n_tensors, sizeof(*p->tensors));
        if (p->tensors == NULL)
                return config_out_of_memory();
        p->n_tensors = g->n_tensors;
        for (uint32_t i = 0; i < g->n_tensors; i++)
                p->tensors[i] = (struct plan_tensor){ .name = g->tensors[i].name,
                                                      .writer = g->tensors[i].writer,
                                                      .readers = g->tensors[i].readers,
                                                      .n_readers = g->tensors[i].n_readers };
        p->inputs = g->inputs;
        p->outputs = g->outputs;
        p->n_outputs = (uint32_t)g->pb->n_output;
        p->order = g->order;
        p->n_ordered = g->n_ordered;
        return NULL;
}

static struct error *missing_tensor(const struct ensemble_plan *e, const struct ensemble_step *step,
                                    const char *name) {
        return error_new(ERR_INTERNAL, "in ensemble %s, the model %s has no tensor %s",
                         e->graph->pb->name, step->model, name);
}

static struct error *link_step(struct ensemble_plan *e, const struct ensemble_step *step,
                               struct plan_step *s) {
        const struct model_io_set *io = s->model->io;

        s->inputs = arena_try_calloc(&e->base.arena, step->n_inputs, sizeof(*s->inputs));
        s->outputs = arena_try_calloc(&e->base.arena, step->n_outputs, sizeof(*s->outputs));
        if (s->inputs == NULL || s->outputs == NULL)
                return config_out_of_memory();
        for (uint32_t i = 0; i < step->n_inputs; i++) {
                s->inputs[i].tensor = step->inputs[i].tensor;
                s->inputs[i].io = model_io_find_input(io, str_of(step->inputs[i].name), i);
                if (s->inputs[i].io == NULL)
                        return missing_tensor(e, step, step->inputs[i].name);
        }
        for (uint32_t i = 0; i < step->n_outputs; i++) {
                s->outputs[i].tensor = step->outputs[i].tensor;
                s->outputs[i].io = model_io_find_output(io, str_of(step->outputs[i].name), i);
                if (s->outputs[i].io == NULL)
                        return missing_tensor(e, step, step->outputs[i].name);
        }
        s->n_inputs = step->n_inputs;
        s->n_outputs = step->n_outputs;
        return NULL;
}

static struct error *plan_steps(struct ensemble_plan *e, const struct step_models *models) {
        struct pipeline_plan *p = &e->base;

        p->n_steps = e->graph->n_steps;
        p->steps = arena_try_calloc(&p->arena, p->n_steps, sizeof(*p->steps));
        if (p->steps == NULL)
                return config_out_of_memory();
        for (uint32_t i = 0; i < p->n_steps; i++) {
                const struct ensemble_step *step = &e->graph->steps[i];
                struct plan_step           *s = &p->steps[i];

                s->index = i;
                s->model = models->models[i];
                s->nested = models->nested[i];
                s->has_sequence = true;
                s->in_stream = p->tensors[step->inputs[0].tensor].stream;
                s->out_stream = p->tensors[step->outputs[0].tensor].stream;
                TRY(link_step(e, step, s));
        }
        return NULL;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static struct error *build_plan(struct ensemble_plan *e, const Inference__ModelConfig *ensemble,
                                const struct step_models *models) {
        TRY(ensemble_graph_new(ensemble, &e->graph));
        TRY(plan_tensors(e));
        TRY(check_models(e, models));
        TRY(plan_steps(e, models));
        return pipeline_plan_finish(&e->base) ? NULL : config_out_of_memory();
}

struct error *ensemble_plan_new(const Inference__ModelConfig *ensemble,
                                const struct step_models *models, struct pipeline_plan **ret) {
        struct ensemble_plan *e = try_zalloc(sizeof(*e));

        if (e == NULL)
                return config_out_of_memory();
        arena_init(&e->base.arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        TRY_OR(build_plan(e, ensemble, models), ensemble_plan_free(e));
        runner_price(&e->base);
        *ret = &e->base;
        return NULL;
}

void ensemble_plan_free(void *plan) {
        struct ensemble_plan *e = plan;

        if (e == NULL)
                return;
        pipeline_plan_done(&e->base);
        ensemble_graph_free(e->graph);
        free(e);
}
