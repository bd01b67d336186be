/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity backend: each output repeats an input of any type. It is for tests and for
 * measurements of the server's own cost, so the path of one request does only what the response
 * needs.
 *
 * Output OUTPUT<x> repeats input INPUT<x> where both exist; any other output repeats the input at
 * the same place of the configuration. Their types must be the same. An output whose optional input
 * is missing from the request is zeros (empty strings) of the output's configured shape, with 1 for
 * each variable dimension, so that every requested output is answered.
 *
 * Model configuration, parameters:
 *
 *     execute_delay_ms                sleep of that length in each execution
 *     instance_wise_delay_multiplier  the sleep is multiplied by this and by the number of the
 *                                     instance (0, 1, ...), where the product is at least 1
 *     creation_delay_sec              sleep of that length while the model loads, 60 at most: a few
 *                                     such loads keep all others from beginning
 *     response_parameters             "true": each response has the parameters param0 (a string),
 *                                     param1 (42) and param2 (false); off by default, for speed
 *     byte_size_metric                "true": the counter input_byte_size_counter of the model
 *
 * Ownership.  A model owns its pairs and its metric.
 * Threads.  A model does not change after load; n_instances is atomic.
 */
#include "kit/batch.h"
#include "kit/input.h"
#include "kit/model.h"
#include "kit/output.h"
#include "kit/scratch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_CREATION_DELAY_S 60

KIT_BACKEND_INLINE_SAFE;
KIT_BACKEND_HOST_MEMORY;

struct pair {
        const char *output; /* borrowed: the configuration */
        const char *input;  /* borrowed: the configuration */
};

struct identity_model {
        struct kit_model           kit;
        struct pair               *pairs; /* owned */
        uint32_t                   n_pairs;
        atomic_uint                n_instances; /* made so far */
        int64_t                    delay_ms;
        int64_t                    delay_multiplier;
        bool                       has_parameters;
        TRITONSERVER_MetricFamily *family;     /* owned; NULL without byte_size_metric */
        TRITONSERVER_Metric       *byte_count; /* owned; NULL without byte_size_metric */
};

struct instance {
        struct identity_model *model; /* borrowed: outlives its instances */
        struct timespec        delay;
        bool                   has_delay;
};

/* ---- models --------------------------------------------------------------------------------- */

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
        if (creation_delay > MAX_CREATION_DELAY_S)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "parameter 'creation_delay_sec' of model '%s' is %lld, at most %d "
                                 "is supported",
                                 kit->name, (long long)creation_delay, MAX_CREATION_DELAY_S);
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

static void identity_model_free(struct identity_model *model) {
        if (model->byte_count != NULL)
                kit_error_log(TRITONSERVER_MetricDelete(model->byte_count), "identity");
        if (model->family != NULL)
                kit_error_log(TRITONSERVER_MetricFamilyDelete(model->family), "identity");
        free(model->pairs);
        kit_model_close(&model->kit);
        free(model);
}

static TRITONSERVER_Error *identity_model_new(TRITONBACKEND_Model    *triton,
                                              struct identity_model **ret) {
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

/* ---- entry points --------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("identity");
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)backend;
        KIT_TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct identity_model *model;

        KIT_TRY(identity_model_new(triton, &model));
        return TRITONBACKEND_ModelSetState(triton, model);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *model;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &model));
        if (model != NULL)
                identity_model_free(model);
        return NULL;
}

static void set_delay(struct instance *instance, unsigned number) {
        const struct identity_model *model = instance->model;
        int64_t                      factor = model->delay_multiplier * (int64_t)number;
        int64_t                      ms = model->delay_ms;

        if (factor > 1 && __builtin_mul_overflow(ms, factor, &ms))
                ms = INT32_MAX;
        instance->has_delay = ms > 0;
        if (ms > 0)
                instance->delay =
                        (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        struct instance     *instance;
        TRITONBACKEND_Model *model;
        void                *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceModel(triton, &model));
        KIT_TRY(TRITONBACKEND_ModelState(model, &state));
        instance = kit_alloc_array(1, sizeof(*instance));
        if (instance == NULL)
                return kit_error_no_memory(sizeof(*instance), "an instance");
        instance->model = state;
        set_delay(instance, atomic_fetch_add(&instance->model->n_instances, 1));
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        free(instance);
        return NULL;
}

static const char *find_input(const struct identity_model *model, const char *output) {
        for (uint32_t i = 0; i < model->n_pairs; i++)
                if (strcmp(model->pairs[i].output, output) == 0)
                        return model->pairs[i].input;
        return NULL;
}

static TRITONSERVER_Error *repeat_input(const struct kit_slot *slot, const char *output_name,
                                        const struct kit_input *input) {
        struct kit_output output = {
                .name = output_name,
                .type = input->type,
                .shape = input->shape,
                .n_dims = input->n_dims,
        };
        void *out;

        KIT_TRY(kit_output_new(slot->response, &output, input->n_bytes, &out));
        return kit_input_copy(input, out);
}

/* The batch rows of a request, which the first dimension of each of its inputs has. */
static TRITONSERVER_Error *request_rows(const struct identity_model *model,
                                        TRITONBACKEND_Request *request, int64_t *ret) {
        TRITONBACKEND_Input *input;
        const int64_t       *shape;
        uint32_t             n_inputs, n_dims;

        *ret = 1;
        KIT_TRY(TRITONBACKEND_RequestInputCount(request, &n_inputs));
        if (model->kit.max_batch_size == 0 || n_inputs == 0)
                return NULL;
        KIT_TRY(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
        KIT_TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &n_dims, NULL, NULL));
        if (n_dims > 0)
                *ret = shape[0];
        return NULL;
}

