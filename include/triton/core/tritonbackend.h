/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between the server and a backend: a shared library that runs models.
 *
 * The server finds libtriton_<name>.so, loads it, and calls the entry points at the end of this
 * file that it defines; only TRITONBACKEND_ModelInstanceExecute() is required. The backend
 * calls back the functions above them. Three objects follow one another's lives: a *backend*
 * (the loaded library), its *models* (one per version that uses it) and their *instances* (each
 * executes one batch at a time). With each of them a backend can keep a pointer of its own, its
 * state.
 *
 * The way of a batch: the server calls TRITONBACKEND_ModelInstanceExecute() with some requests.
 * For each the backend reads the inputs (TRITONBACKEND_RequestInput(),
 * TRITONBACKEND_InputProperties(), TRITONBACKEND_InputBuffer()), makes a response
 * (TRITONBACKEND_ResponseNew()), adds outputs and gets memory for them
 * (TRITONBACKEND_ResponseOutput(), TRITONBACKEND_OutputBuffer()), sends it
 * (TRITONBACKEND_ResponseSend()), reports statistics and gives the request back
 * (TRITONBACKEND_RequestRelease()).
 *
 * **Ownership.** As in tritonserver.h: errors returned to the backend are the backend's, errors
 * it returns are the server's. Names, shapes and buffers belong to the object they came from.
 *
 * **Threads.** An instance is executed by one thread at a time, different instances by
 * different threads at once. TRITONBACKEND_Initialize() and TRITONBACKEND_Finalize() run once per
 * library, beside other libraries' and with nothing else of their own; models may be initialised
 * side by side; the instances of a model one after another, unless the backend asked for
 * TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(). None of these may load or
 * unload models.
 *
 * Time stamps are nanoseconds of CLOCK_MONOTONIC (C++: std::chrono::steady_clock).
 */
#pragma once

#include "triton/core/tritonserver.h"

/* On what the server defines. */
#if defined(__GNUC__)
#define TRITONBACKEND_DECLSPEC __attribute__((visibility("default")))
#else
#define TRITONBACKEND_DECLSPEC
#endif

/* On what a plug-in defines and the server looks up in it. */
#define TRITONBACKEND_ISPEC TRITONBACKEND_DECLSPEC

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A backend compares what it was built with with
 * TRITONBACKEND_ApiVersion(): the major must be the same, the server's minor not smaller. */
#define TRITONBACKEND_API_VERSION_MAJOR 1
#define TRITONBACKEND_API_VERSION_MINOR 19

/* Objects of the server, known to a backend by pointer only. TRITONBACKEND_Batcher is the
 * backend's own: whatever its batching functions make of it. */
typedef struct TRITONBACKEND_MemoryManager   TRITONBACKEND_MemoryManager;
typedef struct TRITONBACKEND_Input           TRITONBACKEND_Input;
typedef struct TRITONBACKEND_Output          TRITONBACKEND_Output;
typedef struct TRITONBACKEND_State           TRITONBACKEND_State;
typedef struct TRITONBACKEND_Request         TRITONBACKEND_Request;
typedef struct TRITONBACKEND_ResponseFactory TRITONBACKEND_ResponseFactory;
typedef struct TRITONBACKEND_Response        TRITONBACKEND_Response;
typedef struct TRITONBACKEND_Backend         TRITONBACKEND_Backend;
typedef struct TRITONBACKEND_Model           TRITONBACKEND_Model;
typedef struct TRITONBACKEND_ModelInstance   TRITONBACKEND_ModelInstance;
typedef struct TRITONBACKEND_ModelInstanceResponseStatistics
                                              TRITONBACKEND_ModelInstanceResponseStatistics;
typedef struct TRITONBACKEND_BackendAttribute TRITONBACKEND_BackendAttribute;
typedef struct TRITONBACKEND_Batcher          TRITONBACKEND_Batcher;

/* How the files of a model or of a backend can be reached. */
typedef enum TRITONBACKEND_ArtifactType_enum {
        TRITONBACKEND_ARTIFACT_FILESYSTEM = 0, /* a directory */
} TRITONBACKEND_ArtifactType;

