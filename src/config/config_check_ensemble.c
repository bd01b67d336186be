/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of an ensemble by itself: every tensor comes from somewhere and goes somewhere. Checks
 * against the models of its steps need those models.
 *
 * The data flow is followed from the ensemble's inputs: a tensor that becomes ready is crossed
 * off the list of each step that reads it; a step with nothing left to wait for makes its outputs
 * ready. What is never reached is not connected.
 */
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "config/config_check_parts.h"
#include "config/config_edit.h"

struct step_node;

/* One place where a step reads a tensor. */
struct reader {
        struct step_node *step;
        struct reader    *next;
};

struct tensor {
        const char       *name;
        struct step_node *writer; /* NULL: no step has it as an output */
        struct reader    *readers;
        bool              is_ready;
        bool              is_output; /* of the ensemble */
        struct tensor    *next_ready;
};

struct step_node {
        size_t          n_waiting; /* inputs that are not ready */
        struct tensor **inputs;    /* in the order of input_map */
        size_t          n_inputs;
        struct tensor **outputs;
        size_t          n_outputs;
};

struct graph {
        const Inference__ModelConfig     *pb;
        const Inference__ModelEnsembling *ensemble;
        struct arena                      arena;
        struct map                        tensors; /* name -> struct tensor, in arena */
        struct step_node                 *steps;   /* in arena */
        struct tensor                    *ready;   /* to be followed */
};

/* Sizes come from the file, within MODEL_CONFIG_TEXT_MAX_BYTES. */
static void *graph_alloc(struct graph *g, size_t n, size_t size) {
        size_t bytes = n * size; /* n: entries of a message in memory, size: at most a few words */
        void  *piece = arena_try_alloc(&g->arena, MAX(bytes, 1));

        if (piece != NULL)
                memset(piece, 0, bytes);
        return piece;
}

static struct tensor *get_tensor(struct graph *g, const char *name) {
        struct tensor *t = map_find(&g->tensors, str_of(name));

        if (t != NULL)
                return t;
        t = graph_alloc(g, 1, sizeof(*t));
        if (t != NULL) {
                t->name = name;
                map_set(&g->tensors, str_of(name), t);
        }
        return t;
}

static struct error *check_step(const struct graph *g, size_t index) {
        const Inference__ModelEnsembling__Step *step = g->ensemble->step[index];
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
                                  missing, index, g->pb->name),
                        "ensemble_scheduling.step[%zu]", index);
}

static struct error *link_outputs(struct graph *g, size_t index) {
        const Inference__ModelEnsembling__Step *step = g->ensemble->step[index];
        struct step_node                       *node = &g->steps[index];

        node->n_outputs = step->n_output_map;
        node->outputs = graph_alloc(g, node->n_outputs, sizeof(struct tensor *));
        if (node->outputs == NULL)
                return config_edit_full();
        for (size_t i = 0; i < node->n_outputs; i++) {
                struct tensor *t = get_tensor(g, step->output_map[i]->value);

                if (t == NULL)
                        return config_edit_full();
                if (t->writer != NULL)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "ensemble tensor '%s' can appear in an output map only "
                                          "once for ensemble '%s' step %zu",
                                          t->name, g->pb->name, index),
                                "ensemble_scheduling.step[%zu].output_map[%zu]", index, i);
                t->writer = node;
                node->outputs[i] = t;
        }
        return NULL;
}

static struct error *link_inputs(struct graph *g, size_t index) {
        const Inference__ModelEnsembling__Step *step = g->ensemble->step[index];
        struct step_node                       *node = &g->steps[index];

        node->n_inputs = step->n_input_map;
        node->n_waiting = step->n_input_map;
        node->inputs = graph_alloc(g, node->n_inputs, sizeof(struct tensor *));
        if (node->inputs == NULL)
                return config_edit_full();
        for (size_t i = 0; i < node->n_inputs; i++) {
                struct tensor *t = get_tensor(g, step->input_map[i]->value);
                struct reader *reader = graph_alloc(g, 1, sizeof(*reader));

                if (t == NULL || reader == NULL)
                        return config_edit_full();
                *reader = (struct reader){ node, t->readers };
                t->readers = reader;
                node->inputs[i] = t;
        }
        return NULL;
}

static struct error *build_graph(struct graph *g) {
        g->steps = graph_alloc(g, g->ensemble->n_step, sizeof(*g->steps));
        if (g->steps == NULL)
                return config_edit_full();
        for (size_t i = 0; i < g->ensemble->n_step; i++) {
                TRY(check_step(g, i));
                TRY(link_outputs(g, i));
                TRY(link_inputs(g, i));
        }
        return NULL;
}

