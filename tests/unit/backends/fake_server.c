/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_server.h"

#include "codec/data_types.h"
#include "kit/stats.h"
#include "triton/core/neso.h"

#include <stdlib.h>
#include <string.h>

struct fake_faults fake;

struct TRITONSERVER_Error {
        TRITONSERVER_Error_Code code;
        char                   *message;
};

struct TRITONSERVER_Message {
        char *text;
};

static TRITONSERVER_Error *refuse(TRITONSERVER_Error_Code code, const char *message) {
        return TRITONSERVER_ErrorNew(code, message);
}

/* ---- errors, messages, log, types ---- */

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message) {
        TRITONSERVER_Error *err = malloc(sizeof(*err));

        if (err == NULL)
                abort();
        err->code = code;
        err->message = strdup(message);
        fake.n_errors_alive++;
        return err;
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *err) {
        free(err->message);
        free(err);
        fake.n_errors_alive--;
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error *err) {
        return err->code;
}

const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *err) {
        return err->message;
}

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level) {
        return level == TRITONSERVER_LOG_ERROR;
}

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename,
                                            const int line, const char *message) {
        (void)level;
        (void)filename;
        (void)line;
        (void)message;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message,
                                                              const char *base, size_t n) {
        *message = malloc(sizeof(**message));
        if (*message == NULL)
                abort();
        (*message)->text = strndup(base, n);
        fake.n_messages_alive++;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message) {
        free(message->text);
        free(message);
        fake.n_messages_alive--;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message,
                                                        const char **base, size_t *n) {
        *base = message->text;
        *n = strlen(message->text);
        return NULL;
}

/* clang-format off */
#define SIZE_CASE(name, value, config_name, bytes, json) case TRITONSERVER_TYPE_##name: return bytes;
#define NAME_CASE(name, ...) case TRITONSERVER_TYPE_##name: return #name;
/* clang-format on */

uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType type) {
        switch (type) {
                DATA_TYPES(SIZE_CASE)
        default: return 0;
        }
}

const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType type) {
        switch (type) {
                DATA_TYPES(NAME_CASE)
        default: return "<invalid>";
        }
}

/* ---- metrics: accepted, not kept ---- */

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char                      *name,
                                                  const TRITONSERVER_ParameterType type,
                                                  const void                      *value) {
        (void)type;
        (void)value;
        return (TRITONSERVER_Parameter *)(void *)strdup(name);
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter) {
        free(parameter);
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily   **family,
                                                 const TRITONSERVER_MetricKind kind,
                                                 const char *name, const char *description) {
        (void)kind;
        (void)description;
        *family = (TRITONSERVER_MetricFamily *)(void *)strdup(name);
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family) {
        free(family);
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric          **metric,
                                           TRITONSERVER_MetricFamily     *family,
                                           const TRITONSERVER_Parameter **labels,
                                           const uint64_t                 n_labels) {
        double *value = calloc(1, sizeof(double));

        (void)family;
        (void)labels;
        (void)n_labels;
        *metric = (TRITONSERVER_Metric *)(void *)value;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric) {
        free(metric);
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double by) {
        *(double *)(void *)metric += by;
        return NULL;
}

