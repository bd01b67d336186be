/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/ensemble_models.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "config/config_edit.h"
#include "config/data_type.h"
#include "config/shape.h"

/* Name of a model in error texts: "<namespace>::<model>", or the model alone. */
#define MODEL_FORMAT "%s%s%s"
#define MODEL_ARG(step) (step)->namespace, *(step)->namespace != '\0' ? "::" : "", (step)->model

/* Properties of a tensor, from the first place that defines them. */
struct inferred {
        const struct ensemble_step *step; /* NULL: the ensemble's own input or output */
        enum data_type              type; /* DATA_TYPE_INVALID: not known */
        const int64_t              *dims;
        size_t                      n_dims; /* 0: not known */
        bool                        has_batch;
        bool                        may_get_batch; /* a backend may add the batch dimension */
        bool                        is_known;
};

/* An input or output of a model, the first of its name. */
struct named_io {
        size_t   index;
        size_t   n;         /* of that name */
        uint32_t last_step; /* that maps it, plus 1 */
};

/* The inputs and outputs of a model by name: steps may map thousands, of a model that has thousands. */
struct model_names {
        struct named_io *items;           /* owned */
        struct map       inputs, outputs; /* by name: struct named_io, in `items` */
        size_t           n_required;      /* inputs */
};

struct models_check {
        const struct ensemble_graph      *graph;
        const struct ensemble_step_model *models;
        struct inferred                  *tensors;
        struct map names; /* by the address of the configuration: struct model_names, owned */
};

/* ---- names ----------------------------------------------------------------------------------- */

static bool add_name(struct map *names, const char *name, size_t index, struct named_io *item) {
        struct named_io *first = map_find(names, str_of(name));

        if (first != NULL) {
                first->n++;
                return false;
        }
        *item = (struct named_io){ .index = index, .n = 1 };
        map_set(names, str_of(name), item);
        return true;
}

static void model_names_free(struct model_names *m) {
        map_done(&m->inputs);
        map_done(&m->outputs);
        free(m->items);
        free(m);
}

static struct model_names *model_names_new(const Inference__ModelConfig *pb) {
        struct model_names *m = try_zalloc(sizeof(*m));

        if (m == NULL)
                return NULL;
        map_init(&m->inputs);
        map_init(&m->outputs);
        m->items = try_zalloc((pb->n_input + pb->n_output + 1) * sizeof(*m->items));
        if (m->items == NULL) {
                model_names_free(m);
                return NULL;
        }
        for (size_t i = 0; i < pb->n_input; i++)
                if (add_name(&m->inputs, pb->input[i]->name, i, &m->items[i]))
                        m->n_required += !pb->input[i]->optional;
        for (size_t i = 0; i < pb->n_output; i++)
                add_name(&m->outputs, pb->output[i]->name, i, &m->items[pb->n_input + i]);
        return m;
}

/* NULL when memory is short. */
static struct model_names *names_of(struct models_check *c, const Inference__ModelConfig *pb) {
        struct str          address = str_range((const char *)&pb, sizeof(pb));
        struct model_names *m = map_find(&c->names, address);

        if (m != NULL)
                return m;
        m = model_names_new(pb);
        if (m != NULL)
                map_set(&c->names, address, m);
        return m;
}

static void free_names(struct models_check *c) {
        MAP_FOR_EACH(&c->names, e)
                model_names_free(e->value);
        map_done(&c->names);
}

/* ---- consistency ----------------------------------------------------------------------------- */

static bool dims_agree(const int64_t *a, size_t n_a, const int64_t *b, size_t n_b) {
        if (n_a != n_b)
                return false;
        for (size_t i = 0; i < n_a; i++)
                if (a[i] != b[i] && a[i] != SHAPE_ANY_DIM && b[i] != SHAPE_ANY_DIM)
                        return false;
        return true;
}

/* True when the shapes agree if `with` has a batch dimension, of any size, before its dims and the
 * other one has none. */
static bool agree_with_batch(const struct inferred *with, const struct inferred *without) {
        return (with->has_batch || with->may_get_batch) &&
               (!without->has_batch || without->may_get_batch) && without->n_dims > 0 &&
               dims_agree(with->dims, with->n_dims, without->dims + 1, without->n_dims - 1);
}

static bool shapes_agree(const struct inferred *a, const struct inferred *b) {
        return (a->n_dims == 0 && a->may_get_batch) || (b->n_dims == 0 && b->may_get_batch) ||
               dims_agree(a->dims, a->n_dims, b->dims, b->n_dims) || agree_with_batch(a, b) ||
               agree_with_batch(b, a);
}

