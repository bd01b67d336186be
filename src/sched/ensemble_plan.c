/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/ensemble_plan.h"

#include "base/mem.h"
#include "config/config_edit.h"
#include "config/ensemble_models.h"
#include "infer/model.h"
#include "infer/request.h"
#include "sched/step_cost.h"
#include "sched/step_models.h"

#include <string.h>

/* ---- the models ------------------------------------------------------------------------------ */

static struct ensemble_step_model *describe_models(const struct step_models *models) {
        struct ensemble_step_model *m = try_zalloc((models->n + 1) * sizeof(*m));

        for (size_t i = 0; m != NULL && i < models->n; i++)
                m[i] = (struct ensemble_step_model){ .pb = models->models[i]->config->pb,
                                                     .is_decoupled =
                                                             models->models[i]->is_decoupled };
        return m;
}

/* ---- the requested outputs ------------------------------------------------------------------- */

/* Allocates all arrays as one zeroed block. False when memory is short. */
static bool choice_init(const struct ensemble_plan *p, struct plan_choice *c) {
        size_t n_steps = p->graph->n_steps, n_tensors = p->graph->n_tensors;
        size_t words = n_steps + p->n_streams;
        char  *at = try_zalloc(words * sizeof(uint32_t) + 2 * (n_steps + n_tensors));

        if (at == NULL)
                return false;
        *c = (struct plan_choice){ .memory = at, .direct_step = ENSEMBLE_NONE };
        c->n_users = (uint32_t *)at;
        c->n_steps = c->n_users + n_steps;
        c->has_step = (bool *)(c->n_steps + p->n_streams);
        c->writes = c->has_step + n_steps;
        c->is_output = c->writes + n_steps;
        c->is_used = c->is_output + n_tensors;
        return true;
}

void plan_choice_done(struct plan_choice *c) {
        free(c->memory);
}

static void mark_used(const struct ensemble_plan *p, struct plan_choice *c) {
        for (uint32_t i = 0; i < p->graph->n_tensors; i++) {
                const struct ensemble_tensor *t = &p->graph->tensors[i];

                c->is_used[i] = c->is_output[i];
                for (uint32_t k = 0; k < t->n_readers && !c->is_used[i]; k++)
                        c->is_used[i] = c->has_step[t->readers[k]];
        }
}

static void mark_writer(const struct ensemble_plan *p, struct plan_choice *c, uint32_t tensor) {
        uint32_t writer = p->graph->tensors[tensor].writer;

        if (writer != ENSEMBLE_NONE)
                c->has_step[writer] = true;
}

/* Marks the needed steps: follows the data backwards, from the requested outputs to the inputs. */
static void mark_needed(const struct ensemble_plan *p, struct plan_choice *c) {
        const struct ensemble_graph *g = p->graph;

        for (uint32_t i = 0; i < g->n_tensors; i++)
                if (c->is_output[i])
                        mark_writer(p, c, i);
        for (uint32_t i = g->n_ordered; i-- > 0;) {
                const struct ensemble_step *step = &g->steps[g->order[i]];

                for (uint32_t k = 0; c->has_step[g->order[i]] && k < step->n_inputs; k++)
                        mark_writer(p, c, step->inputs[k].tensor);
        }
}

static uint32_t count_outputs(const struct ensemble_plan *p, const struct plan_choice *c,
                              uint32_t step) {
        const struct ensemble_step *s = &p->graph->steps[step];
        uint32_t                    n = 0;

        for (uint32_t i = 0; i < s->n_outputs; i++)
                n += c->is_output[s->outputs[i].tensor];
        return n;
}

/* Without decoupled steps, the response is sent after all steps have ended, so the other steps can
 * read the outputs in the client's memory. With decoupled steps, a response may be sent before a
 * step has read them. */
static bool may_be_direct(const struct ensemble_plan *p, const struct plan_choice *c,
                          uint32_t step) {
        const struct ensemble_step *s = &p->graph->steps[step];

        if (p->n_streams == 1)
                return true;
        for (uint32_t i = 0; i < s->n_outputs; i++) {
                const struct ensemble_tensor *t = &p->graph->tensors[s->outputs[i].tensor];

                if (c->is_output[s->outputs[i].tensor] && t->n_readers > 0)
                        return false;
        }
        return true;
}

