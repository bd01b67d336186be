/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/ensemble_graph.h"

#include "base/map.h"
#include "base/mem.h"
#include "config/config_edit.h"

#include <string.h>

/* State of the construction of a graph. */
struct graph_builder {
        struct ensemble_graph            *graph;
        const Inference__ModelEnsembling *ensemble;
        struct map                        names; /* by tensor name: struct named_tensor, in arena */
        struct named_tensor              *first, *last;
        uint32_t                         *n_waiting; /* by step: inputs that are not connected */
        uint32_t                         *queue; /* connected tensors, readers not yet visited */
        uint32_t                          n_queued;
};

struct named_tensor {
        struct ensemble_tensor tensor;
        uint32_t               index;
        uint32_t               last_reader; /* step that was counted last as a reader */
        struct named_tensor   *next;
};

/* ---- names ----------------------------------------------------------------------------------- */

static struct named_tensor *find_tensor(const struct graph_builder *b, const char *name) {
        return map_find(&b->names, str_of(name));
}

static struct named_tensor *get_tensor(struct graph_builder *b, const char *name) {
        struct named_tensor *t = find_tensor(b, name);

        if (t != NULL)
                return t;
        t = arena_try_calloc(&b->graph->arena, 1, sizeof(*t));
        if (t == NULL)
                return NULL;
        t->tensor = (struct ensemble_tensor){ .name = name,
                                              .writer = ENSEMBLE_NONE,
                                              .input = ENSEMBLE_NONE,
                                              .output = ENSEMBLE_NONE };
        t->index = b->graph->n_tensors++;
        t->last_reader = ENSEMBLE_NONE;
        if (b->last != NULL)
                b->last->next = t;
        else
                b->first = t;
        b->last = t;
        map_set(&b->names, str_of(name), t);
        return t;
}

static struct error *check_step(const struct graph_builder *b, size_t index) {
        const Inference__ModelEnsembling__Step *step = b->ensemble->step[index];
        const char                             *missing = NULL;

        if (!config_text_is_set(step->model_name))
                missing = "model_name";
        else if (step->n_input_map == 0)
                missing = "input_map";
        else if (step->n_output_map == 0)
                missing = "output_map";
        if (missing == NULL)
                return NULL;
        return error_at(error_new(ERR_INVALID_ARG, "must specify '%s' in step %zu of ensemble '%s'",
                                  missing, index, b->graph->pb->name),
                        "ensemble_scheduling.step[%zu]", index);
}

static struct error *written_twice(const struct graph_builder *b, const char *tensor, size_t step,
                                   size_t entry) {
        return error_at(error_new(ERR_INVALID_ARG,
                                  "ensemble tensor '%s' can appear in an output map only once for "
                                  "ensemble '%s' step %zu",
                                  tensor, b->graph->pb->name, step),
                        "ensemble_scheduling.step[%zu].output_map[%zu]", step, entry);
}

static struct error *link_outputs(struct graph_builder *b, size_t index) {
        const Inference__ModelEnsembling__Step *from = b->ensemble->step[index];
        struct ensemble_step                   *step = &b->graph->steps[index];

        step->outputs =
                arena_try_calloc(&b->graph->arena, from->n_output_map, sizeof(*step->outputs));
        if (step->outputs == NULL)
                return model_config_full(&b->graph->arena);
        for (size_t i = 0; i < from->n_output_map; i++) {
                struct named_tensor *t = get_tensor(b, from->output_map[i]->value);

                if (t == NULL)
                        return model_config_full(&b->graph->arena);
                if (t->tensor.writer != ENSEMBLE_NONE)
                        return written_twice(b, t->tensor.name, index, i);
                t->tensor.writer = (uint32_t)index;
                step->outputs[step->n_outputs++] =
                        (struct ensemble_link){ from->output_map[i]->key, t->index };
        }
        return NULL;
}

static struct error *link_inputs(struct graph_builder *b, size_t index) {
        const Inference__ModelEnsembling__Step *from = b->ensemble->step[index];
        struct ensemble_step                   *step = &b->graph->steps[index];

        step->inputs = arena_try_calloc(&b->graph->arena, from->n_input_map, sizeof(*step->inputs));
        if (step->inputs == NULL)
                return model_config_full(&b->graph->arena);
        for (size_t i = 0; i < from->n_input_map; i++) {
                struct named_tensor *t = get_tensor(b, from->input_map[i]->value);

                if (t == NULL)
                        return model_config_full(&b->graph->arena);
                t->tensor.n_readers += t->last_reader != index;
                t->last_reader = (uint32_t)index;
                step->inputs[step->n_inputs++] =
                        (struct ensemble_link){ from->input_map[i]->key, t->index };
        }
        return NULL;
}

static struct error *link_steps(struct graph_builder *b) {
        struct ensemble_graph *g = b->graph;