/* How the server calls TRITONBACKEND_ModelInstanceExecute(). */
typedef enum TRITONBACKEND_ExecutionPolicy_enum {
        TRITONBACKEND_EXECUTION_BLOCKING = 0, /* it returns when the instance can take more */
        TRITONBACKEND_EXECUTION_DEVICE_BLOCKING = 1, /* instances of a GPU share a thread */
} TRITONBACKEND_ExecutionPolicy;

/* ---- Version --------------------------------------------------------------------------------- */

/* Gives the version of this interface that the server implements. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major,
                                                                    uint32_t *minor);

/* ---- Memory ---------------------------------------------------------------------------------- */
/* The server's allocator for a backend's scratch memory; pinned memory comes from the server's
 * pool. */

/* `byte_size` bytes of that kind of memory on that device. UNAVAILABLE when there are not as
 * many left, UNSUPPORTED for a kind of memory that this server does not have: the backend may
 * then ask for another kind. INVALID_ARG for a device that the server does not use. When the
 * pool of pinned memory is full, ordinary memory comes in its place. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_MemoryManagerAllocate(
        TRITONBACKEND_MemoryManager *manager, void **buffer,
        const TRITONSERVER_MemoryType memory_type, const int64_t memory_type_id,
        const uint64_t byte_size);

/* Gives them back; memory type and id as allocated. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_MemoryManagerFree(
        TRITONBACKEND_MemoryManager *manager, void *buffer,
        const TRITONSERVER_MemoryType memory_type, const int64_t memory_type_id);

/* ---- Inputs of a request --------------------------------------------------------------------- */
/* Valid until the request is released. Any out-parameter of the two ...Properties functions may
 * be NULL when it is not wanted. */

/* An input's name, type, shape (`*dims_count` dimensions, the batch first where the model takes
 * batches), size in bytes over all its buffers, and the number of buffers: the data may lie in
 * pieces. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InputProperties(
        TRITONBACKEND_Input *input, const char **name, TRITONSERVER_DataType *datatype,
        const int64_t **shape, uint32_t *dims_count, uint64_t *byte_size, uint32_t *buffer_count);

/* The same, for the data that was given for a host policy; the general data where there is none
 * for it or `host_policy_name` is NULL. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InputPropertiesForHostPolicy(
        TRITONBACKEND_Input *input, const char *host_policy_name, const char **name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint32_t *dims_count,
        uint64_t *byte_size, uint32_t *buffer_count);

/* Piece `index` of an input's data. `*memory_type` and `*memory_type_id` are on entry what the
 * backend would like and on return where the piece lies: where the client gave it, or, when a model has
 * instances on the CPU, always in memory of the host. INVALID_ARG beyond the last piece, with `*buffer`
 * NULL. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InputBuffer(
        TRITONBACKEND_Input *input, const uint32_t index, const void **buffer,
        uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/* The same, for the data that was given for a host policy; the general data where there is none
 * for it. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(
        TRITONBACKEND_Input *input, const char *host_policy_name, const uint32_t index,
        const void **buffer, uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
        int64_t *memory_type_id);

/* The same, with everything that is known about the buffer; the attributes belong to the input. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InputBufferAttributes(
        TRITONBACKEND_Input *input, const uint32_t index, const void **buffer,
        TRITONSERVER_BufferAttributes **buffer_attributes);

/* ---- Outputs of a response ------------------------------------------------------------------- */

/* Memory for an output's data, `buffer_byte_size` bytes. `*memory_type` and `*memory_type_id`
 * are on entry what the backend would like and on return what it got, which may differ: for a model
 * that has instances on the CPU it is always memory of the host. The backend writes the data there
 * before it sends the response; the memory belongs to the response. ALREADY_EXISTS when asked twice
 * for one output. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(
        TRITONBACKEND_Output *output, void **buffer, const uint64_t buffer_byte_size,
        TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/* What is known about the buffer that TRITONBACKEND_OutputBuffer() gave; belongs to the output. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_OutputBufferAttributes(
        TRITONBACKEND_Output *output, TRITONSERVER_BufferAttributes **buffer_attributes);

/* ---- Requests -------------------------------------------------------------------------------- */
/* The requests of one TRITONBACKEND_ModelInstanceExecute() call. They belong to the backend
 * from the moment it returns success, until TRITONBACKEND_RequestRelease(). */

