/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/run.h"

#include "kit/input.h"
#include "kit/output.h"
#include "onnxruntime/device_run.h"
#include "onnxruntime/division_guard.h"
#include "onnxruntime/gpu_providers.h"
#include "onnxruntime/onnx_config_check.h"
#include "onnxruntime/values.h"

#include <stdlib.h>
#include <string.h>

/* ---- plans ---------------------------------------------------------------------------------- */

/* The server compares the shapes of requests only where the configuration allows them to differ,
 * and checks the fixed dims of each request. */
static bool can_differ(const struct kit_tensor *config) {
        if (config == NULL || config->is_ragged)
                return false;
        for (uint32_t i = 0; i < config->n_dims; i++)
                if (config->dims[i] < 0)
                        return true;
        return config->is_optional;
}

/* False for an initializer that is also an input of the file, and that the configuration leaves out:
 * a file of an old format has one for each of its weights. */
static bool is_sent(const struct kit_model *model, const struct ort_tensor *file) {
        return !file->has_default || kit_model_find_input(model, file->name) != NULL ||
               config_has_server_input(model, file->name);
}

static void plan_input(const struct kit_model *model, const struct run_plan *plan,
                       const struct ort_tensor *file, struct run_input *ret) {
        const struct kit_tensor *config = kit_model_find_input(model, file->name);

        for (size_t i = 0; i < plan->n_batch_inputs; i++)
                if (strcmp(plan->batch_inputs[i].target, file->name) == 0)
                        ret->made = &plan->batch_inputs[i];
        ret->name = file->name;
        ret->is_optional = config != NULL && config->is_optional;
        ret->is_ragged = config != NULL && config->is_ragged;
        ret->is_scalar = file->n_dims == 0;
        ret->can_differ =
                config != NULL ? can_differ(config) : config_state_varies(model, file->name);
}

/* Returns the bytes of one row of an output when all dims except the rows are known; 0 when they
 * are not, or when the size depends on the values. */
static size_t fixed_row_bytes(const struct kit_model *model, const struct ort_tensor *file) {
        size_t bytes = TRITONSERVER_DataTypeByteSize(file->type);

        if (file->n_dims == 0 || file->n_dims > KIT_MAX_DIMS)
                return 0;
        for (size_t i = model->max_batch_size > 0; i < file->n_dims; i++)
                if (file->dims[i] <= 0 || !kit_size_mul(bytes, (size_t)file->dims[i], &bytes))
                        return 0;
        return bytes;
}

static void plan_output(const struct kit_model *model, const struct run_plan *plan,
                        const struct ort_tensor *file, struct run_output *ret) {
        const struct kit_tensor *config = kit_model_find_output(model, file->name);

        for (size_t i = 0; i < plan->n_batch_outputs; i++)
                if (plan->batch_outputs[i].target == config)
                        ret->cut = &plan->batch_outputs[i];
        ret->name = file->name;
        ret->type = file->type;
        ret->is_listed = config != NULL;
        ret->is_state = config_is_state_output(model, file->name);
        ret->is_in_place = config_is_state_in_place(model, file->name);
        ret->row_bytes = fixed_row_bytes(model, file);
        ret->is_fixed = ret->row_bytes > 0 && ret->cut == NULL;
        if (config != NULL && file->n_dims == 0) {
                ret->scalar_shape = config->dims;
                ret->n_scalar_dims = config->n_dims;
        }
}

static TRITONSERVER_Error *plan_all(struct run_plan *plan, const struct kit_model *model,
                                    const struct session *session) {
        *plan = (struct run_plan){
                .session = session,
                .model_name = model->name,
                .max_batch_size = model->max_batch_size,
                .inputs = kit_alloc_array(session->n_inputs, sizeof(*plan->inputs)),
                .outputs = kit_alloc_array(session->n_outputs, sizeof(*plan->outputs)),
        };
        if (plan->inputs == NULL || plan->outputs == NULL)
                return kit_error_no_memory(0, model->name);
        KIT_TRY(kit_batch_inputs_read(model, &plan->batch_inputs, &plan->n_batch_inputs));
        KIT_TRY(kit_batch_outputs_read(model, &plan->batch_outputs, &plan->n_batch_outputs));
        for (size_t i = 0; i < session->n_inputs; i++) {
                struct run_input *input = &plan->inputs[plan->n_inputs];

                if (!is_sent(model, &session->inputs[i]))
                        continue;
                plan_input(model, plan, &session->inputs[i], input);
                plan->can_differ = plan->can_differ || input->can_differ;
                plan->n_inputs++;
        }
        for (size_t i = 0; i < session->n_outputs; i++)
                plan_output(model, plan, &session->outputs[i], &plan->outputs[i]);
        return NULL;
}