static void print_model(const struct models_check *c, const struct inferred *i, struct strbuf *to) {
        if (i->step != NULL)
                strbuf_printf(to, MODEL_FORMAT, MODEL_ARG(i->step));
        else
                strbuf_puts(to, c->graph->pb->name);
}

static void print_full(const struct inferred *i, struct strbuf *to) {
        AUTO_STRBUF dims = { 0 };

        shape_print(i->dims, i->n_dims, &dims);
        strbuf_spoil(to, &dims);
        if (!i->has_batch)
                strbuf_puts(to, strbuf_cstr(&dims));
        else if (!dims.overflowed)
                strbuf_printf(to, "[-1%s%s", i->n_dims > 0 ? "," : "", strbuf_cstr(&dims) + 1);
}

static struct error *disagree(const struct models_check *c, uint32_t tensor, const char *what,
                              const struct inferred *a, const struct inferred *b) {
        bool        is_shape = a->type == b->type;
        AUTO_STRBUF text = { 0 };

        strbuf_printf(&text,
                      "in ensemble %s, ensemble tensor %s: inconsistent %s: ", c->graph->pb->name,
                      c->graph->tensors[tensor].name, what);
        for (int i = 0; i < 2; i++) {
                const struct inferred *one = i == 0 ? a : b;

                if (is_shape)
                        print_full(one, &text);
                else
                        strbuf_puts(&text, data_type_config_name(one->type));
                strbuf_puts(&text, " is inferred from model ");
                print_model(c, one, &text);
                strbuf_puts(&text, i == 0 ? " while " : "");
        }
        TRY(strbuf_check(&text, "the text of an error"));
        return error_new_text(ERR_INVALID_ARG, strbuf_cstr(&text));
}

static bool types_agree(const struct inferred *a, const struct inferred *b) {
        return a->type == b->type || (a->type == DATA_TYPE_INVALID && a->may_get_batch) ||
               (b->type == DATA_TYPE_INVALID && b->may_get_batch);
}

static struct error *infer(struct models_check *c, uint32_t tensor, const struct inferred *one) {
        struct inferred *known = &c->tensors[tensor];

        if (!known->is_known) {
                *known = *one;
                known->is_known = true;
                return NULL;
        }
        if (!types_agree(known, one))
                return disagree(c, tensor, "data type", known, one);
        if (!shapes_agree(known, one))
                return disagree(c, tensor, "shape", known, one);
        return NULL;
}

/* ---- the ensemble's own inputs and outputs --------------------------------------------------- */

static struct inferred inferred_of(const struct models_check *c, enum data_type type,
                                   const int64_t *dims, size_t n_dims,
                                   const Inference__ModelTensorReshape *reshape) {
        return (struct inferred){ .type = type,
                                  .dims = reshape != NULL ? reshape->shape : dims,
                                  .n_dims = reshape != NULL ? reshape->n_shape : n_dims,
                                  .has_batch = c->graph->pb->max_batch_size > 0 };
}

static struct error *infer_ensemble(struct models_check *c) {
        const Inference__ModelConfig *pb = c->graph->pb;