/* The client's id, "" when it gave none. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request,
                                                                   const char           **id);

/* Whether the client has withdrawn the request. A backend may then answer with a CANCELLED
 * error instead of computing. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(
        TRITONBACKEND_Request *request, bool *is_cancelled);

/* The same, after the request was released. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryIsCancelled(
        TRITONBACKEND_ResponseFactory *factory, bool *is_cancelled);

/* The number of the sequence, 0 for none. INVALID_ARG when it is a text. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationId(
        TRITONBACKEND_Request *request, uint64_t *id);

/* The client's timeout in microseconds, 0 for none. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
        TRITONBACKEND_Request *request, uint64_t *timeout);

/* The text of the sequence, "" for none. INVALID_ARG when it is a number. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationIdString(
        TRITONBACKEND_Request *request, const char **id);

/* A combination of TRITONSERVER_RequestFlag. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestFlags(
        TRITONBACKEND_Request *request, uint32_t *flags);

/* How many parameters the client gave. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(
        TRITONBACKEND_Request *request, uint32_t *count);

/* One of them, counted from 0. `*vvalue` points to the value as `*type` says, see
 * TRITONSERVER_ParameterType. INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestParameter(
        TRITONBACKEND_Request *request, const uint32_t index, const char **key,
        TRITONSERVER_ParameterType *type, const void **vvalue);

/* How many inputs there are, those included that a sequence scheduler adds. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(
        TRITONBACKEND_Request *request, uint32_t *count);

/* The name of one of them, counted from 0. INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestInputName(
        TRITONBACKEND_Request *request, const uint32_t index, const char **input_name);

/* The input of that name. INVALID_ARG when there is none. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestInput(
        TRITONBACKEND_Request *request, const char *name, TRITONBACKEND_Input **input);

/* The input with that number, counted from 0 in the order of TRITONBACKEND_RequestInputName().
 * INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(
        TRITONBACKEND_Request *request, const uint32_t index, TRITONBACKEND_Input **input);

/* How many outputs the client wants. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(
        TRITONBACKEND_Request *request, uint32_t *count);

/* The name of one of them, counted from 0. INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(
        TRITONBACKEND_Request *request, const uint32_t index, const char **output_name);

/* Where the buffer of an output will lie, before there is one: `*memory_type` and
 * `*memory_type_id` are the backend's wish on entry and the answer on return. `name` and
 * `byte_size` may be NULL when they are not known yet. UNAVAILABLE when whoever asked for the
 * inference cannot tell. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestOutputBufferProperties(
        TRITONBACKEND_Request *request, const char *name, size_t *byte_size,
        TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/* Gives a request back. With TRITONSERVER_REQUEST_RELEASE_ALL, neither the request nor its
 * inputs may be used any more; its responses may. With TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
 * it is run again: only for models with iterative sequences, otherwise INVALID_ARG and the
 * request stays the backend's. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestRelease(
        TRITONBACKEND_Request *request, uint32_t release_flags);

/* The trace of the request, or NULL when it is not traced. Belongs to the request. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestTrace(
        TRITONBACKEND_Request *request, TRITONSERVER_InferenceTrace **trace);

/* ---- Responses ------------------------------------------------------------------------------- */
/* One response per request, except with the decoupled transaction policy, where a factory makes
 * any number. Each request gets exactly one TRITONSERVER_RESPONSE_COMPLETE_FINAL. */

/* A maker of responses that may outlive the request. The backend ends it with
 * TRITONBACKEND_ResponseFactoryDelete(). */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(
        TRITONBACKEND_ResponseFactory **factory, TRITONBACKEND_Request *request);

/* Ends a factory; its responses stay. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(
        TRITONBACKEND_ResponseFactory *factory);

/* Sends flags without a response; TRITONSERVER_RESPONSE_COMPLETE_FINAL ends the request's
 * responses. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(
        TRITONBACKEND_ResponseFactory *factory, const uint32_t send_flags);

/* A response for a request that is not released yet. Ends with TRITONBACKEND_ResponseSend() or
 * TRITONBACKEND_ResponseDelete(). */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseNew(
        TRITONBACKEND_Response **response, TRITONBACKEND_Request *request);