TRITONSERVER_Error *run_plan_init(struct run_plan *plan, const struct kit_model *model,
                                  const struct session *session) {
        TRITONSERVER_Error *err = plan_all(plan, model, session);

        if (err != NULL)
                run_plan_done(plan);
        return err;
}

void run_plan_done(struct run_plan *plan) {
        free(plan->batch_inputs);
        free(plan->batch_outputs);
        free(plan->inputs);
        free(plan->outputs);
        *plan = (struct run_plan){ 0 };
}

TRITONSERVER_Error *run_instance_new(const struct run_plan       *plan,
                                     TRITONBACKEND_ModelInstance *triton,
                                     struct run_instance        **ret) {
        size_t               n_inputs = plan->n_inputs;
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
        if (plan->session->device != ON_CPU) {
                TRITONSERVER_Error *err = device_run_new(plan, triton, &instance->device);

                if (err != NULL) {
                        run_instance_free(instance);
                        return err;
                }
        }
        *ret = instance;
        return NULL;
}

void run_instance_free(struct run_instance *instance) {
        if (instance == NULL)
                return;
        for (size_t i = 0; instance->scratch != NULL && i < instance->plan->n_inputs; i++)
                kit_scratch_done(&instance->scratch[i]);
        kit_scratch_done(&instance->chars);
        device_run_free(instance->device);
        free(instance->scratch);
        free(instance->input_names);
        free(instance->input_values);
        free(instance->output_names);
        free(instance->output_values);
        free(instance->bound);
        free(instance);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void release_values(struct run_instance *instance) {
        const struct ort *ort = instance->plan->session->ort;

        if (instance->device != NULL)
                device_run_end(instance->device);
        for (size_t i = 0; i < instance->n_inputs; i++)
                ort->api->ReleaseValue(instance->input_values[i]);
        for (size_t i = 0; i < instance->n_outputs; i++)
                if (instance->output_values[i] != NULL)
                        ort->api->ReleaseValue(instance->output_values[i]);
        instance->n_inputs = instance->n_outputs = 0;
}

static bool lacks_input(const struct kit_batch *batch, const struct run_input *input) {
        struct kit_input found;

        return !kit_input_find(kit_batch_live(batch, batch->slots)->request, input->name, &found);
}

/* NULL after an error. */
static void put_input(struct run_instance *instance, const struct run_input *input,
                      OrtValue *value) {
        if (value == NULL)
                return;
        instance->input_names[instance->n_inputs] = input->name;
        instance->input_values[instance->n_inputs++] = value;
}

static TRITONSERVER_Error *add_device_input(struct run_instance    *instance,
                                            const struct kit_batch *batch, size_t i) {
        OrtValue           *value = NULL;
        TRITONSERVER_Error *err =
                device_run_input(instance->device, batch, i, &instance->scratch[i], &value);

        put_input(instance, &instance->plan->inputs[i], value);
        return err;
}

static TRITONSERVER_Error *add_input(struct run_instance *instance, const struct kit_batch *batch,
                                     size_t i) {
        const struct run_input *input = &instance->plan->inputs[i];
        struct kit_scratch     *scratch = &instance->scratch[i];
        struct kit_gathered     tensor;
        OrtValue               *value = NULL;
        TRITONSERVER_Error     *err;

        if (input->is_optional && lacks_input(batch, input))
                return NULL;
        if (instance->device != NULL)
                return add_device_input(instance, batch, i);
        if (input->made != NULL)
                KIT_TRY(kit_batch_input_make(input->made, batch, scratch, &tensor));
        else if (input->is_ragged)
                KIT_TRY(kit_gather_ragged(batch, input->name, scratch, &tensor));
        else
                KIT_TRY(kit_gather(batch, input->name, scratch, &tensor));
        if (input->is_scalar && tensor.n_dims == 1 && tensor.shape[0] == 1)
                tensor.n_dims = 0;
        err = value_new(instance->plan->session->ort, &tensor, input->name, &value);
        put_input(instance, input, value);
        return err;
}

static bool is_wanted(const struct kit_batch *batch, const struct run_output *output) {
        struct kit_slot *slot = kit_batch_live(batch, batch->slots);

        if (output->is_state)
                return true;
        for (; output->is_listed && slot != NULL; slot = kit_batch_live(batch, slot + 1))
                if (kit_wants_output(slot->request, output->name))
                        return true;
        return false;
}

static bool fits_type(const void *bytes, TRITONSERVER_DataType type) {
        return (uintptr_t)bytes % TRITONSERVER_DataTypeByteSize(type) == 0;
}

/* An output at an address that is not aligned for the type is copied after the run instead. */
static TRITONSERVER_Error *bind_response(struct run_instance *instance, const struct kit_slot *slot,
                                         const struct kit_output *made, struct run_bound *bound,
                                         OrtValue **ret) {
        if (instance->device != NULL)
                return device_run_bind_response(instance->device, slot, made, bound, ret);
        KIT_TRY(kit_output_new(slot->response, made, bound->n_bytes, &bound->buffer));
        if (!fits_type(bound->buffer, made->type))
                return NULL;
        bound->is_direct = true;
        return value_new_over(instance->plan->session->ort, made, instance->plan->session->ort->cpu,
                              bound->buffer, bound->n_bytes, ret);
}

/* The next value is computed in the memory from which the sequence's next request will read it. */
static TRITONSERVER_Error *bind_state(struct run_instance *instance, const struct kit_slot *slot,
                                      const struct kit_output *made, struct run_bound *bound,
                                      OrtValue **ret) {
        TRITONBACKEND_State *state;
        void                *bytes;

        if (instance->device != NULL)
                return device_run_bind_state(instance->device, slot, made, bound, ret);
        KIT_TRY(kit_state_new(slot->request, made, bound->n_bytes, &state, &bytes));
        if (!fits_type(bytes, made->type))
                return NULL;
        bound->is_direct = true;
        bound->state = state;
        return value_new_over(instance->plan->session->ort, made, instance->plan->session->ort->cpu,
                              bytes, bound->n_bytes, ret);
}

/* Creates the output of a batch with one request before the run, so that the run can write into
 * it. */
static TRITONSERVER_Error *bind_output(struct run_instance *instance, const struct kit_batch *batch,
                                       size_t i, struct run_bound *bound, OrtValue **ret) {
        const struct ort_tensor *file = &instance->plan->session->outputs[i];
        const struct run_output *output = bound->output;
        struct kit_slot         *slot = kit_batch_live(batch, batch->slots);
        int64_t                  shape[KIT_MAX_DIMS];
        struct kit_output        made = { .name = output->name, .type = output->type };

        memcpy(shape, file->dims, file->n_dims * sizeof(*shape));
        if (batch->has_row_dim)
                shape[0] = slot->rows;
        made.shape = shape;
        made.n_dims = (uint32_t)file->n_dims;
        if (!kit_size_mul(output->row_bytes, (size_t)slot->rows, &bound->n_bytes))
                return kit_error_no_memory(SIZE_MAX, output->name);
        return output->is_state ? bind_state(instance, slot, &made, bound, ret)
                                : bind_response(instance, slot, &made, bound, ret);
}

static TRITONSERVER_Error *add_output(struct run_instance *instance, const struct kit_batch *batch,
                                      size_t i) {
        const struct run_output *output = &instance->plan->outputs[i];
        size_t                   n = instance->n_outputs;

        if (!is_wanted(batch, output))
                return NULL;
        instance->bound[n] = (struct run_bound){ .output = output };
        instance->output_names[n] = output->name;
        instance->output_values[n] = NULL;
        instance->n_outputs++;
        if (!output->is_fixed || output->is_in_place || batch->n_live > 1)
                return NULL;
        return bind_output(instance, batch, i, &instance->bound[n], &instance->output_values[n]);
}

static TRITONSERVER_Error *bind_inputs(struct run_instance    *instance,
                                       const struct kit_batch *batch) {
        for (size_t i = 0; i < instance->plan->n_inputs; i++)
                KIT_TRY(add_input(instance, batch, i));
        return NULL;
}

static TRITONSERVER_Error *bind_outputs(struct run_instance    *instance,
                                        const struct kit_batch *batch) {
        for (size_t i = 0; i < instance->plan->session->n_outputs; i++)
                KIT_TRY(add_output(instance, batch, i));
        return NULL;
}

/* Copies a value that the runtime allocated into the prepared buffer. */
static TRITONSERVER_Error *copy_value(const struct ort *ort, OrtValue *value,
                                      const struct kit_batch *batch,
                                      const struct run_bound *bound) {
        struct kit_output made = { .name = bound->output->name };
        int64_t           shape[KIT_MAX_DIMS];
        struct kit_place  place;
        size_t            n;
        void             *bytes;

        KIT_TRY(value_read_shape(ort, value, &made, shape));
        KIT_TRY(kit_count_elements(made.shape, made.n_dims, made.name, &n));
        if (n * TRITONSERVER_DataTypeByteSize(made.type) != bound->n_bytes)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "output '%s' has another shape than the model promises",
                                 made.name);
        ORT_TRY(ort, GetTensorMutableData(value, &bytes));
        if (batch->memory != NULL) {
                KIT_TRY(value_read_place(ort, value, &place));
                return kit_memory_copy(batch->memory,
                                       &(struct kit_copy){ bound->buffer, bytes, bound->n_bytes,
                                                           bound->place, place },
                                       kit_batch_live(batch, batch->slots), NULL);
        }
        memmove(bound->buffer, bytes, bound->n_bytes); /* may be an input's, in the same memory of a
                                                        * client */
        return NULL;
}

