/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_complete.h"

static struct error *check_scheduling(const Inference__ModelConfig *to,
                                      const Inference__ModelConfig *from) {
        if (to->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE__NOT_SET &&
            to->scheduling_choice_case != from->scheduling_choice_case)
                return error_new(ERR_INTERNAL,
                                 "Cannot update scheduling choice from %d to %d when "
                                 "auto-completing.",
                                 (int)to->scheduling_choice_case,
                                 (int)from->scheduling_choice_case);
        return NULL;
}

static void take_scheduling(Inference__ModelConfig *to, const Inference__ModelConfig *from) {
        if (to->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE__NOT_SET)
                return;
        switch (from->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
                to->dynamic_batching = from->dynamic_batching;
                break;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                to->sequence_batching = from->sequence_batching;
                break;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING:
                to->ensemble_scheduling = from->ensemble_scheduling;
                break;
        default: return;
        }
        to->scheduling_choice_case = from->scheduling_choice_case;
}

struct error *model_config_complete(struct model_config       *c,
                                    const struct model_config *from_backend) {
        Inference__ModelConfig *to = c->pb;
        Inference__ModelConfig *from;

        TRY(check_scheduling(to, from_backend->pb));
        from = model_config_copy_message(c, from_backend->pb);
        if (from == NULL)
                return model_config_full(&c->arena);

        to->max_batch_size = from->max_batch_size;
        to->input = from->input;
        to->n_input = from->n_input;
        to->output = from->output;
        to->n_output = from->n_output;
        take_scheduling(to, from);
        if (from->model_transaction_policy != NULL)
                to->model_transaction_policy = from->model_transaction_policy;
        return NULL;
}