        for (size_t i = 0; i < pb->n_input; i++) {
                const Inference__ModelInput *in = pb->input[i];
                struct inferred one = inferred_of(c, (enum data_type)in->data_type, in->dims,
                                                  in->n_dims, in->reshape);

                if (c->graph->inputs[i] != ENSEMBLE_NONE)
                        TRY(error_at(infer(c, c->graph->inputs[i], &one), "input[%zu]", i));
        }
        for (size_t i = 0; i < pb->n_output; i++) {
                const Inference__ModelOutput *out = pb->output[i];
                uint32_t                      tensor = c->graph->outputs[i];
                struct inferred one = inferred_of(c, (enum data_type)out->data_type, out->dims,
                                                  out->n_dims, out->reshape);

                /* As in the reference server, an input of the same name takes precedence. */
                if (tensor != ENSEMBLE_NONE && !c->tensors[tensor].is_known)
                        TRY(error_at(infer(c, tensor, &one), "output[%zu]", i));
        }
        return NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct error *check_batch_size(const struct models_check *c, uint32_t step) {
        int32_t wanted = c->graph->pb->max_batch_size;
        int32_t allowed = c->models[step].pb->max_batch_size;

        if (allowed == 0 || allowed >= wanted)
                return NULL;
        return error_in_field("model_name",
                              "ensemble %s allows maximum batch size %d, but it contains model %s "
                              "which only allows maximum batch size to be %d",
                              c->graph->pb->name, wanted, c->graph->steps[step].model, allowed);
}

static struct error *no_such_input(const struct models_check *c, const struct ensemble_step *step,
                                   uint32_t entry) {
        return error_at(error_new(ERR_INVALID_ARG,
                                  "in ensemble %s, ensemble tensor %s is mapping to non-existing "
                                  "input %s in model " MODEL_FORMAT,
                                  c->graph->pb->name,
                                  c->graph->tensors[step->inputs[entry].tensor].name,
                                  step->inputs[entry].name, MODEL_ARG(step)),
                        "input_map[%u]", entry);
}

static struct error *wrongly_mapped(const struct models_check *c, const struct ensemble_step *step,
                                    const char *input, const char *how) {
        return error_new(ERR_INVALID_ARG, "in ensemble %s, input %s in model " MODEL_FORMAT " %s",
                         c->graph->pb->name, input, MODEL_ARG(step), how);
}

static struct inferred inferred_from(const struct models_check *c, uint32_t step,
                                     enum data_type type, const int64_t *dims, size_t n_dims) {
        const struct ensemble_step_model *model = &c->models[step];
        bool                              has_batch = model->pb->max_batch_size > 0;

        return (struct inferred){ .step = &c->graph->steps[step],
                                  .type = type,
                                  .dims = dims,
                                  .n_dims = n_dims,
                                  .has_batch = has_batch,
                                  .may_get_batch = model->may_be_completed };
}

static struct error *check_input(struct models_check *c, uint32_t index, uint32_t entry,
                                 struct named_io *named) {
        const struct ensemble_step  *step = &c->graph->steps[index];
        const Inference__ModelInput *in = c->models[index].pb->input[named->index];
        struct inferred              one =
                inferred_from(c, index, (enum data_type)in->data_type, in->dims, in->n_dims);

        TRY(infer(c, step->inputs[entry].tensor, &one));
        if (named->last_step == index + 1)
                return wrongly_mapped(c, step, in->name, "is mapped to multiple ensemble tensors");
        named->last_step = index + 1;
        return NULL;
}

static struct error *find_unmapped(const struct models_check *c, uint32_t index,
                                   const struct model_names *names) {
        const Inference__ModelConfig *pb = c->models[index].pb;

        for (size_t i = 0; i < pb->n_input; i++) {
                const struct named_io *named = map_find(&names->inputs, str_of(pb->input[i]->name));

                if (!pb->input[i]->optional && named->last_step != index + 1)
                        return wrongly_mapped(c, &c->graph->steps[index], pb->input[i]->name,
                                              "is not mapped to any ensemble tensors");
        }
        return NULL;
}

static struct error *check_inputs(struct models_check *c, uint32_t index,
                                  const struct model_names *names) {
        const struct ensemble_step   *step = &c->graph->steps[index];
        const Inference__ModelConfig *pb = c->models[index].pb;
        size_t                        n_required = 0;

        if (pb->n_input == 0 && c->models[index].may_be_completed)
                return NULL;
        for (uint32_t i = 0; i < step->n_inputs; i++) {
                struct named_io *named = map_find(&names->inputs, str_of(step->inputs[i].name));

                if (named == NULL)
                        return no_such_input(c, step, i);
                TRY(error_at(check_input(c, index, i, named), "input_map[%u]", i));
                n_required += !pb->input[named->index]->optional;
        }
        return n_required < names->n_required ? find_unmapped(c, index, names) : NULL;
}

static struct error *check_output(struct models_check *c, uint32_t index, uint32_t entry,
                                  const struct model_names *names) {
        const struct ensemble_step   *step = &c->graph->steps[index];
        const struct ensemble_link   *link = &step->outputs[entry];
        const char                   *tensor = c->graph->tensors[link->tensor].name;
        const struct named_io        *named = map_find(&names->outputs, str_of(link->name));
        const Inference__ModelOutput *out;
        struct inferred               one;

        if (named == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "in ensemble %s, ensemble tensor %s is mapped from non-existing "
                                 "output %s in model %s",
                                 c->graph->pb->name, tensor, link->name, step->model);
        out = c->models[index].pb->output[named->index];
        one = inferred_from(c, index, (enum data_type)out->data_type, out->dims, out->n_dims);
        TRY(infer(c, link->tensor, &one));
        if (named->n > 1)
                return error_new(ERR_INVALID_ARG,
                                 "in ensemble %s, multiple outputs in model " MODEL_FORMAT
                                 " are mapped to the same ensemble tensor %s",
                                 c->graph->pb->name, MODEL_ARG(step), tensor);
        return NULL;
}

static struct error *check_outputs(struct models_check *c, uint32_t index,
                                   const struct model_names *names) {
        if (c->models[index].pb->n_output == 0 && c->models[index].may_be_completed)
                return NULL;
        for (uint32_t i = 0; i < c->graph->steps[index].n_outputs; i++)
                TRY(error_at(check_output(c, index, i, names), "output_map[%u]", i));
        return NULL;
}

static struct error *check_step(struct models_check *c, uint32_t index) {
        const Inference__ModelConfig *pb = c->models[index].pb;
        const struct model_names     *names;