static TRITONSERVER_Error *scatter_cut(const struct ort *ort, const struct kit_batch_output *cut,
                                       struct kit_batch *batch, const struct kit_output *made,
                                       OrtValue *value) {
        struct kit_place place = { TRITONSERVER_MEMORY_CPU, 0 };
        void            *bytes;

        ORT_TRY(ort, GetTensorMutableData(value, &bytes));
        if (batch->memory != NULL)
                KIT_TRY(value_read_place(ort, value, &place));
        return kit_batch_output_scatter_from(cut, batch, made, bytes, &place);
}

/* Moves values that the runtime allocated to the responses and the states. */
static TRITONSERVER_Error *scatter(struct run_instance *instance, struct kit_batch *batch,
                                   size_t i) {
        const struct ort        *ort = instance->plan->session->ort;
        const struct run_output *output = instance->bound[i].output;
        OrtValue                *value = instance->output_values[i];
        struct kit_output        made = { .name = output->name };
        int64_t                  shape[KIT_MAX_DIMS];

        if (instance->bound[i].buffer != NULL)
                return copy_value(ort, value, batch, &instance->bound[i]);
        KIT_TRY(value_read_shape(ort, value, &made, shape));
        if (output->cut != NULL)
                return scatter_cut(ort, output->cut, batch, &made, value);
        if (made.n_dims == 0 && output->scalar_shape != NULL && output->n_scalar_dims > 0) {
                made.shape = output->scalar_shape;
                made.n_dims = output->n_scalar_dims;
        }
        if (output->is_listed)
                KIT_TRY(value_scatter(ort, value, &made, batch, &instance->chars));
        made.is_state = true;
        if (output->is_state)
                KIT_TRY(value_scatter(ort, value, &made, batch, &instance->chars));
        return NULL;
}

