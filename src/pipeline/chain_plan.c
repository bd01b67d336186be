/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/chain_plan.h"

#include "base/mem.h"
#include "config/config_edit.h"
#include "config/model_io.h"
#include "infer/model.h"
#include "pipeline/chain_metrics.h"
#include "pipeline/runner.h"

void chain_plan_free(void *plan) {
        struct chain_plan *c = plan;

        if (c == NULL)
                return;
        pipeline_plan_done(&c->base);
        free(c);
}

uint32_t chain_plan_count(const struct chain_plan *c) {
        return c->base.n_steps;
}

struct model *chain_plan_stage(const struct chain_plan *c, uint32_t at) {
        return c->base.steps[at].model;
}

uint32_t chain_plan_max_batch(const struct chain_plan *c) {
        return c->max_batch;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The inputs of the first stage are the first tensors. */
static bool link_first(struct pipeline_plan *p) {
        struct plan_step *first = &p->steps[0];
        uint32_t          n = first->model->io->n_inputs;

        p->inputs = arena_try_calloc(&p->arena, n, sizeof(*p->inputs));
        first->inputs = arena_try_calloc(&p->arena, n, sizeof(*first->inputs));
        if (p->inputs == NULL || first->inputs == NULL)
                return false;
        for (uint32_t i = 0; i < n; i++) {
                p->inputs[i] = p->n_tensors;
                first->inputs[i] = (struct plan_link){ .io = &first->model->io->inputs[i],
                                                       .tensor = p->n_tensors,
                                                       .bridge = BRIDGE_NONE };
                p->tensors[p->n_tensors++] = (struct plan_tensor){ .writer = PLAN_NONE };
        }
        first->n_inputs = n;
        return true;
}

/* Returns the tensor of the stage's output, which is a new one for its first reader. */
static uint32_t tensor_of(struct pipeline_plan *p, struct plan_step *from, uint32_t output) {
        const struct model_io *io = &from->model->io->outputs[output];

        for (uint32_t i = 0; i < from->n_outputs; i++)
                if (from->outputs[i].io == io)
                        return from->outputs[i].tensor;
        from->outputs[from->n_outputs++] = (struct plan_link){ .io = io, .tensor = p->n_tensors };
        p->tensors[p->n_tensors] = (struct plan_tensor){ .writer = from->index };
        return p->n_tensors++;
}

static bool link_by_edge(struct pipeline_plan *p, struct plan_step *from, struct plan_step *to,
                         const struct chain_edge *edge) {
        static const enum tensor_bridge bridges[] = { [CHAIN_SAME] = BRIDGE_NONE,
                                                      [CHAIN_ADD_ONE] = BRIDGE_ADD_ONE,
                                                      [CHAIN_DROP_ONE] = BRIDGE_DROP_ONE };

        from->outputs = arena_try_calloc(&p->arena, edge->n_inputs, sizeof(*from->outputs));
        to->inputs = arena_try_calloc(&p->arena, edge->n_inputs, sizeof(*to->inputs));
        if (from->outputs == NULL || to->inputs == NULL)
                return false;
        for (uint32_t i = 0; i < edge->n_inputs; i++) {
                const struct chain_link *link = &edge->inputs[i];

                if (link->is_linked)
                        to->inputs[to->n_inputs++] = (struct plan_link){
                                .io = &to->model->io->inputs[i],
                                .tensor = tensor_of(p, from, link->output),
                                .bridge = bridges[link->bridge],
                        };
        }
        return true;
}

static struct error *link_to_next(struct pipeline_plan *p, const char *chain, uint32_t at,
                                  const struct chain_stage_model *stage) {
        struct plan_step      *from = &p->steps[at], *to = &p->steps[at + 1];
        const struct chain_end ends[] = { { from->model->name, from->model->io },
                                          { to->model->name, to->model->io } };
        struct chain_edge     *edge;
        bool                   is_linked;

        if (from->model->is_decoupled)
                return error_new(
                        ERR_INVALID_ARG,
                        "stage '%s' of chain '%s' is decoupled: only the last stage may be",
                        from->model->name, chain);
        TRY(chain_edge_new(&ends[0], &ends[1], stage->map, stage->n_map, &edge));
        is_linked = link_by_edge(p, from, to, edge);
        free(edge);
        return is_linked ? NULL : config_out_of_memory();
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void limit_batch(struct chain_plan *c) {
        c->max_batch = c->base.steps[0].model->io->max_batch_size;
        for (uint32_t i = 1; i < c->base.n_steps && c->max_batch > 0; i++) {
                uint32_t most = c->base.steps[i].model->io->max_batch_size;

                if (most == 0 || most >= c->max_batch)
                        continue;
                c->max_batch = most;
                c->narrowest = i;
        }
}

/* Stages without sequences get no correlation id: a backend would see it. */
static void describe_stage(struct plan_step *s, uint32_t index,
                           const struct chain_stage_model *stage, struct chain_metrics *metrics) {
        struct model *model = stage->model;

        s->index = index;
        s->model = model;
        s->nested = stage->nested;
        s->has_sequence = model->config->pb->scheduling_choice_case ==
                          INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING;
        s->failure = chain_metrics_open_failure(metrics, model->name);
}

static bool allocate_plan(struct pipeline_plan *p, const struct chain_stage_model *stages,
                          size_t n) {
        size_t n_tensors = 0; /* bounded, as n: see chain_plan_new() */

        for (size_t i = 0; i < n; i++)
                n_tensors += stages[i].model->io->n_inputs;
        p->n_steps = p->n_ordered = (uint32_t)n;
        p->steps = arena_try_calloc(&p->arena, n, sizeof(*p->steps));
        p->order = arena_try_calloc(&p->arena, n, sizeof(*p->order));
        p->tensors = arena_try_calloc(&p->arena, n_tensors, sizeof(*p->tensors));
        return p->steps != NULL && p->order != NULL && p->tensors != NULL;
}

static struct error *build_plan(struct pipeline_plan *p, const char *chain,
                                struct chain_metrics           *metrics,
                                const struct chain_stage_model *stages, size_t n) {
        p->is_chain = true;
        p->n_streams = 1;
        if (!allocate_plan(p, stages, n))
                return config_out_of_memory();
        for (uint32_t i = 0; i < p->n_steps; i++) {
                describe_stage(&p->steps[i], i, &stages[i], metrics);
                p->order[i] = i;
        }
        p->steps[n - 1].is_passed_on = true;
        if (!link_first(p))
                return config_out_of_memory();
        for (uint32_t i = 0; i + 1 < p->n_steps; i++) {
                p->steps[i].handoff = chain_metrics_open_handoff(metrics, p->steps[i].model->name,
                                                                 p->steps[i + 1].model->name);
                TRY(link_to_next(p, chain, i, &stages[i]));
        }
        return pipeline_plan_finish(p) ? NULL : config_out_of_memory();
}

struct error *chain_plan_new(const char *chain, struct chain_metrics *metrics,
                             const struct chain_stage_model *stages, size_t n,
                             struct chain_plan **ret) {
        /* n is bounded: the stages of the configurations of the chain's models, and each
         * configuration is bounded in bytes. */
        struct chain_plan *c = mem_zalloc(sizeof(*c));

        arena_init(&c->base.arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        TRY_OR(build_plan(&c->base, chain, metrics, stages, n), chain_plan_free(c));
        limit_batch(c);
        runner_price(&c->base);
        *ret = c;
        return NULL;
}
