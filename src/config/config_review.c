/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_review.h"

#include "base/map.h"
#include "config/data_type.h"
#include "config/shape.h"

static struct error *named_twice(const Inference__ModelConfig *pb, const char *role,
                                 const char *name) {
        return error_new(ERR_INVALID_ARG, "%s '%s' is specified more than once for %s", role, name,
                         pb->name);
}

static struct error *review_inputs(const Inference__ModelConfig *pb, struct map *seen) {
        for (size_t i = 0; i < pb->n_input; i++)
                if (config_text_is_set(pb->input[i]->name) &&
                    map_set(seen, str_of(pb->input[i]->name), pb->input[i]) != NULL)
                        return error_at(named_twice(pb, "input", pb->input[i]->name),
                                        "input[%zu].name", i);
        return NULL;
}

static struct error *review_outputs(const Inference__ModelConfig *pb, struct map *seen) {
        for (size_t i = 0; i < pb->n_output; i++)
                if (config_text_is_set(pb->output[i]->name) &&
                    map_set(seen, str_of(pb->output[i]->name), pb->output[i]) != NULL)
                        return error_at(named_twice(pb, "output", pb->output[i]->name),
                                        "output[%zu].name", i);
        return NULL;
}

struct error *model_config_review_names(const struct model_config *c) {
        struct map    inputs, outputs;
        struct error *err;

        map_init(&inputs);
        map_init(&outputs);
        err = review_inputs(c->pb, &inputs);
        if (err == NULL)
                err = review_outputs(c->pb, &outputs);
        map_done(&inputs);
        map_done(&outputs);
        return err;
}

static const Inference__ModelInput *find_input(const Inference__ModelConfig *pb, const char *name) {
        for (size_t i = 0; i < pb->n_input; i++)
                if (config_text_is(pb->input[i]->name, name))
                        return pb->input[i];
        return NULL;
}

static struct error *review_sample_input(const Inference__ModelConfig              *pb,
                                         const Inference__ModelWarmup              *sample,
                                         const Inference__ModelWarmup__InputsEntry *entry) {
        const Inference__ModelInput *input = find_input(pb, entry->key);
        enum data_type               given;

        if (input == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "warmup sample '%s' has the input '%s', which the model '%s' does "
                                 "not have",
                                 sample->name, entry->key, pb->name);
        given = entry->value != NULL ? (enum data_type)entry->value->data_type : DATA_TYPE_INVALID;
        if (input->data_type == INFERENCE__DATA_TYPE__TYPE_INVALID ||
            given == (enum data_type)input->data_type)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "warmup sample '%s' has data type %s for input '%s' of the model '%s', "
                         "which has %s",
                         sample->name, data_type_config_name(given), entry->key, pb->name,
                         data_type_config_name((enum data_type)input->data_type));
}

static bool has_sample_input(const Inference__ModelWarmup *sample, const char *name) {
        for (size_t i = 0; i < sample->n_inputs; i++)
                if (config_text_is(sample->inputs[i]->key, name))
                        return true;
        return false;
}

static struct error *review_sample(const struct model_config    *c,
                                   const Inference__ModelWarmup *sample) {
        const Inference__ModelConfig *pb = c->pb;

        for (size_t i = 0; i < sample->n_inputs; i++)
                if (!model_config_is_added_input(c, sample->inputs[i]->key))
                        TRY(error_at(review_sample_input(pb, sample, sample->inputs[i]),
                                     "inputs[%zu]", i));
        for (size_t i = 0; i < pb->n_input; i++)
                if (!pb->input[i]->optional && !has_sample_input(sample, pb->input[i]->name))
                        return error_new(ERR_INVALID_ARG,
                                         "warmup sample '%s' lacks the input '%s' of the model "
                                         "'%s'",
                                         sample->name, pb->input[i]->name, pb->name);
        return NULL;
}

struct error *model_config_review_warmup(const struct model_config *c) {
        const Inference__ModelConfig *pb = c->pb;

        for (size_t i = 0; i < pb->n_model_warmup && pb->n_input > 0; i++)
                if (pb->model_warmup[i]->batch_size > 0)
                        TRY(error_at(review_sample(c, pb->model_warmup[i]), "model_warmup[%zu]",
                                     i));
        return NULL;
}

/* One dimension of any size where there is none. */
static struct error *complete_dims(struct model_config *c, int64_t **dims, size_t *n_dims,
                                   Inference__ModelTensorReshape **reshape) {
        if (*n_dims > 0)
                return NULL;
        *dims = arena_try_calloc(&c->arena, 1, sizeof(**dims));
        if (*dims == NULL)
                return model_config_full(&c->arena);
        **dims = SHAPE_ANY_DIM;
        *n_dims = 1;
        *reshape = NULL;
        return NULL;
}

static struct error *complete_input(struct model_config *c, Inference__ModelInput *in) {
        if (in->data_type == INFERENCE__DATA_TYPE__TYPE_INVALID)
                in->data_type = INFERENCE__DATA_TYPE__TYPE_FP32;
        if (in->n_dims == 0)
                in->format = INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NONE;
        return complete_dims(c, &in->dims, &in->n_dims, &in->reshape);
}

static struct error *complete_output(struct model_config *c, Inference__ModelOutput *out) {
        if (out->data_type == INFERENCE__DATA_TYPE__TYPE_INVALID)
                out->data_type = INFERENCE__DATA_TYPE__TYPE_FP32;
        return complete_dims(c, &out->dims, &out->n_dims, &out->reshape);
}

struct error *model_config_assume_complete(struct model_config *c) {
        Inference__ModelConfig *pb = c->pb;

        for (size_t i = 0; i < pb->n_input; i++)
                TRY(complete_input(c, pb->input[i]));
        for (size_t i = 0; i < pb->n_output; i++)
                TRY(complete_output(c, pb->output[i]));
        /* The fields that they refer to may be completed later. */
        if (pb->n_input == 0)
                pb->n_batch_input = pb->n_batch_output = 0;
        if (pb->n_output == 0)
                pb->n_batch_output = 0;
        return NULL;
}
