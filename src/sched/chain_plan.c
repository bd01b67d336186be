/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/chain_plan.h"

#include "base/mem.h"
#include "config/model_io.h"
#include "infer/model.h"
#include "sched/chain_metrics.h"
#include "sched/step_cost.h"

#define RUN_BYTES 4096 /* a run, in a block of its request's arena */

void chain_plan_free(void *plan) {
        struct chain_plan *p = plan;

        if (p == NULL)
                return;
        for (uint32_t i = 0; i < p->n; i++) {
                free(p->stages[i].edge);
                free(p->stages[i].outputs);
        }
        free(p);
}

uint32_t chain_plan_count(const struct chain_plan *p) {
        return p->n;
}

struct model *chain_plan_stage(const struct chain_plan *p, uint32_t at) {
        return p->stages[at].model;
}

uint32_t chain_plan_max_batch(const struct chain_plan *p) {
        return p->max_batch;
}

/* Collects the outputs that the next stage reads; n_outputs stays 0 when it reads all. */
static void choose_outputs(struct planned_stage *s, const struct model_io_set *io) {
        s->outputs = mem_zalloc((io->n_outputs + 1) * sizeof(const char *));
        for (uint32_t o = 0; o < io->n_outputs; o++)
                for (uint32_t i = 0; i < s->edge->n_inputs; i++)
                        if (s->edge->inputs[i].is_linked && s->edge->inputs[i].output == o) {
                                s->outputs[s->n_outputs++] = io->outputs[o].name;
                                break;
                        }
        if (s->n_outputs == io->n_outputs)
                s->n_outputs = 0;
}

static struct error *link_to_next(const char *chain, const struct chain_stage_model *stages,
                                  uint32_t at, struct planned_stage *s) {
        const struct model    *from = stages[at].model, *to = stages[at + 1].model;
        const struct chain_end ends[] = { { from->name, from->io }, { to->name, to->io } };

        if (from->is_decoupled)
                return error_new(
                        ERR_INVALID_ARG,
                        "stage '%s' of chain '%s' is decoupled: only the last stage may be",
                        from->name, chain);
        TRY(chain_edge_new(&ends[0], &ends[1], stages[at].map, stages[at].n_map, &s->edge));
        choose_outputs(s, from->io);
        return NULL;
}

static void limit_batch(struct chain_plan *p) {
        p->max_batch = p->stages[0].model->io->max_batch_size;
        for (uint32_t i = 1; i < p->n && p->max_batch > 0; i++) {
                uint32_t most = p->stages[i].model->io->max_batch_size;

                if (most == 0 || most >= p->max_batch)
                        continue;
                p->max_batch = most;
                p->narrowest = i;
        }
}

static struct error *fill_stages(struct chain_plan *p, const char *chain,
                                 struct chain_metrics           *metrics,
                                 const struct chain_stage_model *stages) {
        for (uint32_t i = 0; i < p->n; i++) {
                struct planned_stage *s = &p->stages[i];

                s->model = stages[i].model;
                s->failure = chain_metrics_open_failure(metrics, s->model->name);
                p->run_bytes += step_cost_request(s->model);
                if (i + 1 == p->n)
                        break;
                s->handoff = chain_metrics_open_handoff(metrics, s->model->name,
                                                        stages[i + 1].model->name);
                TRY(link_to_next(chain, stages, i, s));
        }
        limit_batch(p);
        return NULL;
}

struct error *chain_plan_new(const char *chain, struct chain_metrics *metrics,
                             const struct chain_stage_model *stages, size_t n,
                             struct chain_plan **ret) {
        /* n is bounded: the stages of the configurations of the chain's models, and each
         * configuration is bounded in bytes. */
        struct chain_plan *p = mem_zalloc(sizeof(*p) + n * sizeof(p->stages[0]));
        struct error      *err;

        p->n = (uint32_t)n;
        p->run_bytes = RUN_BYTES;
        err = fill_stages(p, chain, metrics, stages);
        if (err != NULL)
                chain_plan_free(p);
        else
                *ret = p;
        return err;
}
