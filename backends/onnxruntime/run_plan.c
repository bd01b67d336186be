/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run needs of a session, found once: names, types and where outputs go (run.h). */
#include "kit/input.h"
#include "onnxruntime/config_check.h"
#include "onnxruntime/run.h"

#include <stdlib.h>

/* The server batches requests of equal shapes only where the configuration lets them differ at
 * all, and checks the fixed dims of each. */
static bool can_differ(const struct kit_tensor *config) {
        if (config == NULL || config->is_ragged)
                return false;
        for (uint32_t i = 0; i < config->n_dims; i++)
                if (config->dims[i] < 0)
                        return true;
        return config->is_optional;
}

static void plan_input(const struct kit_model *model, const struct ort_tensor *file,
                       struct run_input *ret) {
        const struct kit_tensor *config = kit_model_find_input(model, file->name);

        ret->name = file->name;
        ret->is_optional = config != NULL && config->is_optional;
        ret->is_ragged = config != NULL && config->is_ragged;
        ret->is_scalar = file->n_dims == 0;
        ret->can_differ = config != NULL ? can_differ(config)
                                         : config_state_varies(model, file->name);
}

/* The bytes of one row of an output whose dims, but for the rows, are all known; 0 when they are
 * not, or when the bytes depend on the values. */
static size_t fixed_row_bytes(const struct kit_model *model, const struct ort_tensor *file) {
        size_t bytes = TRITONSERVER_DataTypeByteSize(file->type);

        if (file->n_dims == 0 || file->n_dims > KIT_MAX_DIMS)
                return 0;
        for (size_t i = model->max_batch_size > 0; i < file->n_dims; i++)
                if (file->dims[i] <= 0 || !kit_size_mul(bytes, (size_t)file->dims[i], &bytes))
                        return 0;
        return bytes;
}

static void plan_output(const struct kit_model *model, const struct ort_tensor *file,
                        struct run_output *ret) {
        const struct kit_tensor *config = kit_model_find_output(model, file->name);

        ret->name = file->name;
        ret->type = file->type;
        ret->is_listed = config != NULL;
        ret->is_state = config_is_state_output(model, file->name);
        ret->is_in_place = config_is_state_in_place(model, file->name);
        ret->row_bytes = fixed_row_bytes(model, file);
        ret->is_fixed = ret->row_bytes > 0;
        if (config != NULL && file->n_dims == 0) {
                ret->scalar_shape = config->dims;
                ret->n_scalar_dims = config->n_dims;
        }
}

TRITONSERVER_Error *run_plan_init(struct run_plan *plan, const struct kit_model *model,
                                  const struct session *session) {
        *plan = (struct run_plan){
                .session = session,
                .model_name = model->name,
                .max_batch_size = model->max_batch_size,
                .inputs = kit_alloc_array(session->n_inputs, sizeof(*plan->inputs)),
                .outputs = kit_alloc_array(session->n_outputs, sizeof(*plan->outputs)),
        };
        if (plan->inputs == NULL || plan->outputs == NULL) {
                run_plan_done(plan);
                return kit_error_no_memory(0, model->name);
        }
        for (size_t i = 0; i < session->n_inputs; i++) {
                plan_input(model, &session->inputs[i], &plan->inputs[i]);
                plan->can_differ = plan->can_differ || plan->inputs[i].can_differ;
        }
        for (size_t i = 0; i < session->n_outputs; i++)
                plan_output(model, &session->outputs[i], &plan->outputs[i]);
        return NULL;
}

void run_plan_done(struct run_plan *plan) {
        free(plan->inputs);
        free(plan->outputs);
        *plan = (struct run_plan){ 0 };
}

TRITONSERVER_Error *run_instance_new(const struct run_plan       *plan,
                                     TRITONBACKEND_ModelInstance *triton,
                                     struct run_instance        **ret) {
        size_t               n_inputs = plan->session->n_inputs;
        size_t               n_outputs = plan->session->n_outputs;
        struct run_instance *instance = kit_alloc_array(1, sizeof(*instance));

        if (instance == NULL)
                return kit_error_no_memory(sizeof(*instance), plan->model_name);
        instance->plan = plan;
        instance->triton = triton;
        instance->scratch = kit_alloc_array(n_inputs, sizeof(*instance->scratch));
        instance->input_names = kit_alloc_array(n_inputs, sizeof(*instance->input_names));
        instance->input_values = kit_alloc_array(n_inputs, sizeof(*instance->input_values));
        instance->output_names = kit_alloc_array(n_outputs, sizeof(*instance->output_names));
        instance->output_values = kit_alloc_array(n_outputs, sizeof(*instance->output_values));
        instance->bound = kit_alloc_array(n_outputs, sizeof(*instance->bound));
        if (instance->scratch == NULL || instance->input_names == NULL ||
            instance->input_values == NULL || instance->output_names == NULL ||
            instance->output_values == NULL || instance->bound == NULL) {
                run_instance_free(instance);
                return kit_error_no_memory(0, plan->model_name);
        }
        *ret = instance;
        return NULL;
}

void run_instance_free(struct run_instance *instance) {
        if (instance == NULL)
                return;
        for (size_t i = 0; instance->scratch != NULL && i < instance->plan->session->n_inputs; i++)
                kit_scratch_done(&instance->scratch[i]);
        kit_scratch_done(&instance->chars);
        free(instance->scratch);
        free(instance->input_names);
        free(instance->input_values);
        free(instance->output_names);
        free(instance->output_values);
        free(instance->bound);
        free(instance);
}