        g->steps = arena_try_calloc(&g->arena, b->ensemble->n_step, sizeof(*g->steps));
        if (g->steps == NULL)
                return model_config_full(&g->arena);
        for (size_t i = 0; i < b->ensemble->n_step; i++) {
                const Inference__ModelEnsembling__Step *from = b->ensemble->step[i];

                g->steps[i] = (struct ensemble_step){ .model = from->model_name,
                                                      .namespace = from->model_namespace,
                                                      .version = from->model_version };
                if (!config_text_is_set(from->model_namespace))
                        g->steps[i].namespace = "";
                TRY(check_step(b, i));
                TRY(link_outputs(b, i));
                TRY(link_inputs(b, i));
                g->n_steps++;
        }
        return NULL;
}

/* Outputs that no step maps stay ENSEMBLE_NONE. */
static struct error *link_ensemble(struct graph_builder *b) {
        struct ensemble_graph        *g = b->graph;
        const Inference__ModelConfig *pb = g->pb;

        g->inputs = arena_try_calloc(&g->arena, pb->n_input, sizeof(*g->inputs));
        g->outputs = arena_try_calloc(&g->arena, pb->n_output, sizeof(*g->outputs));
        if (g->inputs == NULL || g->outputs == NULL)
                return model_config_full(&g->arena);
        for (size_t i = 0; i < pb->n_input; i++) {
                struct named_tensor *t = find_tensor(b, pb->input[i]->name);

                g->inputs[i] = t != NULL ? t->index : ENSEMBLE_NONE;
                if (t != NULL)
                        t->tensor.input = (uint32_t)i;
        }
        for (size_t i = 0; i < pb->n_output; i++) {
                struct named_tensor *t = find_tensor(b, pb->output[i]->name);

                g->outputs[i] = t != NULL ? t->index : ENSEMBLE_NONE;
                if (t != NULL)
                        t->tensor.output = (uint32_t)i;
        }
        return NULL;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static struct error *list_tensors(struct graph_builder *b) {
        struct ensemble_graph *g = b->graph;

        g->tensors = arena_try_calloc(&g->arena, g->n_tensors, sizeof(*g->tensors));
        if (g->tensors == NULL)
                return model_config_full(&g->arena);
        for (struct named_tensor *t = b->first; t != NULL; t = t->next) {
                struct ensemble_tensor *to = &g->tensors[t->index];

                *to = t->tensor;
                to->readers = arena_try_calloc(&g->arena, to->n_readers, sizeof(*to->readers));
                to->n_readers = 0;
                if (to->readers == NULL)
                        return model_config_full(&g->arena);
        }
        for (uint32_t s = 0; s < g->n_steps; s++)
                for (uint32_t i = 0; i < g->steps[s].n_inputs; i++) {
                        struct ensemble_tensor *t = &g->tensors[g->steps[s].inputs[i].tensor];

                        if (t->n_readers == 0 || t->readers[t->n_readers - 1] != s)
                                t->readers[t->n_readers++] = s;
                }
        return NULL;
}

/* Number of different tensors among the step's inputs. */
static uint32_t count_tensors(const struct ensemble_graph *g, uint32_t step,
                              uint32_t *last_counted) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < g->steps[step].n_inputs; i++) {
                uint32_t t = g->steps[step].inputs[i].tensor;

                n += last_counted[t] != step + 1;
                last_counted[t] = step + 1;
        }
        return n;
}

static void connect(struct graph_builder *b, uint32_t tensor) {
        struct ensemble_tensor *t = &b->graph->tensors[tensor];

        if (t->is_connected)
                return;
        t->is_connected = true;
        b->queue[b->n_queued++] = tensor;
}

/* Topological sort of the steps (Kahn's algorithm), from the inputs on: a step is connected when
 * all tensors that it reads are connected. */
static struct error *sort_steps(struct graph_builder *b) {
        struct ensemble_graph *g = b->graph;
        uint32_t *last_counted = arena_try_calloc(&g->arena, g->n_tensors, sizeof(uint32_t));

        g->order = arena_try_calloc(&g->arena, g->n_steps, sizeof(uint32_t));
        b->n_waiting = arena_try_calloc(&g->arena, g->n_steps, sizeof(uint32_t));
        b->queue = arena_try_calloc(&g->arena, g->n_tensors, sizeof(uint32_t));
        if (g->order == NULL || b->n_waiting == NULL || b->queue == NULL || last_counted == NULL)
                return model_config_full(&g->arena);
        for (uint32_t s = 0; s < g->n_steps; s++)
                b->n_waiting[s] = count_tensors(g, s, last_counted);
        for (size_t i = 0; i < g->pb->n_input; i++)
                if (g->inputs[i] != ENSEMBLE_NONE)
                        connect(b, g->inputs[i]);
        for (uint32_t at = 0; at < b->n_queued; at++) {
                const struct ensemble_tensor *t = &g->tensors[b->queue[at]];

                for (uint32_t i = 0; i < t->n_readers; i++) {
                        struct ensemble_step *step = &g->steps[t->readers[i]];

                        if (--b->n_waiting[t->readers[i]] > 0)
                                continue;
                        step->is_connected = true;
                        g->order[g->n_ordered++] = t->readers[i];
                        for (uint32_t k = 0; k < step->n_outputs; k++)
                                connect(b, step->outputs[k].tensor);
                }
        }
        return NULL;
}