        if (pb == NULL)
                return NULL;
        TRY(check_batch_size(c, index));
        names = names_of(c, pb);
        if (names == NULL)
                return config_out_of_memory();
        TRY(check_inputs(c, index, names));
        return check_outputs(c, index, names);
}

struct error *ensemble_models_check(const struct ensemble_graph      *g,
                                    const struct ensemble_step_model *models) {
        struct models_check c = { .graph = g, .models = models };
        struct error       *err;

        /* n_tensors is bounded: the names are in a text of at most MODEL_CONFIG_TEXT_MAX_BYTES. */
        c.tensors = try_zalloc((g->n_tensors + (size_t)1) * sizeof(*c.tensors));
        if (c.tensors == NULL)
                return config_out_of_memory();
        map_init(&c.names);
        err = infer_ensemble(&c);
        for (uint32_t i = 0; i < g->n_steps && err == NULL; i++)
                err = error_at(check_step(&c, i), "ensemble_scheduling.step[%u]", i);
        free_names(&c);
        free(c.tensors);
        TRY(err);
        return ensemble_models_streams(g, models, NULL, NULL);
}

/* ---- streams --------------------------------------------------------------------------------- */

static struct error *mixed_streams(const struct ensemble_graph *g, const char *model) {
        return error_new(ERR_INVALID_ARG,
                         "in ensemble %s, step of model '%s' receives inputs originated from "
                         "different decoupled models",
                         g->pb->name, model);
}

static struct error *assign_stream(const struct ensemble_graph      *g,
                                   const struct ensemble_step_model *models, uint32_t index,
                                   uint32_t *streams, uint32_t *n) {
        const struct ensemble_step *step = &g->steps[index];
        uint32_t                    stream = streams[step->inputs[0].tensor];

        for (uint32_t i = 1; i < step->n_inputs; i++)
                if (streams[step->inputs[i].tensor] != stream)
                        return error_at(mixed_streams(g, step->model),
                                        "ensemble_scheduling.step[%u].input_map[%u]", index, i);
        if (models[index].is_decoupled)
                stream = ++*n;
        for (uint32_t i = 0; i < step->n_outputs; i++)
                streams[step->outputs[i].tensor] = stream;
        return NULL;
}

/* All outputs of a response of the ensemble must belong to the same stream. */
static struct error *assign_streams(const struct ensemble_graph      *g,
                                    const struct ensemble_step_model *models, uint32_t *streams,
                                    uint32_t *n) {
        for (uint32_t i = 0; i < g->n_ordered; i++)
                TRY(assign_stream(g, models, g->order[i], streams, n));
        for (size_t i = 1; i < g->pb->n_output; i++)
                if (streams[g->outputs[i]] != streams[g->outputs[0]])
                        return error_at(mixed_streams(g, g->pb->name), "output[%zu]", i);
        return NULL;
}

struct error *ensemble_models_streams(const struct ensemble_graph      *g,
                                      const struct ensemble_step_model *models,
                                      uint32_t *ret_streams, uint32_t *ret_n) {
        uint32_t     *streams = try_zalloc((g->n_tensors + (size_t)1) * sizeof(*streams));
        uint32_t      n = 0;
        struct error *err;

        if (streams == NULL)
                return config_out_of_memory();
        err = assign_streams(g, models, streams, &n);
        for (uint32_t i = 0; i < g->n_tensors && ret_streams != NULL && err == NULL; i++)
                ret_streams[i] = streams[i];
        if (ret_n != NULL && err == NULL)
                *ret_n = n;
        free(streams);
        return err;
}