/* A further response. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(
        TRITONBACKEND_Response **response, TRITONBACKEND_ResponseFactory *factory);

/* Ends a response that is not going to be sent. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(
        TRITONBACKEND_Response *response);

/* Attaches a named text to the response. Copied. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseSetStringParameter(
        TRITONBACKEND_Response *response, const char *name, const char *value);

/* Attaches a named whole number. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseSetIntParameter(
        TRITONBACKEND_Response *response, const char *name, const int64_t value);

/* Attaches a named truth value. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseSetBoolParameter(
        TRITONBACKEND_Response *response, const char *name, const bool value);

/* Attaches a named real number. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseSetDoubleParameter(
        TRITONBACKEND_Response *response, const char *name, const double value);

/* Adds an output with `dims_count` dimensions, the batch first where the model takes batches.
 * Only outputs that the request asks for should be added. Belongs to the response. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(
        TRITONBACKEND_Response *response, TRITONBACKEND_Output **output, const char *name,
        const TRITONSERVER_DataType datatype, const int64_t *shape, const uint32_t dims_count);

/* Sends a response. It is the server's afterwards, whatever is returned. `error`, if not NULL,
 * is the failure it reports; it stays the backend's, which deletes it. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ResponseSend(
        TRITONBACKEND_Response *response, const uint32_t send_flags, TRITONSERVER_Error *error);

/* Type and shape of an output that was added, by its name. NOT_FOUND when there is none. The
 * shape belongs to the response. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InferenceResponseOutputByName(
        TRITONBACKEND_Response *response, const char *name, TRITONSERVER_DataType *datatype,
        const int64_t **shape, uint64_t *dim_count);

/* Name, type and shape of an output that was added, counted from 0. INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InferenceResponseOutput(
        TRITONBACKEND_Response *response, const uint32_t index, const char **name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count);

/* ---- State of a sequence --------------------------------------------------------------------- */
/* For models whose configuration declares states: the server keeps, per sequence, what the
 * backend stores after one request, and hands it in as an input with the next. */

/* The state of that name which the request leaves for its successor. INVALID_ARG when the model
 * has no states, or none of that name. Belongs to the request. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_StateNew(
        TRITONBACKEND_State **state, TRITONBACKEND_Request *request, const char *name,
        const TRITONSERVER_DataType datatype, const int64_t *shape, const uint32_t dims_count);

/* Makes what was written the sequence's state. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state);

/* Memory for the new state, `buffer_byte_size` bytes; memory type and id are a wish on entry
 * and the answer on return. Belongs to the state. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_StateBuffer(
        TRITONBACKEND_State *state, void **buffer, const uint64_t buffer_byte_size,
        TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/* What is known about that memory; belongs to the state. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_StateBufferAttributes(
        TRITONBACKEND_State *state, TRITONSERVER_BufferAttributes **buffer_attributes);

/* ---- Backend --------------------------------------------------------------------------------- */

/* The backend's name. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendName(TRITONBACKEND_Backend *backend,
                                                                     const char           **name);

/* {"cmdline": {...}}: the settings given to the server for this backend, each value a text. The
 * message belongs to the backend. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendConfig(
        TRITONBACKEND_Backend *backend, TRITONSERVER_Message **backend_config);

/* How the server calls the backend; TRITONBACKEND_EXECUTION_BLOCKING unless it was changed. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendExecutionPolicy(
        TRITONBACKEND_Backend *backend, TRITONBACKEND_ExecutionPolicy *policy);

/* Changes it. In TRITONBACKEND_Initialize() only. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendSetExecutionPolicy(
        TRITONBACKEND_Backend *backend, TRITONBACKEND_ExecutionPolicy policy);

/* The directory of the backend's library. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendArtifacts(
        TRITONBACKEND_Backend *backend, TRITONBACKEND_ArtifactType *artifact_type,
        const char **location);

/* The server's allocator; lives as long as the backend. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendMemoryManager(
        TRITONBACKEND_Backend *backend, TRITONBACKEND_MemoryManager **manager);

/* The pointer set with TRITONBACKEND_BackendSetState(), or NULL. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendState(
        TRITONBACKEND_Backend *backend, void **state);

/* Keeps a pointer of the backend's own. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendSetState(
        TRITONBACKEND_Backend *backend, void *state);

/* In TRITONBACKEND_GetBackendAttribute(): where instances should run when a model's
 * configuration does not say; the first call is the first choice. `count` instances (0: the
 * server decides) of `kind`, on `id_count` devices. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        TRITONBACKEND_BackendAttribute      *backend_attributes,
        const TRITONSERVER_InstanceGroupKind kind, const uint64_t count, const uint64_t *device_ids,
        const uint64_t id_count);

/* In TRITONBACKEND_GetBackendAttribute(): whether the instances of a model may be initialised
 * at the same time. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
        TRITONBACKEND_BackendAttribute *backend_attributes, bool enabled);

/* ---- Model ----------------------------------------------------------------------------------- */