static TRITONSERVER_Error *compute(struct run_instance *instance, struct kit_batch *batch) {
        const struct session *session = instance->plan->session;
        TRITONSERVER_Error   *err;

        KIT_TRY(bind_inputs(instance, batch));
        KIT_TRY(bind_outputs(instance, batch));
        if (batch->memory != NULL)
                KIT_TRY(kit_memory_run(batch->memory));
        batch->stats.compute_start = kit_clock_ns();
        if (instance->n_outputs == 0)
                return NULL;
        if (instance->device != NULL) {
                err = device_run_execute(instance->device, instance);
                batch->stats.compute_end = kit_clock_ns();
                return err;
        }
        err = ort_error(session->ort,
                        session->ort->api->Run(session->onnx, session->run_options,
                                               (const char *const *)instance->input_names,
                                               (const OrtValue *const *)instance->input_values,
                                               instance->n_inputs,
                                               (const char *const *)instance->output_names,
                                               instance->n_outputs, instance->output_values));
        batch->stats.compute_end = kit_clock_ns();
        if (division_guard_take_first())
                KIT_LOG(TRITONSERVER_LOG_WARN,
                        "model '%s', or one that ran at the same time, divided an integer by zero: "
                        "the result means nothing. Later divisions are not logged",
                        instance->plan->model_name);
        return err;
}

/* A state that was computed in its own memory. Clients may ask for it as an output, too. */
static TRITONSERVER_Error *end_state(struct run_instance *instance, struct kit_batch *batch,
                                     size_t i) {
        const struct ort        *ort = instance->plan->session->ort;
        const struct run_output *output = instance->bound[i].output;
        OrtValue                *value = instance->output_values[i];
        struct kit_output        made = { .name = output->name };
        int64_t                  shape[KIT_MAX_DIMS];

        KIT_TRY(TRITONBACKEND_StateUpdate(instance->bound[i].state));
        if (!output->is_listed)
                return NULL;
        KIT_TRY(value_read_shape(ort, value, &made, shape));
        return value_scatter(ort, value, &made, batch, &instance->chars);
}