static struct error *build(struct graph_builder *b) {
        TRY(link_steps(b));
        TRY(link_ensemble(b));
        TRY(list_tensors(b));
        return sort_steps(b);
}

struct error *ensemble_graph_new(const Inference__ModelConfig *pb, struct ensemble_graph **ret) {
        struct graph_builder b = { .ensemble = pb->ensemble_scheduling };
        struct error        *err;

        b.graph = try_zalloc(sizeof(*b.graph));
        if (b.graph == NULL)
                return config_out_of_memory();
        b.graph->pb = pb;
        arena_init(&b.graph->arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        map_init(&b.names);
        err = build(&b);
        map_done(&b.names);
        if (err != NULL) {
                ensemble_graph_free(b.graph);
                return err;
        }
        *ret = b.graph;
        return NULL;
}

void ensemble_graph_free(struct ensemble_graph *g) {
        if (g == NULL)
                return;
        arena_done(&g->arena);
        free(g);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Locates a tensor's name: in a map of the step that writes it, else of one that reads it. */
static struct error *at_tensor(const struct ensemble_graph *g, uint32_t tensor, struct error *err) {
        const struct ensemble_tensor *t = &g->tensors[tensor];
        bool                          is_written = t->writer != ENSEMBLE_NONE;
        uint32_t                      step = is_written ? t->writer : t->readers[0];
        const struct ensemble_link   *links =
                is_written ? g->steps[step].outputs : g->steps[step].inputs;
        uint32_t entry = 0;

        while (links[entry].tensor != tensor)
                entry++;
        return error_at(err, "ensemble_scheduling.step[%u].%s[%u]", step,
                        is_written ? "output_map" : "input_map", entry);
}

static struct error *check_input(const struct ensemble_graph *g, size_t index) {
        const char *name = g->pb->input[index]->name;
        uint32_t    tensor = g->inputs[index];

        if (tensor == ENSEMBLE_NONE)
                return error_at(error_new(ERR_INVALID_ARG,
                                          "ensemble input '%s' for ensemble %s' is not used", name,
                                          g->pb->name),
                                "input[%zu].name", index);
        if (g->tensors[tensor].writer != ENSEMBLE_NONE)
                return at_tensor(g, tensor,
                                 error_new(ERR_INVALID_ARG,
                                           "ensemble input '%s' for ensemble '%s' is also an "
                                           "output of step %u",
                                           name, g->pb->name, g->tensors[tensor].writer));
        return NULL;
}

static struct error *check_inputs(const struct ensemble_graph *g) {
        for (size_t i = 0; i < g->pb->n_input; i++)
                TRY(check_input(g, i));
        return NULL;
}

static struct error *not_written(const struct ensemble_graph *g, const struct ensemble_tensor *t) {
        const struct ensemble_step *writer =
                t->writer != ENSEMBLE_NONE ? &g->steps[t->writer] : NULL;
        const struct ensemble_tensor *cause = NULL;

        for (uint32_t i = 0; writer != NULL && cause == NULL && i < writer->n_inputs; i++)
                if (!g->tensors[writer->inputs[i].tensor].is_connected)
                        cause = &g->tensors[writer->inputs[i].tensor];
        if (cause == NULL)
                return error_new(ERR_INVALID_ARG, "output '%s' for ensemble '%s' is not written",
                                 t->name, g->pb->name);
        return error_new(ERR_INVALID_ARG,
                         "output '%s' for ensemble '%s' is not written: at least one of its "
                         "depending tensors, '%s', is not connected",
                         t->name, g->pb->name, cause->name);
}

static struct error *check_outputs(const struct ensemble_graph *g) {
        for (size_t i = 0; i < g->pb->n_output; i++) {
                if (g->outputs[i] == ENSEMBLE_NONE)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "ensemble output '%s' for ensemble %s' is not used",
                                          g->pb->output[i]->name, g->pb->name),
                                "output[%zu].name", i);
                if (!g->tensors[g->outputs[i]].is_connected)
                        return error_at(not_written(g, &g->tensors[g->outputs[i]]),
                                        "output[%zu].name", i);
        }
        return NULL;
}

static struct error *check_unused(const struct ensemble_graph *g) {
        for (uint32_t i = 0; i < g->n_tensors; i++) {
                const struct ensemble_tensor *t = &g->tensors[i];

                if (t->output == ENSEMBLE_NONE && (!t->is_connected || t->n_readers == 0))
                        return at_tensor(g, i,
                                         error_new(ERR_INVALID_ARG,
                                                   "ensemble tensor '%s' is unused in ensemble "
                                                   "'%s'",
                                                   t->name, g->pb->name));
        }
        return NULL;
}

struct error *ensemble_graph_check(const struct ensemble_graph *g) {
        TRY(check_inputs(g));
        TRY(check_outputs(g));
        return check_unused(g);
}