/* The model's name. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model,
                                                                   const char         **name);

/* The version's number. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model,
                                                                      uint64_t            *version);

/* The directory of the model, the parent of its versions' directories. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelRepository(
        TRITONBACKEND_Model *model, TRITONBACKEND_ArtifactType *artifact_type,
        const char **location);

/* The configuration as JSON, every field present, 64-bit numbers as numbers. `config_version`
 * must be 1. The message is the backend's. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelConfig(
        TRITONBACKEND_Model *model, const uint32_t config_version,
        TRITONSERVER_Message **model_config);

/* Whether the backend should fill in what the configuration lacks. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(
        TRITONBACKEND_Model *model, bool *auto_complete_config);

/* Replaces the configuration, in TRITONBACKEND_ModelInitialize() only; the message stays the
 * backend's. Name and platform cannot be changed. The server completes and checks the result. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(
        TRITONBACKEND_Model *model, const uint32_t config_version,
        TRITONSERVER_Message *model_config);

/* The server that runs the model, for inferences of the backend's own. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelServer(TRITONBACKEND_Model  *model,
                                                                     TRITONSERVER_Server **server);

/* The backend of the model. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelBackend(
        TRITONBACKEND_Model *model, TRITONBACKEND_Backend **backend);

/* The pointer set with TRITONBACKEND_ModelSetState(), or NULL. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model,
                                                                    void               **state);

/* Keeps a pointer of the backend's own. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model,
                                                                       void                *state);

/* Reports the memory that the model takes besides its instances, one entry per place; replaces the
 * model's report before. The attributes stay the backend's. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelReportMemoryUsage(
        TRITONBACKEND_Model *model, TRITONSERVER_BufferAttributes **usage, uint32_t usage_size);

/* ---- Instance -------------------------------------------------------------------------------- */

/* The instance's name: its group's, and a number. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(
        TRITONBACKEND_ModelInstance *instance, const char **name);

/* CPU, GPU or MODEL. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceKind(
        TRITONBACKEND_ModelInstance *instance, TRITONSERVER_InstanceGroupKind *kind);

/* The number of the GPU; 0 for the other kinds. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceDeviceId(
        TRITONBACKEND_ModelInstance *instance, int32_t *device_id);

/* {"<policy>": {"<setting>": "<value>", ...}}: the host policy that applies. The message
 * belongs to the instance. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceHostPolicy(
        TRITONBACKEND_ModelInstance *instance, TRITONSERVER_Message **host_policy);

/* Whether the instance is only loaded and not executed. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceIsPassive(
        TRITONBACKEND_ModelInstance *instance, bool *is_passive);

/* How many optimisation profiles its group names. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileCount(
        TRITONBACKEND_ModelInstance *instance, uint32_t *count);

/* One of them, counted from 0. INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileName(
        TRITONBACKEND_ModelInstance *instance, const uint32_t index, const char **profile_name);

/* How many secondary devices its group names. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceCount(
        TRITONBACKEND_ModelInstance *instance, uint32_t *count);

/* One of them, counted from 0: its kind as a text, and its number. INVALID_ARG beyond the last. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
        TRITONBACKEND_ModelInstance *instance, uint32_t index, const char **kind, int64_t *id);

/* The model of the instance. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(
        TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Model **model);

/* The pointer set with TRITONBACKEND_ModelInstanceSetState(), or NULL. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(
        TRITONBACKEND_ModelInstance *instance, void **state);

/* Keeps a pointer of the backend's own. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(
        TRITONBACKEND_ModelInstance *instance, void *state);

/* Reports the memory that the instance takes, one entry per place; replaces its report
 * before, and goes with the instance. The attributes stay the backend's. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(
        TRITONBACKEND_ModelInstance *instance, TRITONSERVER_BufferAttributes **usage,
        uint32_t usage_size);

/* ---- Statistics ------------------------------------------------------------------------------ */