/* The output of an optional input that the request leaves out. */
static TRITONSERVER_Error *put_zeros(const struct identity_model *model,
                                     const struct kit_slot *slot, const char *name) {
        const struct kit_tensor *tensor = kit_model_find_output(&model->kit, name);
        int64_t                  shape[KIT_MAX_DIMS];
        uint32_t                 n_dims = 0;
        /* An empty string is the four bytes of its length. */
        size_t n_bytes = tensor->type == TRITONSERVER_TYPE_BYTES
                                 ? sizeof(uint32_t)
                                 : TRITONSERVER_DataTypeByteSize(tensor->type);
        void  *out;

        if (tensor->n_dims >= KIT_MAX_DIMS)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "output '%s' has more than %d dimensions", name, KIT_MAX_DIMS - 1);
        if (model->kit.max_batch_size > 0)
                KIT_TRY(request_rows(model, slot->request, &shape[n_dims++]));
        for (uint32_t i = 0; i < tensor->n_dims; i++)
                shape[n_dims++] = tensor->dims[i] < 0 ? 1 : tensor->dims[i];
        for (uint32_t i = 0; i < n_dims; i++)
                if (__builtin_mul_overflow(n_bytes, (size_t)shape[i], &n_bytes))
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "output '%s' is too large",
                                         name);
        KIT_TRY(kit_output_new(slot->response,
                               &(struct kit_output){ .name = name,
                                                     .type = tensor->type,
                                                     .shape = shape,
                                                     .n_dims = n_dims },
                               n_bytes, &out));
        if (n_bytes > 0)
                memset(out, 0, n_bytes);
        return NULL;
}

static TRITONSERVER_Error *add_parameters(TRITONBACKEND_Response *response) {
        KIT_TRY(TRITONBACKEND_ResponseSetStringParameter(response, "param0",
                                                         "an example string parameter"));
        KIT_TRY(TRITONBACKEND_ResponseSetIntParameter(response, "param1", 42));
        return TRITONBACKEND_ResponseSetBoolParameter(response, "param2", false);
}

static TRITONSERVER_Error *count_bytes(const struct identity_model *model,
                                       TRITONBACKEND_Request       *request) {
        uint64_t n_all = 0, n_bytes;
        uint32_t n_inputs;

        KIT_TRY(TRITONBACKEND_RequestInputCount(request, &n_inputs));
        for (uint32_t i = 0; i < n_inputs; i++) {
                TRITONBACKEND_Input *input;

                KIT_TRY(TRITONBACKEND_RequestInputByIndex(request, i, &input));
                KIT_TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &n_bytes,
                                                      NULL));
                n_all += n_bytes;
        }
        return TRITONSERVER_MetricIncrement(model->byte_count, (double)n_all);
}

static TRITONSERVER_Error *fill_response(const struct identity_model *model,
                                         struct kit_slot             *slot) {
        uint32_t n_outputs;

        KIT_TRY(TRITONBACKEND_RequestOutputCount(slot->request, &n_outputs));
        for (uint32_t i = 0; i < n_outputs; i++) {
                const char      *output, *input_name;
                struct kit_input input;

                KIT_TRY(TRITONBACKEND_RequestOutputName(slot->request, i, &output));
                input_name = find_input(model, output);
                if (input_name == NULL)
                        continue;
                if (!kit_input_find(slot->request, input_name, &input)) {
                        KIT_TRY(put_zeros(model, slot, output));
                        continue;
                }
                KIT_TRY(repeat_input(slot, output, &input));
                if (model->kit.max_batch_size > 0 && input.n_dims > 0)
                        slot->rows = input.shape[0];
        }
        if (model->has_parameters)
                KIT_TRY(add_parameters(slot->response));
        return model->byte_count != NULL ? count_bytes(model, slot->request) : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        struct kit_batch batch;
        struct instance *instance;
        struct kit_slot *slot;
        void            *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        KIT_TRY(kit_batch_open(&batch, triton, requests, n_requests));
        instance = state;
        if (instance->has_delay)
                (void)nanosleep(&instance->delay, NULL);
        for (slot = kit_batch_live(&batch, batch.slots); slot != NULL;
             slot = kit_batch_live(&batch, slot + 1)) {
                TRITONSERVER_Error *err = fill_response(instance->model, slot);

                batch.n_rows += slot->rows - 1;
                if (err != NULL)
                        kit_batch_fail(&batch, slot, err);
        }
        kit_batch_close(&batch);
        return NULL;
}