static void count_users(const struct ensemble_plan *p, struct plan_choice *c) {
        uint32_t most = 0;

        for (uint32_t i = 0; i < p->graph->n_ordered; i++) {
                uint32_t                index = p->graph->order[i];
                const struct plan_step *step = &p->steps[index];
                uint32_t                n = count_outputs(p, c, index);

                if (!c->has_step[index])
                        continue;
                c->n_steps[step->in_stream]++;
                c->writes[index] = n > 0;
                c->n_users[index] += n > 0;
                for (uint32_t k = 0; k < step->n_feeders; k++)
                        c->n_users[step->feeders[k]]++;
                if (n > 0 && n >= most && may_be_direct(p, c, index)) {
                        most = n;
                        c->direct_step = index;
                }
        }
}

static void choice_finish(const struct ensemble_plan *p, struct plan_choice *c) {
        mark_needed(p, c);
        mark_used(p, c);
        count_users(p, c);
}

bool plan_choice_make(const struct ensemble_plan *p, const struct request *req,
                      struct plan_choice *ret) {
        const struct model_io_set *io = req->model->io;

        if (!choice_init(p, ret))
                return false;
        for (uint32_t i = 0; i < req->n_output_names; i++) {
                const struct model_io *t = model_io_find_output_named(io, req->output_names[i], i);

                ret->is_output[p->graph->outputs[t - io->outputs]] = true;
        }
        ret->n_outputs = req->n_output_names;
        choice_finish(p, ret);
        return true;
}

