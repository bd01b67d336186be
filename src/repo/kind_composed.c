/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind (model_kind.h) of models that consist of other models: ensembles, and models of
 * platform "chain". */
#include "config/config_edit.h"
#include "config/model_io.h"
#include "infer/model.h"
#include "pipeline/chain_plan.h"
#include "pipeline/ensemble.h"
#include "repo/composed_model.h"
#include "repo/loaded_model.h"
#include "repo/model_kind.h"

/* ---- chains ---------------------------------------------------------------------------------- */

static bool has_tensors(const Inference__ModelConfig *pb) {
        return pb->n_input > 0 || pb->n_output > 0;
}

/* Copies the inputs of the first stage and the outputs of the last one into the chain's
 * configuration, without reshapes. The label files are not copied: they are in the directory of the
 * last stage, and the labels come with its outputs. */
static struct error *derive_tensors(struct loaded_model *l, const struct chain_plan *plan) {
        static char             none[] = "";
        Inference__ModelConfig *to = l->model.config->pb;
        struct model           *first = chain_plan_stage(plan, 0);
        struct model           *last = chain_plan_stage(plan, chain_plan_count(plan) - 1);
        Inference__ModelConfig *in = model_config_copy_message(l->model.config, first->config->pb);
        Inference__ModelConfig *out = model_config_copy_message(l->model.config, last->config->pb);

        if (in == NULL || out == NULL)
                return model_config_full(&l->model.config->arena);
        to->input = in->input;
        to->n_input = in->n_input;
        to->output = out->output;
        to->n_output = out->n_output;
        for (size_t i = 0; i < to->n_input; i++)
                to->input[i]->reshape = NULL;
        for (size_t i = 0; i < to->n_output; i++) {
                to->output[i]->reshape = NULL;
                to->output[i]->label_filename = none;
        }
        if (to->max_batch_size == 0)
                to->max_batch_size = (int32_t)chain_plan_max_batch(plan);
        return NULL;
}

static struct error *differs(const struct loaded_model *l, const char *what, const char *tensor,
                             const struct model *stage) {
        return error_new(ERR_INVALID_ARG, "%s '%s' of chain '%s' is not that of its stage '%s'",
                         what, tensor, l->name, stage->name);
}

static bool is_same_tensor(enum data_type type, const int64_t *dims, size_t n_dims,
                           const struct model_io *t) {
        if (t == NULL || t->type != type || t->n_dims != n_dims)
                return false;
        for (size_t i = 0; i < n_dims; i++)
                if (dims[i] != t->dims[i] && dims[i] >= 0 && t->dims[i] >= 0)
                        return false;
        return true;
}

static enum data_type type_of(Inference__DataType type) {
        return (enum data_type)type;
}

static struct error *check_tensors(const struct loaded_model *l, const struct chain_plan *plan) {
        const Inference__ModelConfig *pb = l->model.config->pb;
        const struct model           *first = chain_plan_stage(plan, 0);
        const struct model           *last = chain_plan_stage(plan, chain_plan_count(plan) - 1);

        for (size_t i = 0; i < pb->n_input; i++) {
                const Inference__ModelInput *in = pb->input[i];

                if (!is_same_tensor(type_of(in->data_type), in->dims, in->n_dims,
                                    model_io_find_input(first->io, str_of(in->name), 0)))
                        return error_at(differs(l, "input", in->name, first), "input[%zu]", i);
        }
        for (size_t i = 0; i < pb->n_output; i++) {
                const Inference__ModelOutput *out = pb->output[i];

                if (!is_same_tensor(type_of(out->data_type), out->dims, out->n_dims,
                                    model_io_find_output(last->io, str_of(out->name), 0)))
                        return error_at(differs(l, "output", out->name, last), "output[%zu]", i);
        }
        if ((pb->max_batch_size > 0) != (first->io->max_batch_size > 0))
                return error_in_field(
                        "max_batch_size",
                        "chain '%s' must have batches if, and only if, its first stage '%s' has",
                        l->name, first->name);
        return NULL;
}

static struct error *open_chain(struct loaded_model *l, const struct chain_plan *plan) {
        if (has_tensors(l->model.config->pb))
                TRY(check_tensors(l, plan));
        else
                TRY(derive_tensors(l, plan));
        if (chain_plan_stage(plan, chain_plan_count(plan) - 1)->is_decoupled)
                TRY(config_edit_set_decoupled(l->model.config, true));
        return NULL;
}

/* ---- the functions of the kind ---------------------------------------------------------------- */

static struct error *open(struct loaded_model *l) {
        struct composed_block block;
        struct step_models   *s;
        struct error         *err = NULL;

        composed_model_bind(l->composed, &block);
        TRY(composed_block_error(&block));
        s = composed_model_get(l->composed);
        if (s != NULL && l->composed->needs.kind == NEEDS_STAGES)
                err = open_chain(l, s->plan);
        step_models_unref(s);
        return err;
}

static struct error *normalize(struct loaded_model *l, struct model_config *config) {
        (void)l;
        (void)config;
        return NULL;
}

static struct error *make_composed_model(struct loaded_model *l) {
        if (l->composed->needs.kind == NEEDS_STEPS)
                return ensemble_new(&l->model, &l->composed->holder, l->env->step_memory,
                                    &l->model.scheduler);
        l->model.scheduler = composed_model_chain(l->composed, NULL);
        return NULL;
}

/* No update is possible: these models have no instances. */
static struct error *update(struct loaded_model *l, const struct model_config *config,
                            struct model_update **ret) {
        (void)l;
        (void)config;
        *ret = NULL;
        return NULL;
}

static bool is_ready(struct loaded_model *l) {
        (void)l;
        return true; /* no backend of its own; model_is_ready() checks the steps */
}

static void free_nothing(struct loaded_model *l) {
        (void)l;
}

const struct model_kind_ops kind_composed = {
        .open = open,
        .normalize = normalize,
        .make = make_composed_model,
        .update = update,
        .is_ready = is_ready,
        .free = free_nothing,
};
