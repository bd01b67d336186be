/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of model_warmup that need neither its files nor an instance.
 */
#include "config/config_check.h"

#include "config/shape.h"

static struct error *check_input(const char *name, const Inference__ModelWarmup__Input *input) {
        int64_t bytes =
                shape_byte_size((enum data_type)input->data_type, input->dims, input->n_dims);

        if (shape_element_count(input->dims, input->n_dims) == SHAPE_VARIABLE)
                return error_at(error_new(ERR_INVALID_ARG,
                                          "warmup setting expects all variable-size dimensions are "
                                          "specified for input '%s'",
                                          name),
                                "dims");
        if (bytes == SHAPE_INVALID_DIM || bytes == SHAPE_OVERFLOW || bytes == SHAPE_BYTES_OVERFLOW)
                return error_at(
                        error_new(ERR_INVALID_ARG,
                                  "warmup setting has dimensions out of range for input '%s'",
                                  name),
                        "dims");
        if (input->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE__NOT_SET)
                /* A warm-up sample is a request without an id. */
                return error_new(ERR_INVALID_ARG,
                                 "[request id: <id_unknown>] warmup setting expects input '%s' to "
                                 "have input_data_type set",
                                 name);
        return NULL;
}

struct error *model_config_check_warmup(const struct model_config *c) {
        for (size_t i = 0; i < c->pb->n_model_warmup; i++) {
                const Inference__ModelWarmup *sample = c->pb->model_warmup[i];

                if (sample->batch_size == 0)
                        continue; /* such a sample never runs */
                for (size_t k = 0; k < sample->n_inputs; k++)
                        if (sample->inputs[k]->value != NULL)
                                TRY(error_at(check_input(sample->inputs[k]->key,
                                                         sample->inputs[k]->value),
                                             "model_warmup[%zu].inputs[%zu].value", i, k));
        }
        return NULL;
}