static bool choose_all(struct ensemble_plan *p) {
        if (!choice_init(p, &p->all))
                return false;
        for (size_t i = 0; i < p->graph->pb->n_output; i++)
                p->all.is_output[p->graph->outputs[i]] = true;
        p->all.n_outputs = (uint32_t)p->graph->pb->n_output;
        choice_finish(p, &p->all);
        return true;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void *plan_alloc(struct ensemble_plan *p, size_t n, size_t size) {
        size_t bytes;
        void  *piece;

        if (!size_mul(n, size, &bytes))
                return NULL;
        piece = arena_try_alloc(&p->arena, MAX(bytes, 1));
        if (piece != NULL)
                memset(piece, 0, bytes);
        return piece;
}

static struct error *missing_tensor(const struct ensemble_plan *p, const struct plan_step *s,
                                    const char *name) {
        return error_new(ERR_INTERNAL, "in ensemble %s, the model %s has no tensor %s",
                         p->graph->pb->name, s->step->model, name);
}

static struct error *find_tensors(struct ensemble_plan *p, struct plan_step *s) {
        const struct model_io_set *io = s->model->io;

        s->inputs = plan_alloc(p, s->step->n_inputs, sizeof(*s->inputs));
        s->outputs = plan_alloc(p, s->step->n_outputs, sizeof(*s->outputs));
        if (s->inputs == NULL || s->outputs == NULL)
                return config_out_of_memory();
        for (uint32_t i = 0; i < s->step->n_inputs; i++) {
                s->inputs[i] = model_io_find_input(io, str_of(s->step->inputs[i].name), i);
                if (s->inputs[i] == NULL)
                        return missing_tensor(p, s, s->step->inputs[i].name);
        }
        for (uint32_t i = 0; i < s->step->n_outputs; i++) {
                s->outputs[i] = model_io_find_output(io, str_of(s->step->outputs[i].name), i);
                if (s->outputs[i] == NULL)
                        return missing_tensor(p, s, s->step->outputs[i].name);
        }
        return NULL;
}

static bool contains(const uint32_t *items, uint32_t n, uint32_t item) {
        while (n > 0 && items[n - 1] != item)
                n--;
        return n > 0;
}

static struct error *find_feeders(struct ensemble_plan *p, struct plan_step *s) {
        const struct ensemble_step *step = s->step;
        bool *is_seen = try_zalloc((size_t)p->graph->n_tensors + 1); /* bounded: see the graph */

        s->feeders = plan_alloc(p, step->n_inputs, sizeof(*s->feeders));
        if (s->feeders == NULL || is_seen == NULL) {
                free(is_seen);
                return config_out_of_memory();
        }
        for (uint32_t i = 0; i < step->n_inputs; i++) {
                uint32_t tensor = step->inputs[i].tensor;
                uint32_t writer = p->graph->tensors[tensor].writer;

                if (is_seen[tensor])
                        continue;
                is_seen[tensor] = true;
                s->n_tensors++;
                if (writer != ENSEMBLE_NONE && !contains(s->feeders, s->n_feeders, writer))
                        s->feeders[s->n_feeders++] = writer;
        }
        free(is_seen);
        return NULL;
}

static struct error *plan_steps(struct ensemble_plan *p, const struct step_models *models) {
        p->steps = plan_alloc(p, p->graph->n_steps, sizeof(*p->steps));
        if (p->steps == NULL)
                return config_out_of_memory();
        for (uint32_t i = 0; i < p->graph->n_steps; i++) {
                struct plan_step *s = &p->steps[i];

                s->index = i;
                s->step = &p->graph->steps[i];
                s->model = models->models[i];
                s->in_stream = p->tensors[s->step->inputs[0].tensor].stream;
                s->out_stream = p->tensors[s->step->outputs[0].tensor].stream;
                TRY(find_tensors(p, s));
                TRY(find_feeders(p, s));
                p->step_bytes = MAX(p->step_bytes, step_cost_request(s->model));
        }
        return NULL;
}

static struct error *plan_streams(struct ensemble_plan *p) {
        const struct ensemble_graph *g = p->graph;

        p->streams = plan_alloc(p, p->n_streams, sizeof(*p->streams));
        if (p->streams == NULL)
                return config_out_of_memory();
        p->streams[0].producer = ENSEMBLE_NONE;
        for (uint32_t i = 0; i < g->n_steps; i++)
                if (p->steps[i].in_stream != p->steps[i].out_stream)
                        p->streams[p->steps[i].out_stream].producer = i;
        for (uint32_t i = 0; i < g->n_tensors; i++)
                p->tensors[i].place = p->streams[p->tensors[i].stream].n_tensors++;
        for (uint32_t i = 0; i < g->n_steps; i++)
                p->streams[p->steps[i].in_stream].n_steps++;
        for (uint32_t i = 0; i < p->n_streams; i++) {
                p->streams[i].steps = plan_alloc(p, p->streams[i].n_steps, sizeof(uint32_t));
                if (p->streams[i].steps == NULL)
                        return config_out_of_memory();
                p->streams[i].n_steps = 0;
        }
        for (uint32_t i = 0; i < g->n_ordered; i++) {
                struct plan_step   *s = &p->steps[g->order[i]];
                struct plan_stream *stream = &p->streams[s->in_stream];

                s->place = stream->n_steps;
                stream->steps[stream->n_steps++] = s->index;
        }
        return NULL;
}

static struct error *assign_streams(struct ensemble_plan *p, const struct ensemble_step_model *m,
                                    uint32_t *streams) {
        const struct ensemble_graph *g = p->graph;
        uint32_t                     n;

        TRY(ensemble_models_check(g, m));
        TRY(ensemble_models_streams(g, m, streams, &n));
        for (uint32_t i = 0; i < g->n_tensors; i++)
                p->tensors[i].stream = streams[i];
        p->n_streams = n + 1;
        if (g->pb->n_output > 0)
                p->out_stream = streams[g->outputs[0]];
        return NULL;
}

static struct error *check_models(struct ensemble_plan *p, const struct step_models *models) {
        struct ensemble_step_model *m = describe_models(models);
        uint32_t     *streams = try_zalloc((p->graph->n_tensors + (size_t)1) * sizeof(*streams));
        struct error *err = NULL;

        p->tensors = plan_alloc(p, p->graph->n_tensors, sizeof(*p->tensors));
        if (m == NULL || streams == NULL || p->tensors == NULL)
                err = config_out_of_memory();
        if (err == NULL)
                err = assign_streams(p, m, streams);
        free(streams);
        free(m);
        return err;
}

static struct error *build_plan(struct ensemble_plan *p, const Inference__ModelConfig *ensemble,
                                const struct step_models *models) {
        TRY(ensemble_graph_new(ensemble, &p->graph));
        TRY(check_models(p, models));
        TRY(plan_steps(p, models));
        TRY(plan_streams(p));
        return choose_all(p) ? NULL : config_out_of_memory();
}

struct error *ensemble_plan_new(const Inference__ModelConfig *ensemble,
                                const struct step_models *models, struct ensemble_plan **ret) {
        struct ensemble_plan *p = try_zalloc(sizeof(*p));
        struct error         *err;

        if (p == NULL)
                return config_out_of_memory();
        arena_init(&p->arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        err = build_plan(p, ensemble, models);
        if (err != NULL) {
                ensemble_plan_free(p);
                return err;
        }
        *ret = p;
        return NULL;
}

void ensemble_plan_free(void *plan) {
        struct ensemble_plan *p = plan;

        if (p == NULL)
                return;
        plan_choice_done(&p->all);
        ensemble_graph_free(p->graph);
        arena_done(&p->arena);
        free(p);
}