/* ---- backend, model, instance ---- */

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor) {
        *major = TRITONBACKEND_API_VERSION_MAJOR;
        *minor = TRITONBACKEND_API_VERSION_MINOR;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *backend,
                                                TRITONSERVER_Message **config) {
        static TRITONSERVER_Message message; /* not the caller's: MessageDelete would crash */

        message.text = (char *)backend->config;
        *config = &message;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendState(TRITONBACKEND_Backend *backend, void **state) {
        *state = backend->state;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend *backend, void *state) {
        backend->state = state;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
        TRITONBACKEND_BackendAttribute *attributes, bool enabled) {
        (void)attributes;
        (void)enabled;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name) {
        *name = model->name;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model, uint64_t *version) {
        (void)model;
        *version = 1;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model        *model,
                                                  TRITONBACKEND_ArtifactType *type,
                                                  const char                **location) {
        *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
        *location = model->path;
        return NULL;
}

TRITONSERVER_Error *NESO_ModelParameterIsSent(TRITONBACKEND_Model *model, const char *name,
                                              bool *is_sent) {
        *is_sent = model->sent != NULL && strcmp(model->sent, name) == 0;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, const uint32_t version,
                                              TRITONSERVER_Message **config) {
        (void)version;
        return TRITONSERVER_MessageNewFromSerializedJson(config, model->config,
                                                         strlen(model->config));
}

TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *model,
                                                          bool                *is_completed) {
        *is_completed = model->is_completed;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, const uint32_t version,
                                                 TRITONSERVER_Message *config) {
        (void)version;
        free(model->config);
        model->config = strdup(config->text);
        model->was_set = true;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBackend(TRITONBACKEND_Model    *model,
                                               TRITONBACKEND_Backend **backend) {
        *backend = model->backend;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model, void **state) {
        *state = model->state;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model, void *state) {
        model->state = state;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *instance,
                                                    const char                 **name) {
        *name = instance->name;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance    *instance,
                                                    TRITONSERVER_InstanceGroupKind *kind) {
        *kind = instance->kind;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *instance,
                                                        int32_t                     *device_id) {
        (void)instance;
        *device_id = 0;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Model        **model) {
        *model = instance->model;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *instance,
                                                     void                       **state) {
        *state = instance->state;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *instance,
                                                        void                        *state) {
        instance->state = state;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
        TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
        const uint64_t exec_start, const uint64_t compute_start, const uint64_t compute_end,
        const uint64_t exec_end) {
        (void)instance;
        if (request->is_released || request->was_reported)
                abort();
        request->was_reported = true;
        request->was_success = success;
        request->stamps[0] = exec_start;
        request->stamps[1] = compute_start;
        request->stamps[2] = compute_end;
        request->stamps[3] = exec_end;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
        TRITONBACKEND_ModelInstance *instance, const uint64_t rows, const uint64_t exec_start,
        const uint64_t compute_start, const uint64_t compute_end, const uint64_t exec_end) {
        if (exec_start > compute_start || compute_start > compute_end || compute_end > exec_end)
                abort();
        instance->n_batches++;
        instance->batch_rows += rows;
        return NULL;
}

/* ---- requests ---- */

TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *n) {
        *n = request->n_inputs;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request,
                                                      const uint32_t         i,
                                                      TRITONBACKEND_Input  **input) {
        if (i >= request->n_inputs)
                return refuse(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index");
        *input = &request->inputs[i];
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name,
                                               TRITONBACKEND_Input **input) {
        if (request->is_released)
                abort();
        for (uint32_t i = 0; i < request->n_inputs; i++) {
                if (strcmp(request->inputs[i].name, name) == 0) {
                        *input = &request->inputs[i];
                        return NULL;
                }
        }
        return refuse(TRITONSERVER_ERROR_INVALID_ARG, "unknown request input name");
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *type,
                                                  const int64_t **shape, uint32_t *n_dims,
                                                  uint64_t *n_bytes, uint32_t *n_buffers) {
        if (name != NULL)
                *name = input->name;
        if (type != NULL)
                *type = input->type;
        if (shape != NULL)
                *shape = input->shape;
        if (n_dims != NULL)
                *n_dims = input->n_dims;
        if (n_buffers != NULL)
                *n_buffers = input->n_pieces;
        if (n_bytes != NULL) {
                *n_bytes = 0;
                for (uint32_t i = 0; i < input->n_pieces; i++)
                        *n_bytes += input->piece_bytes[i];
        }
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, const uint32_t i,
                                              const void **buffer, uint64_t *n_bytes,
                                              TRITONSERVER_MemoryType *memory_type,
                                              int64_t                 *memory_id) {
        if (i >= input->n_pieces)
                return refuse(TRITONSERVER_ERROR_INVALID_ARG, "no such buffer");
        *buffer = input->pieces[i];
        *n_bytes = input->piece_bytes[i];
        *memory_type = input->memory_type;
        *memory_id = input->memory_id;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request, uint32_t *n) {
        *n = request->n_outputs;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request,
                                                    const uint32_t i, const char **name) {
        *name = request->outputs[i];
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request,
                                                        uint32_t              *n) {
        *n = request->n_parameters;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, const uint32_t i,
                                                   const char                **key,
                                                   TRITONSERVER_ParameterType *type,
                                                   const void                **value) {
        const struct fake_parameter *parameter = &request->parameters[i];

        *key = parameter->key;
        *type = parameter->type;
        *value = parameter->text != NULL ? (const void *)parameter->text : &parameter->number;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request,
                                                     bool                  *is_cancelled) {
        *is_cancelled = request->is_cancelled;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request        *request,
                                               TRITONSERVER_InferenceTrace **trace) {
        (void)request;
        *trace = NULL; /* nothing is traced here */
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceReportActivity(TRITONSERVER_InferenceTrace *trace,
                                                              uint64_t at_ns, const char *name) {
        (void)trace, (void)at_ns, (void)name;
        abort();
}

TRITONSERVER_Error *TRITONBACKEND_RequestFlags(TRITONBACKEND_Request *request, uint32_t *flags) {
        (void)request;
        *flags = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *request,
                                                       uint64_t              *id) {
        (void)request;
        *id = 77;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *request,
                                                             const char           **id) {
        (void)request;
        *id = "";
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags) {
        if (request->is_released || !request->was_reported ||
            flags != TRITONSERVER_REQUEST_RELEASE_ALL)
                abort();
        request->is_released = true;
        return NULL;
}

/* ---- responses: a factory is its request ---- */

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request   *request) {
        if (fake.fail_response_new)
                return refuse(TRITONSERVER_ERROR_INTERNAL, "no response");
        *response = &request->responses[request->n_responses++];
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory,
                                                     TRITONBACKEND_Request          *request) {
        *factory = (TRITONBACKEND_ResponseFactory *)(void *)request;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory) {
        (void)factory;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory,
                                                             bool *is_cancelled) {
        *is_cancelled = ((TRITONBACKEND_Request *)(void *)factory)->is_cancelled;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response       **response,
                                                         TRITONBACKEND_ResponseFactory *factory) {
        return TRITONBACKEND_ResponseNew(response, (TRITONBACKEND_Request *)(void *)factory);
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory,
                                                           const uint32_t                 flags) {
        TRITONBACKEND_Request *request = (TRITONBACKEND_Request *)(void *)factory;

        /* Needs no memory. */
        return TRITONBACKEND_ResponseSend(&request->responses[request->n_responses++], flags, NULL);
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetStringParameter(TRITONBACKEND_Response *response,
                                                             const char *name, const char *value) {
        response->parameters[response->n_parameters++] = (struct fake_parameter){
                .key = name, .type = TRITONSERVER_PARAMETER_STRING, .text = value
        };
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *response,
                                                          const char *name, const int64_t value) {
        response->parameters[response->n_parameters++] = (struct fake_parameter){
                .key = name, .type = TRITONSERVER_PARAMETER_INT, .number = value
        };
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetBoolParameter(TRITONBACKEND_Response *response,
                                                           const char *name, const bool value) {
        response->parameters[response->n_parameters++] = (struct fake_parameter){
                .key = name, .type = TRITONSERVER_PARAMETER_BOOL, .number = value
        };
        return NULL;
}

static void set_output(struct TRITONBACKEND_Output *output, const char *name,
                       TRITONSERVER_DataType type, const int64_t *shape, uint32_t n_dims) {
        if (n_dims > FAKE_MAX_DIMS)
                abort();
        output->name = strdup(name);
        output->type = type;
        output->n_dims = n_dims;
        memcpy(output->shape, shape, n_dims * sizeof(*shape));
}

static void allocate(struct TRITONBACKEND_Output *output, uint64_t n_bytes) {
        output->n_bytes = n_bytes;
        if (fake.output_at != NULL) {
                output->bytes = fake.output_at;
                return;
        }
        output->allocated = malloc(n_bytes + fake.output_offset + 1);
        if (output->allocated == NULL)
                abort();
        output->bytes = (char *)output->allocated + fake.output_offset;
}

/* The bytes as the backend gets them: where the test says. */
static void give_place(void *bytes, void **buffer, TRITONSERVER_MemoryType *type, int64_t *id) {
        fake.preferred_type = *type;
        fake.preferred_id = *id;
        *type = fake.output_type;
        *id = fake.output_id;
        *buffer = *type == TRITONSERVER_MEMORY_GPU ? FAKE_DEVICE_ADDRESS(bytes) : bytes;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 const TRITONSERVER_DataType type,
                                                 const int64_t *shape, const uint32_t n_dims) {
        if (response->is_sent || response->n_outputs == FAKE_MAX_TENSORS)
                abort();
        *output = &response->outputs[response->n_outputs++];
        set_output(*output, name, type, shape, n_dims);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               const uint64_t           n_bytes,
                                               TRITONSERVER_MemoryType *memory_type,
                                               int64_t                 *memory_id) {
        if (fake.fail_output != NULL && strcmp(fake.fail_output, output->name) == 0)
                return refuse(TRITONSERVER_ERROR_UNAVAILABLE, "no memory for the output");
        if (output->allocated != NULL)
                return refuse(TRITONSERVER_ERROR_ALREADY_EXISTS, "allocated already");
        allocate(output, n_bytes);
        give_place(output->bytes, buffer, memory_type, memory_id);
        return NULL;
}

TRITONSERVER_Error *NESO_ModelInstanceExecutionStart(TRITONBACKEND_ModelInstance *instance,
                                                     uint64_t                    *start_ns) {
        (void)instance;
        *start_ns = fake.start_ns != 0 ? fake.start_ns : kit_clock_ns();
        return NULL;
}

TRITONSERVER_Error *NESO_ThreadBeginResponses(void) {
        if (fake.is_in_row)
                abort();
        fake.is_in_row = true;
        return NULL;
}

TRITONSERVER_Error *NESO_ThreadEndResponses(void) {
        if (!fake.is_in_row)
                abort();
        fake.is_in_row = false;
        fake.n_rows++;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response,
                                               const uint32_t flags, TRITONSERVER_Error *err) {
        if (response->is_sent)
                abort();
        if (fake.is_in_row)
                fake.n_sent_in_row++;
        response->is_sent = true;
        response->is_final = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL;
        response->has_error = err != NULL;
        if (err != NULL) {
                response->code = err->code;
                response->message = strdup(err->message);
        }
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_StateNew(TRITONBACKEND_State  **state,
                                           TRITONBACKEND_Request *request, const char *name,
                                           const TRITONSERVER_DataType type, const int64_t *shape,
                                           const uint32_t n_dims) {
        *state = &request->states[request->n_states++];
        (*state)->made_ns = kit_clock_ns();
        set_output(&(*state)->value, name, type, shape, n_dims);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer,
                                              const uint64_t           n_bytes,
                                              TRITONSERVER_MemoryType *memory_type,
                                              int64_t                 *memory_id) {
        allocate(&state->value, n_bytes);
        give_place(state->value.bytes, buffer, memory_type, memory_id);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state) {
        state->is_committed = true;
        return NULL;
}

/* ---- memory of GPUs ---- */

TRITONSERVER_Error *TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend        *backend,
                                                       TRITONBACKEND_MemoryManager **manager) {
        *manager = (TRITONBACKEND_MemoryManager *)backend;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager  *manager,
                                                        void                        **buffer,
                                                        const TRITONSERVER_MemoryType memory_type,
                                                        const int64_t                 memory_id,
                                                        const uint64_t                n_bytes) {
        void *memory = malloc(n_bytes);

        (void)manager;
        if (memory == NULL || memory_type != TRITONSERVER_MEMORY_GPU || memory_id != 0)
                abort();
        *buffer = FAKE_DEVICE_ADDRESS(memory);
        fake.n_device_alive++;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager  *manager,
                                                    void                         *buffer,
                                                    const TRITONSERVER_MemoryType memory_type,
                                                    const int64_t                 memory_id) {
        (void)manager;
        if (memory_type != TRITONSERVER_MEMORY_GPU || memory_id != 0)
                abort();
        free(FAKE_DEVICE_BYTES(buffer));
        fake.n_device_alive--;
        return NULL;
}

TRITONSERVER_Error *NESO_MemoryManagerCopy(TRITONBACKEND_MemoryManager  *manager,
                                           const struct NESO_MemoryCopy *copies, uint32_t n) {
        (void)manager;
        fake.n_copy_calls++;
        for (uint32_t i = 0; i < n; i++)
                if (fake.fail_copy_from != 0 && (uintptr_t)copies[i].from == fake.fail_copy_from)
                        return refuse(TRITONSERVER_ERROR_UNAVAILABLE, "the copy failed");
        for (uint32_t i = 0; i < n; i++) {
                const struct NESO_MemoryCopy *c = &copies[i];

                memcpy(c->to_type == TRITONSERVER_MEMORY_GPU ? FAKE_DEVICE_BYTES(c->to) : c->to,
                       c->from_type == TRITONSERVER_MEMORY_GPU ? FAKE_DEVICE_BYTES(c->from)
                                                               : c->from,
                       c->byte_size);
        }
        fake.n_copies += n;
        return NULL;
}

/* ---- for tests ---- */

void fake_model_init(struct TRITONBACKEND_Model *model, const char *name, const char *config) {
        static struct TRITONBACKEND_Backend backend = { .config = "{\"cmdline\":{}}" };

        *model = (struct TRITONBACKEND_Model){ .backend = &backend,
                                               .name = name,
                                               .path = "/nowhere" };
        model->config = strdup(config);
}

void fake_model_done(struct TRITONBACKEND_Model *model) {
        free(model->config);
        model->config = NULL;
}

struct TRITONBACKEND_Input *fake_add_input(struct TRITONBACKEND_Request *request,
                                           struct TRITONBACKEND_Input input, const void *bytes,
                                           size_t n_bytes) {
        struct TRITONBACKEND_Input *added = &request->inputs[request->n_inputs++];

        *added = input;
        added->pieces[0] = bytes;
        added->piece_bytes[0] = n_bytes;
        added->n_pieces = 1;
        return added;
}

static void free_output(struct TRITONBACKEND_Output *output) {
        free((void *)(uintptr_t)output->name);
        free(output->allocated);
        *output = (struct TRITONBACKEND_Output){ 0 };
}

void fake_reset(struct TRITONBACKEND_Request *request) {
        for (uint32_t r = 0; r < request->n_responses; r++) {
                struct TRITONBACKEND_Response *response = &request->responses[r];

                for (uint32_t i = 0; i < response->n_outputs; i++)
                        free_output(&response->outputs[i]);
                free(response->message);
                *response = (struct TRITONBACKEND_Response){ 0 };
        }
        for (uint32_t i = 0; i < request->n_states; i++) {
                free_output(&request->states[i].value);
                request->states[i].is_committed = false;
        }
        request->n_responses = request->n_states = 0;
        request->is_released = request->was_reported = request->was_success = false;
}

const struct TRITONBACKEND_Output *fake_output(const struct TRITONBACKEND_Request *request,
                                               const char                         *name) {
        const struct TRITONBACKEND_Response *response = &request->responses[0];

        for (uint32_t i = 0; request->n_responses > 0 && i < response->n_outputs; i++)
                if (strcmp(response->outputs[i].name, name) == 0)
                        return &response->outputs[i];
        return NULL;
}