/* One request's share of an execution, before the request is released. The input phase is from
 * `exec_start_ns` to `compute_start_ns`, inference from there to `compute_end_ns`, the output
 * phase from there to `exec_end_ns`. With `success` false only the failure is counted. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
        TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
        const uint64_t exec_start_ns, const uint64_t compute_start_ns,
        const uint64_t compute_end_ns, const uint64_t exec_end_ns);

/* One execution, with the sum of the batch sizes of its requests; the stamps as above. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
        TRITONBACKEND_ModelInstance *instance, const uint64_t batch_size,
        const uint64_t exec_start_ns, const uint64_t compute_start_ns,
        const uint64_t compute_end_ns, const uint64_t exec_end_ns);

/* A record about one response of a decoupled model, to be filled and reported. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(
        TRITONBACKEND_ModelInstanceResponseStatistics **response_statistics);

/* Ends a record. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics);

/* Which instance made the response. Required. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONBACKEND_ModelInstance                   *model_instance);

/* Which factory it came from. Required. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONBACKEND_ResponseFactory                 *response_factory);

/* When the backend began with it, ns. Required. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        uint64_t                                       response_start);

/* When its outputs began to be written, ns. Not set: the response was empty. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        uint64_t                                       compute_output_start);

/* When it was sent, ns. Required. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics, uint64_t response_end);

/* The failure it reported, NULL for none; stays the backend's. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
        TRITONSERVER_Error                            *error);

/* Counts the record. It may be filled again afterwards. */
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(
        TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics);

/* ---- Entry points that a backend defines ----------------------------------------------------- */
/* The server looks these up by name. An error returned from one is the server's. */

/* The library was loaded. An error fails the model that needed it. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend);

/* The library is about to be unloaded, after all its models. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend);

/* Asked once after TRITONBACKEND_Initialize(): the backend states its attributes. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(
        TRITONBACKEND_Backend *backend, TRITONBACKEND_BackendAttribute *backend_attributes);

/* A model version is about to be loaded: check the configuration, fill it in, load what
 * instances share. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model);

/* A model version is unloaded, after all its instances. Not called for a model whose
 * initialisation failed. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model);

/* An instance is made, on the thread that will execute it. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(
        TRITONBACKEND_ModelInstance *instance);

/* An instance ends. Not called for one whose initialisation failed. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(
        TRITONBACKEND_ModelInstance *instance);

/* Whether the instance can take requests; an error says why not. Where it is not defined, an
 * instance is ready once it is initialised. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(
        TRITONBACKEND_ModelInstance *instance);

/* Runs `request_count` requests as one batch. Required.
 *
 * On success every request belongs to the backend, which must send at least one final response
 * for each and release it, here or later from a thread of its own. On an error none of them
 * does, nothing may have been sent or released, and the server answers each with that error.
 * The array belongs to the server and is valid during the call. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(
        TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests,
        const uint32_t request_count);

/* A batching strategy of a model is set up; all five batching functions or none are defined, by
 * a backend or by a library that the model's configuration names. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelBatcherInitialize(
        TRITONBACKEND_Batcher **batcher, TRITONBACKEND_Model *model);

/* A batching strategy ends. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelBatcherFinalize(
        TRITONBACKEND_Batcher *batcher);

/* A new batch begins; `*userp` is a note about it. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelBatchInitialize(
        const TRITONBACKEND_Batcher *batcher, void **userp);

/* Whether a request may join the batch; if not, the batch is complete without it. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelBatchIncludeRequest(
        TRITONBACKEND_Request *request, void *userp, bool *should_include);

/* The batch is complete. */
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelBatchFinalize(void *userp);

#ifdef __cplusplus
}
#endif
