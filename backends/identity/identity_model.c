/* SPDX-License-Identifier: BSD-3-Clause */
#include "identity/identity_model.h"

#include "kit/scratch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct kit_tensor *input_of(const struct kit_model *model, uint32_t output_index) {
        const char *output = model->outputs[output_index].name;

        if (strncmp(output, "OUTPUT", 6) == 0)
                for (uint32_t i = 0; i < model->n_inputs; i++)
                        if (strncmp(model->inputs[i].name, "INPUT", 5) == 0 &&
                            strcmp(model->inputs[i].name + 5, output + 6) == 0)
                                return &model->inputs[i];
        return output_index < model->n_inputs ? &model->inputs[output_index] : NULL;
}

static TRITONSERVER_Error *pair_up(struct identity_model *model) {
        const struct kit_model *kit = &model->kit;

        model->pairs = kit_alloc_array(kit->n_outputs, sizeof(*model->pairs));
        if (model->pairs == NULL)
                return kit_error_no_memory(kit->n_outputs * sizeof(*model->pairs), kit->name);
        for (uint32_t i = 0; i < kit->n_outputs; i++) {
                const struct kit_tensor *output = &kit->outputs[i];
                const struct kit_tensor *input = input_of(kit, i);

                if (input == NULL)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "model '%s': output '%s' has no input to repeat",
                                         kit->name, output->name);
                if (input->type != output->type)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "model '%s': expected input and output datatype to match, "
                                         "got %s for '%s' and %s for '%s'",
                                         kit->name, TRITONSERVER_DataTypeString(input->type),
                                         input->name, TRITONSERVER_DataTypeString(output->type),
                                         output->name);
                model->pairs[i] = (struct pair){ output->name, input->name };
        }
        model->n_pairs = kit->n_outputs;
        return NULL;
}

static TRITONSERVER_Error *new_metric(struct identity_model  *model,
                                      TRITONSERVER_Parameter *labels[2]) {
        KIT_TRY(TRITONSERVER_MetricFamilyNew(
                &model->family, TRITONSERVER_METRIC_KIND_COUNTER, "input_byte_size_counter",
                "Cumulative input byte size of all requests received by the model"));
        return TRITONSERVER_MetricNew(&model->byte_count, model->family,
                                      (const TRITONSERVER_Parameter **)labels, 2);
}

static TRITONSERVER_Error *add_metric(struct identity_model *model) {
        TRITONSERVER_Parameter *labels[2] = { NULL, NULL };
        TRITONSERVER_Error     *err;
        char                    version[24];

        (void)snprintf(version, sizeof(version), "%" PRIu64, model->kit.version);
        labels[0] =
                TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, model->kit.name);
        labels[1] = TRITONSERVER_ParameterNew("version", TRITONSERVER_PARAMETER_STRING, version);
        err = new_metric(model, labels);
        TRITONSERVER_ParameterDelete(labels[0]);
        TRITONSERVER_ParameterDelete(labels[1]);
        return err;
}

static TRITONSERVER_Error *read_parameters(struct identity_model *model) {
        const struct kit_model *kit = &model->kit;
        int64_t                 creation_delay = 0;
        bool                    has_metric = false;

        KIT_TRY(kit_model_parameter_int(kit, "execute_delay_ms", &model->delay_ms));
        KIT_TRY(kit_model_parameter_int(kit, "instance_wise_delay_multiplier",
                                        &model->delay_multiplier));
        KIT_TRY(kit_model_parameter_bool(kit, "response_parameters", &model->has_parameters));
        KIT_TRY(kit_model_parameter_bool(kit, "byte_size_metric", &has_metric));
        KIT_TRY(kit_model_parameter_int(kit, "creation_delay_sec", &creation_delay));
        if (creation_delay > 0) {
                struct timespec delay = { .tv_sec = creation_delay };

                (void)nanosleep(&delay, NULL);
        }
        return has_metric ? add_metric(model) : NULL;
}

static TRITONSERVER_Error *open_model(TRITONBACKEND_Model *triton, struct identity_model *model) {
        KIT_TRY(kit_model_open(triton, &model->kit));
        KIT_TRY(pair_up(model));
        return read_parameters(model);
}

TRITONSERVER_Error *identity_model_new(TRITONBACKEND_Model *triton, struct identity_model **ret) {
        struct identity_model *model = kit_alloc_array(1, sizeof(*model));
        TRITONSERVER_Error    *err;

        if (model == NULL)
                return kit_error_no_memory(sizeof(*model), "a model");
        err = open_model(triton, model);
        if (err != NULL) {
                identity_model_free(model);
                return err;
        }
        *ret = model;
        return NULL;
}

void identity_model_free(struct identity_model *model) {
        if (model->byte_count != NULL)
                kit_error_log(TRITONSERVER_MetricDelete(model->byte_count), "identity");
        if (model->family != NULL)
                kit_error_log(TRITONSERVER_MetricFamilyDelete(model->family), "identity");
        free(model->pairs);
        kit_model_close(&model->kit);
        free(model);
}