static void make_ready(struct graph *g, struct tensor *t) {
        if (t->is_ready)
                return;
        t->is_ready = true;
        t->next_ready = g->ready;
        g->ready = t;
}

static void follow(struct graph *g) {
        while (g->ready != NULL) {
                struct tensor *t = g->ready;

                g->ready = t->next_ready;
                for (struct reader *r = t->readers; r != NULL; r = r->next) {
                        if (--r->step->n_waiting > 0)
                                continue;
                        for (size_t i = 0; i < r->step->n_outputs; i++)
                                make_ready(g, r->step->outputs[i]);
                }
        }
}

static struct error *check_inputs(struct graph *g) {
        for (size_t i = 0; i < g->pb->n_input; i++) {
                struct tensor *t = map_find(&g->tensors, str_of(g->pb->input[i]->name));

                if (t == NULL)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "ensemble input '%s' for ensemble %s' is not used",
                                          g->pb->input[i]->name, g->pb->name),
                                "input[%zu].name", i);
                make_ready(g, t);
        }
        return NULL;
}

static struct error *not_written(const struct graph *g, const struct tensor *t) {
        const struct tensor *cause = NULL;

        for (size_t i = 0; t->writer != NULL && cause == NULL && i < t->writer->n_inputs; i++)
                if (!t->writer->inputs[i]->is_ready)
                        cause = t->writer->inputs[i];
        if (cause == NULL)
                return error_new(ERR_INVALID_ARG, "output '%s' for ensemble '%s' is not written",
                                 t->name, g->pb->name);
        return error_new(ERR_INVALID_ARG,
                         "output '%s' for ensemble '%s' is not written: at least one of its "
                         "depending tensors, '%s', is not connected",
                         t->name, g->pb->name, cause->name);
}

static struct error *check_outputs(struct graph *g) {
        for (size_t i = 0; i < g->pb->n_output; i++) {
                struct tensor *t = map_find(&g->tensors, str_of(g->pb->output[i]->name));

                if (t == NULL)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "ensemble output '%s' for ensemble %s' is not used",
                                          g->pb->output[i]->name, g->pb->name),
                                "output[%zu].name", i);
                if (!t->is_ready)
                        return not_written(g, t);
                t->is_output = true;
        }
        return NULL;
}

static struct error *check_unused(struct graph *g) {
        const struct map_entry *entry;
        size_t                  at = 0;

        while ((entry = map_next(&g->tensors, &at)) != NULL) {
                const struct tensor *t = entry->value;

                if (!t->is_output && (!t->is_ready || t->readers == NULL))
                        return error_new(ERR_INVALID_ARG,
                                         "ensemble tensor '%s' is unused in ensemble '%s'", t->name,
                                         g->pb->name);
        }
        return NULL;
}

static struct error *check_flow(struct graph *g) {
        TRY(build_graph(g));
        TRY(check_inputs(g));
        follow(g);
        TRY(check_outputs(g));
        return check_unused(g);
}

static struct error *check_fields(const Inference__ModelConfig *pb) {
        if (!config_text_is(pb->platform, "ensemble"))
                return error_at(
                        error_new(ERR_INVALID_ARG,
                                  "ensemble scheduling cannot be set for model '%s' whose platform "
                                  "is not ensemble",
                                  pb->name),
                        "platform");
        if (pb->n_instance_group > 0)
                return error_at(
                        error_new(ERR_INVALID_ARG,
                                  "instance group should not be specified for ensemble '%s'",
                                  pb->name),
                        "instance_group");
        if (pb->optimization != NULL)
                return error_at(error_new(ERR_INVALID_ARG,
                                          "optimization should not be specified for ensemble '%s'",
                                          pb->name),
                                "optimization");
        if (pb->n_model_warmup > 0)
                return error_at(error_new(ERR_INVALID_ARG,
                                          "model_warmup can not be specified for ensemble '%s'",
                                          pb->name),
                                "model_warmup");
        if (pb->ensemble_scheduling->n_step == 0)
                return error_at(error_new(ERR_INVALID_ARG, "must specify 'step' for ensemble '%s'",
                                          pb->name),
                                "ensemble_scheduling");
        return NULL;
}

struct error *check_ensemble(const Inference__ModelConfig *pb) {
        struct graph  g = { .pb = pb, .ensemble = pb->ensemble_scheduling };
        struct error *err;

        TRY(check_fields(pb));
        arena_init(&g.arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        map_init(&g.tensors);
        err = check_flow(&g);
        map_done(&g.tensors);
        arena_done(&g.arena);
        return err;
}