/* When no slot is left, what was made for them before the run is the server's again. */
static TRITONSERVER_Error *scatter_all(struct run_instance *instance, struct kit_batch *batch) {
        for (size_t i = 0; i < instance->n_outputs && batch->n_live > 0; i++)
                if (instance->bound[i].state != NULL)
                        KIT_TRY(end_state(instance, batch, i));
                else if (!instance->bound[i].is_direct)
                        KIT_TRY(scatter(instance, batch, i));
        if (batch->memory != NULL)
                kit_memory_finish(batch->memory, batch);
        return NULL;
}

static void run_one(struct kit_batch *one, void *state) {
        struct run_instance *instance = state;
        TRITONSERVER_Error  *err = compute(instance, one);

        if (err == NULL)
                err = scatter_all(instance, one);
        release_values(instance);
        if (err != NULL)
                kit_batch_fail_all(one, err);
}

/* Runs all live slots together; when that fails, each one alone. */
static void run_batch(struct run_instance *instance, struct kit_batch *batch) {
        TRITONSERVER_Error *err;

        if (batch->n_live <= 1) {
                if (batch->n_live == 1)
                        run_one(batch, instance);
                return;
        }
        err = compute(instance, batch);
        if (err != NULL) {
                release_values(instance);
                KIT_LOG(TRITONSERVER_LOG_VERBOSE,
                        "model '%s': a batch of %u requests failed and is run one by one: %s",
                        instance->plan->model_name, batch->n_live, TRITONSERVER_ErrorMessage(err));
                TRITONSERVER_ErrorDelete(err);
                kit_batch_each(batch, run_one, instance);
                return;
        }
        err = scatter_all(instance, batch);
        release_values(instance);
        if (err != NULL)
                kit_batch_fail_all(batch, err);
}

static void run_group(struct run_instance *instance, TRITONBACKEND_Request **requests,
                      uint32_t n_requests) {
        struct kit_batch    batch;
        TRITONSERVER_Error *err = kit_batch_open(&batch, instance->triton, requests, n_requests);

        if (err != NULL) {
                /* Earlier groups may have been answered already, so the error must not be returned
                 * to the server, which would answer all requests. */
                for (uint32_t i = 0; i < n_requests; i++) {
                        struct kit_batch one;

                        kit_error_log(kit_batch_open(&one, instance->triton, &requests[i], 1),
                                      "a batch of one needs no memory");
                        kit_batch_fail_all(&one, kit_error_copy(err));
                        kit_batch_close(&one);
                }
                TRITONSERVER_ErrorDelete(err);
                return;
        }
        if (instance->device != NULL)
                batch.memory = device_run_memory(instance->device);
        kit_batch_drop_cancelled(&batch);
        kit_batch_read_rows(&batch, instance->plan->max_batch_size);
        run_batch(instance, &batch);
        kit_batch_close(&batch);
}

/* True when two requests can be in one run. */
static bool can_share_run(const struct run_plan *plan, TRITONBACKEND_Request *a,
                          TRITONBACKEND_Request *b) {
        if (plan->max_batch_size == 0)
                return false; /* there is no dimension to join them along */
        for (size_t i = 0; plan->can_differ && i < plan->n_inputs; i++)
                if (plan->inputs[i].can_differ && !kit_inputs_agree(a, b, plan->inputs[i].name, 1))
                        return false;
        return true;
}

/* Moves the requests that fit the first one to the front and returns their number. */
static uint32_t group(const struct run_plan *plan, TRITONBACKEND_Request **requests, uint32_t n) {
        uint32_t n_group = 1;

        for (uint32_t i = 1; i < n; i++) {
                TRITONBACKEND_Request *request = requests[i];

                if (!can_share_run(plan, requests[0], request))
                        continue;
                /* The requests in between keep their order. */
                memmove(&requests[n_group + 1], &requests[n_group],
                        (i - n_group) * sizeof(*requests));
                requests[n_group++] = request;
        }
        return n_group;
}

TRITONSERVER_Error *run_execute(struct run_instance *instance, TRITONBACKEND_Request **requests,
                                uint32_t n_requests) {
        TRITONBACKEND_Request **mine;
        uint32_t                done = 0;

        if (n_requests == 1) {
                run_group(instance, requests, 1);
                return NULL;
        }
        /* A copy: the array belongs to the server. */
        mine = kit_alloc_array(n_requests, sizeof(*mine));
        if (mine == NULL)
                return kit_error_no_memory(n_requests * sizeof(*mine), "a batch");
        memcpy(mine, requests, n_requests * sizeof(*mine));
        while (done < n_requests) {
                uint32_t n = group(instance->plan, mine + done, n_requests - done);

                run_group(instance, mine + done, n);
                done += n;
        }
        free(mine);
        return NULL;
}
