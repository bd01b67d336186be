/* SPDX-License-Identifier: BSD-3-Clause */
/* The in-process API: an inference server inside a program of your own, without a network.
 *
 * The way of one inference: TRITONSERVER_ServerOptionsNew() and its setters say where the
 * models are; TRITONSERVER_ServerNew() loads them; TRITONSERVER_InferenceRequestNew() makes a
 * request for one model, to which inputs are added; TRITONSERVER_ServerInferAsync() starts it
 * and returns at once; the server asks a response allocator of the program for memory for each
 * output and then calls the program's response callback with the result.
 *
 * A *model* has a name and one or more *versions* (numbers from 1 up; -1 in this API means "the
 * version its policy prefers", normally the highest that is ready). Each version is run by one
 * or more *instances* that a *backend* (a shared library, see tritonbackend.h) provides. A
 * *tensor* has a name, a type and a shape; its bytes lie in row-major order without gaps, in
 * the machine's byte order. Elements of TRITONSERVER_TYPE_BYTES are each a 4-byte little-endian
 * length followed by that many bytes.
 *
 * **Ownership.** Functions that can fail return an error that the caller owns and must end with
 * TRITONSERVER_ErrorDelete(); NULL is success, and out-parameters are written only then. What a
 * ...New() function gives belongs to the caller until the matching ...Delete(). Texts passed in
 * are copied; texts handed out belong to the object they came from and live as long as it does.
 * Tensor data is never copied on the way in: see
 * TRITONSERVER_InferenceRequestAppendInputData().
 *
 * **Threads.** Different objects may be used from different threads at the same time; a server,
 * an allocator and everything about metrics and the log from any number of threads. One
 * request, response, message, parameter or options object is used by one thread at a time.
 *
 * **Errors.** A required pointer that is NULL gives TRITONSERVER_ERROR_INVALID_ARG with a text
 * that names it. Functions that return no error accept NULL as described at each.
 */
#pragma once

#ifndef __cplusplus
#include <stdbool.h>
#endif
#include <stddef.h>
#include <stdint.h>

/* On what the server defines. */
#if defined(__GNUC__)
#define TRITONSERVER_DECLSPEC __attribute__((visibility("default")))
#else
#define TRITONSERVER_DECLSPEC
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A plug-in built against these headers works with a server of the
 * same major and the same or a higher minor version. */
#define TRITONSERVER_API_VERSION_MAJOR 1
#define TRITONSERVER_API_VERSION_MINOR 34

/* Objects of the server, known to a program by pointer only. */
typedef struct TRITONSERVER_BufferAttributes  TRITONSERVER_BufferAttributes;
typedef struct TRITONSERVER_Error             TRITONSERVER_Error;
typedef struct TRITONSERVER_InferenceRequest  TRITONSERVER_InferenceRequest;
typedef struct TRITONSERVER_InferenceResponse TRITONSERVER_InferenceResponse;
typedef struct TRITONSERVER_InferenceTrace    TRITONSERVER_InferenceTrace;
typedef struct TRITONSERVER_Message           TRITONSERVER_Message;
typedef struct TRITONSERVER_Metrics           TRITONSERVER_Metrics;
typedef struct TRITONSERVER_Parameter         TRITONSERVER_Parameter;
typedef struct TRITONSERVER_ResponseAllocator TRITONSERVER_ResponseAllocator;
typedef struct TRITONSERVER_Server            TRITONSERVER_Server;
typedef struct TRITONSERVER_ServerOptions     TRITONSERVER_ServerOptions;
typedef struct TRITONSERVER_Metric            TRITONSERVER_Metric;
typedef struct TRITONSERVER_MetricFamily      TRITONSERVER_MetricFamily;
typedef struct TRITONSERVER_MetricArgs        TRITONSERVER_MetricArgs;

/* The type of a tensor's elements. */
typedef enum TRITONSERVER_DataType_enum {
        TRITONSERVER_TYPE_INVALID = 0,
        TRITONSERVER_TYPE_BOOL = 1, /* 1 byte, 0 or 1 */
        TRITONSERVER_TYPE_UINT8 = 2,
        TRITONSERVER_TYPE_UINT16 = 3,
        TRITONSERVER_TYPE_UINT32 = 4,
        TRITONSERVER_TYPE_UINT64 = 5,
        TRITONSERVER_TYPE_INT8 = 6,
        TRITONSERVER_TYPE_INT16 = 7,
        TRITONSERVER_TYPE_INT32 = 8,
        TRITONSERVER_TYPE_INT64 = 9,
        TRITONSERVER_TYPE_FP16 = 10, /* IEEE 754 half precision */
        TRITONSERVER_TYPE_FP32 = 11,
        TRITONSERVER_TYPE_FP64 = 12,
        TRITONSERVER_TYPE_BYTES = 13, /* each element: 4-byte length, then the bytes */
        TRITONSERVER_TYPE_BF16 = 14,  /* the upper half of an FP32 */
} TRITONSERVER_DataType;

/* The kind of memory a buffer lies in. With each goes a memory type id: the number of the
 * device, 0 for the CPU. */
typedef enum TRITONSERVER_MemoryType_enum {
        TRITONSERVER_MEMORY_CPU = 0,
        TRITONSERVER_MEMORY_CPU_PINNED = 1, /* page-locked, for fast copies to a GPU */
        TRITONSERVER_MEMORY_GPU = 2,
} TRITONSERVER_MemoryType;

/* The type of a parameter's value, and in brackets what a `const void *` value points to. */
typedef enum TRITONSERVER_ParameterType_enum {
        TRITONSERVER_PARAMETER_STRING = 0, /* NUL-terminated text (its first char) */
        TRITONSERVER_PARAMETER_INT = 1,    /* int64_t */
        TRITONSERVER_PARAMETER_BOOL = 2,   /* bool */
        TRITONSERVER_PARAMETER_DOUBLE = 3, /* double */
        TRITONSERVER_PARAMETER_BYTES = 4,  /* the bytes; never copied */
} TRITONSERVER_ParameterType;

/* Where the instances of a model run. */
typedef enum TRITONSERVER_InstanceGroupKind_enum {
        /* on a GPU if there is one and the backend can use it */
        TRITONSERVER_INSTANCEGROUPKIND_AUTO = 0,
        TRITONSERVER_INSTANCEGROUPKIND_CPU = 1,
        TRITONSERVER_INSTANCEGROUPKIND_GPU = 2,
        TRITONSERVER_INSTANCEGROUPKIND_MODEL = 3, /* the model itself decides */
} TRITONSERVER_InstanceGroupKind;

/* The level of a log message. */
typedef enum TRITONSERVER_LogLevel_enum {
        TRITONSERVER_LOG_INFO = 0,
        TRITONSERVER_LOG_WARN = 1,
        TRITONSERVER_LOG_ERROR = 2,
        TRITONSERVER_LOG_VERBOSE = 3,
} TRITONSERVER_LogLevel;

/* The form of a line of the log. NESO_LOG_FORMAT_JSON of neso.h is a further one. */
typedef enum TRITONSERVER_LogFormat_enum {
        TRITONSERVER_LOG_DEFAULT = 0, /* I1120 13:17:04.123456 1234 file.c:123] "message" */
        TRITONSERVER_LOG_ISO8601 = 1, /* 2026-11-20T13:17:04Z I 1234 file.c:123] "message" */
} TRITONSERVER_LogFormat;

/* What kind of failure it was. */
typedef enum TRITONSERVER_Error_Code_enum {
        TRITONSERVER_ERROR_UNKNOWN = 0,     /* of no other kind */
        TRITONSERVER_ERROR_INTERNAL = 1,    /* the server or a backend is at fault */
        TRITONSERVER_ERROR_NOT_FOUND = 2,   /* what was named does not exist */
        TRITONSERVER_ERROR_INVALID_ARG = 3, /* the caller is at fault */
        TRITONSERVER_ERROR_UNAVAILABLE = 4, /* not now: not ready, full, too late */
        TRITONSERVER_ERROR_UNSUPPORTED = 5, /* known, but not possible here */
        TRITONSERVER_ERROR_ALREADY_EXISTS = 6,
        TRITONSERVER_ERROR_CANCELLED = 7, /* the caller withdrew the request */
} TRITONSERVER_Error_Code;

/* The form in which metrics are written. */
typedef enum TRITONSERVER_MetricFormat_enum {
        TRITONSERVER_METRIC_PROMETHEUS = 0, /* text exposition format, version 0.0.4 */
} TRITONSERVER_MetricFormat;

/* What a trace records. MIN and MAX are old names that mean TIMESTAMPS. Values may be combined
 * with a bitwise or. */
typedef enum TRITONSERVER_InferenceTraceLevel_enum {
        TRITONSERVER_TRACE_LEVEL_DISABLED = 0,
        TRITONSERVER_TRACE_LEVEL_MIN = 1,          /* deprecated: TIMESTAMPS */
        TRITONSERVER_TRACE_LEVEL_MAX = 2,          /* deprecated: TIMESTAMPS */
        TRITONSERVER_TRACE_LEVEL_TIMESTAMPS = 0x4, /* when each phase began and ended */
        TRITONSERVER_TRACE_LEVEL_TENSORS = 0x8,    /* the contents of tensors */
} TRITONSERVER_InferenceTraceLevel;

/* The points of an inference that a trace reports, in the order they happen. */
typedef enum TRITONSERVER_InferenceTraceActivity_enum {
        TRITONSERVER_TRACE_REQUEST_START = 0,
        TRITONSERVER_TRACE_QUEUE_START = 1,          /* handed to the scheduler */
        TRITONSERVER_TRACE_COMPUTE_START = 2,        /* handed to the backend */
        TRITONSERVER_TRACE_COMPUTE_INPUT_END = 3,    /* inputs are in place */
        TRITONSERVER_TRACE_COMPUTE_OUTPUT_START = 4, /* the model has run */
        TRITONSERVER_TRACE_COMPUTE_END = 5,          /* outputs are in place */
        TRITONSERVER_TRACE_REQUEST_END = 6,
        TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT = 7,    /* TENSORS: an input as queued */
        TRITONSERVER_TRACE_TENSOR_BACKEND_INPUT = 8,  /* TENSORS: an input as the backend sees it */
        TRITONSERVER_TRACE_TENSOR_BACKEND_OUTPUT = 9, /* TENSORS: an output of the backend */
        TRITONSERVER_TRACE_CUSTOM_ACTIVITY = 10, /* TRITONSERVER_InferenceTraceReportActivity() */
} TRITONSERVER_InferenceTraceActivity;

/* Flags of a request, combined with a bitwise or: its place in a sequence, that is, in a row of
 * requests with one correlation id that a stateful model handles on one instance. */
typedef enum TRITONSERVER_RequestFlag_enum {
        TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1,
        TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2,
} TRITONSERVER_RequestFlag;

/* Why a request is handed back. Exactly one is set. */
typedef enum TRITONSERVER_RequestReleaseFlag_enum {
        TRITONSERVER_REQUEST_RELEASE_ALL = 1, /* finished with: its owner may reuse or delete it */
        TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2, /* backend to server only: run it again */
} TRITONSERVER_RequestReleaseFlag;

/* Flags of a response, combined with a bitwise or. */
typedef enum TRITONSERVER_ResponseCompleteFlag_enum {
        TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1, /* no further response follows for the request */
} TRITONSERVER_ResponseCompleteFlag;

/* Who decides which models are loaded. */
typedef enum TRITONSERVER_ModelControlMode_enum {
        TRITONSERVER_MODEL_CONTROL_NONE = 0,     /* all of the repositories, once, at the start */
        TRITONSERVER_MODEL_CONTROL_POLL = 1,     /* all, following changes of the repositories */
        TRITONSERVER_MODEL_CONTROL_EXPLICIT = 2, /* the load and unload functions */
} TRITONSERVER_ModelControlMode;

/* Whether instances compete for the resources that their configurations name. */
typedef enum TRITONSERVER_RateLimitMode_enum {
        TRITONSERVER_RATE_LIMIT_OFF = 0,        /* every idle instance may run */
        TRITONSERVER_RATE_LIMIT_EXEC_COUNT = 1, /* resources first; fewest executions first */
} TRITONSERVER_RateLimitMode;

/* How a model takes batches, as TRITONSERVER_ServerModelBatchProperties() reports it. */
typedef enum TRITONSERVER_ModelBatchFlag_enum {
        TRITONSERVER_BATCH_UNKNOWN = 1,   /* no batching, or not known to the server */
        TRITONSERVER_BATCH_FIRST_DIM = 2, /* the first dimension of every tensor is the batch */
} TRITONSERVER_ModelBatchFlag;

/* Restricts TRITONSERVER_ServerModelIndex(). */
typedef enum TRITONSERVER_ModelIndexFlag_enum {
        TRITONSERVER_INDEX_FLAG_READY = 1, /* only models that are ready */
} TRITONSERVER_ModelIndexFlag;

/* How many responses a model sends for one request. */
typedef enum TRITONSERVER_ModelTxnPropertyFlag_enum {
        TRITONSERVER_TXN_ONE_TO_ONE = 1, /* exactly one */
        TRITONSERVER_TXN_DECOUPLED = 2,  /* any number, none included */
} TRITONSERVER_ModelTxnPropertyFlag;

/* The kind of a metric, as in Prometheus. */
typedef enum TRITONSERVER_MetricKind_enum {
        TRITONSERVER_METRIC_KIND_COUNTER = 0,   /* only grows */
        TRITONSERVER_METRIC_KIND_GAUGE = 1,     /* goes up and down */
        TRITONSERVER_METRIC_KIND_HISTOGRAM = 2, /* counts observations per bucket */
} TRITONSERVER_MetricKind;

/* Gives memory for one output. Called for every output of every response, with its `byte_size`,
 * also when that is 0 (`*buffer` may then be NULL). `memory_type` and `memory_type_id` are what
 * the backend would like; the callback may choose otherwise and says what it chose in
 * `*actual_memory_type` and `*actual_memory_type_id`. `userp` is the response_allocator_userp
 * of the request; `*buffer_userp` is the callback's own note, which comes back in the release
 * callback and with TRITONSERVER_InferenceResponseOutput().
 *
 * Memory of a device may be given whatever the backend would like. A backend that does not look at the
 * type gets other memory then, which the server copies to the device before the response callback.
 *
 * An error returned here (ownership passes to the server) fails the response. Must be safe to
 * call from several threads at once. */
typedef struct TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorAllocFn_t)(
        struct TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name, size_t byte_size,
        TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, void *userp, void **buffer,
        void **buffer_userp, TRITONSERVER_MemoryType *actual_memory_type,
        int64_t *actual_memory_type_id);

/* Says more about a buffer just given by the allocation callback: `buffer_attributes` comes
 * filled with its memory type, id and size, and the callback may set the CUDA inter-process
 * handle. Optional. */
typedef struct TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorBufferAttributesFn_t)(
        struct TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name,
        struct TRITONSERVER_BufferAttributes *buffer_attributes, void *userp, void *buffer_userp);

/* Tells a backend in advance which memory an output would get. `*memory_type` and
 * `*memory_type_id` are the backend's wish on entry and the answer on return. `tensor_name` and
 * `byte_size` may be NULL when the backend does not know them yet. Nothing is allocated.
 * Optional. */
typedef struct TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorQueryFn_t)(
        struct TRITONSERVER_ResponseAllocator *allocator, void *userp, const char *tensor_name,
        size_t *byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/* Takes back a buffer of the allocation callback, when its response is deleted. The arguments
 * are what the allocation callback gave. */
typedef struct TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorReleaseFn_t)(
        struct TRITONSERVER_ResponseAllocator *allocator, void *buffer, void *buffer_userp,
        size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);

/* Called once for each response before any allocation for it. Optional. */
typedef struct TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorStartFn_t)(
        struct TRITONSERVER_ResponseAllocator *allocator, void *userp);

/* Reports one point of an inference. `timestamp_ns` is of the monotonic clock. The trace is
 * lent for the call. The callback must be quick and must not call back into the server. */
typedef void (*TRITONSERVER_InferenceTraceActivityFn_t)(
        struct TRITONSERVER_InferenceTrace *trace, TRITONSERVER_InferenceTraceActivity activity,
        uint64_t timestamp_ns, void *userp);

/* Reports the contents of one tensor: `byte_size` bytes at `base`, `dim_count` dimensions in
 * `shape`. Everything is lent for the call. */
typedef void (*TRITONSERVER_InferenceTraceTensorActivityFn_t)(
        struct TRITONSERVER_InferenceTrace *trace, TRITONSERVER_InferenceTraceActivity activity,
        const char *name, TRITONSERVER_DataType datatype, const void *base, size_t byte_size,
        const int64_t *shape, uint64_t dim_count, TRITONSERVER_MemoryType memory_type,
        int64_t memory_type_id, void *userp);

/* The server is done with the trace, which is the callee's again, to delete or to read first.
 * Also called for each child trace, so that what a child trace holds is freed by the same
 * function. */
typedef void (*TRITONSERVER_InferenceTraceReleaseFn_t)(struct TRITONSERVER_InferenceTrace *trace,
                                                       void                               *userp);

/* The server is done with a request and with all its input buffers: the request is the callee's
 * again. `flags` is TRITONSERVER_REQUEST_RELEASE_ALL. It comes exactly once for each successful
 * TRITONSERVER_ServerInferAsync(), before or after the responses, from any thread. The callee
 * may delete or reuse the request, and must not block. */
typedef void (*TRITONSERVER_InferenceRequestReleaseFn_t)(
        struct TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *userp);

/* Delivers one response, which becomes the callee's and must be ended with
 * TRITONSERVER_InferenceResponseDelete(). Exactly one call per request carries
 * TRITONSERVER_RESPONSE_COMPLETE_FINAL in `flags`; in it `response` may be NULL, when a
 * decoupled model ends without a further response. Called from any thread; must not block. */
typedef void (*TRITONSERVER_InferenceResponseCompleteFn_t)(
        struct TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *userp);

/* ---- Version --------------------------------------------------------------------------------- */

/* Gives the version of this interface that the server implements, to compare with
 * TRITONSERVER_API_VERSION_MAJOR and _MINOR of the headers a program was built with. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ApiVersion(uint32_t *major,
                                                                         uint32_t *minor);

/* ---- Names of values ------------------------------------------------------------------------- */
/* The texts are static and NUL-terminated. A value outside the enum gives "<invalid>" unless
 * said otherwise; nothing here returns NULL. */

/* "BOOL", "UINT8" ... "FP64", "BYTES", "BF16": the names that the network protocols use. */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype);

/* The type of that name (letter case matters); TRITONSERVER_TYPE_INVALID for any other text and
 * for NULL. */
TRITONSERVER_DECLSPEC TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char *dtype);

/* Bytes of one element; 0 for BYTES, whose elements vary, and for anything that is not a type. */
TRITONSERVER_DECLSPEC uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype);

/* "CPU", "CPU_PINNED" or "GPU". */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType memtype);

/* "STRING", "INT", "BOOL", "DOUBLE" or "BYTES". */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_ParameterTypeString(
        TRITONSERVER_ParameterType paramtype);

/* "AUTO", "CPU", "GPU" or "MODEL". */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_InstanceGroupKindString(
        TRITONSERVER_InstanceGroupKind kind);

/* ---- Parameters ------------------------------------------------------------------------------ */
/* A name with a typed value: overrides of a model load, labels of metrics, name mappings of a
 * repository. Parameters of requests and responses have functions of their own below. */

/* A parameter of type STRING, INT, BOOL or DOUBLE. `value` points to the value, for STRING to
 * its first character; name and value are copied. NULL when an argument is NULL or the type is
 * another. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(
        const char *name, const TRITONSERVER_ParameterType type, const void *value);

/* A parameter of type BYTES. The name is copied, the `size` bytes at `byte_ptr` are not: they
 * must outlive the parameter. NULL when `name` is NULL, and when `byte_ptr` is NULL and `size`
 * is not 0. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(
        const char *name, const void *byte_ptr, const uint64_t size);

/* Ends a parameter. NULL is fine. */
TRITONSERVER_DECLSPEC void TRITONSERVER_ParameterDelete(struct TRITONSERVER_Parameter *parameter);

/* ---- Log ------------------------------------------------------------------------------------- */
/* One log for the process, which the server and all its plug-ins write to. Its settings are
 * changed with TRITONSERVER_ServerOptionsSetLog...(). */

/* Whether a message of that level would be written, so that a costly text need not be made for
 * nothing. For VERBOSE: whether the verbose level is at least 1. */
TRITONSERVER_DECLSPEC bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level);

/* Writes one message. `filename` (its last component is shown) and `line` say where it comes
 * from; `msg` is escaped and quoted, so that no text can forge a line. A disabled level writes
 * nothing and is no error. INVALID_ARG for a level outside the enum. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_LogMessage(
        TRITONSERVER_LogLevel level, const char *filename, const int line, const char *msg);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* A new error; `msg` is copied (NULL counts as ""). Never NULL: when memory is short, it is an
 * INTERNAL error that says so. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code,
                                                                       const char             *msg);

/* Ends an error. NULL is fine. */
TRITONSERVER_DECLSPEC void TRITONSERVER_ErrorDelete(struct TRITONSERVER_Error *error);

/* The kind of the failure; TRITONSERVER_ERROR_UNKNOWN for NULL. */
TRITONSERVER_DECLSPEC TRITONSERVER_Error_Code
TRITONSERVER_ErrorCode(struct TRITONSERVER_Error *error);

/* "Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported",
 * "Already exists" or "Cancelled". Static. "Unknown" for NULL. */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_ErrorCodeString(struct TRITONSERVER_Error *error);

/* The text, without the kind. Lives as long as the error. "" for NULL. */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_ErrorMessage(struct TRITONSERVER_Error *error);

/* ---- Response allocator ---------------------------------------------------------------------- */
/* Gives memory for the outputs of responses. One allocator may serve any number of requests; it
 * must outlive the last response made with it. */

/* `alloc_fn` and `release_fn` are required; `start_fn` may be NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorNew(
        struct TRITONSERVER_ResponseAllocator   **allocator,
        TRITONSERVER_ResponseAllocatorAllocFn_t   alloc_fn,
        TRITONSERVER_ResponseAllocatorReleaseFn_t release_fn,
        TRITONSERVER_ResponseAllocatorStartFn_t   start_fn);

/* Sets the optional callback that adds to what is known about a buffer. NULL removes it. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
        struct TRITONSERVER_ResponseAllocator             *allocator,
        TRITONSERVER_ResponseAllocatorBufferAttributesFn_t buffer_attributes_fn);

/* Sets the optional callback that tells a backend where an output will lie. NULL removes it. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetQueryFunction(
        struct TRITONSERVER_ResponseAllocator  *allocator,
        TRITONSERVER_ResponseAllocatorQueryFn_t query_fn);

/* Ends an allocator. No response made with it may exist any more. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorDelete(
        struct TRITONSERVER_ResponseAllocator *allocator);

/* ---- Messages -------------------------------------------------------------------------------- */
/* JSON text, the form in which the server describes itself, its models and its statistics. */

/* A message with a copy of the `byte_size` bytes at `base`. INVALID_ARG when they are not one
 * JSON value; the error tells what is wrong and at which offset. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(
        struct TRITONSERVER_Message **message, const char *base, size_t byte_size);

/* Ends a message and the text it gave out. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MessageDelete(
        struct TRITONSERVER_Message *message);

/* The message's text: `*byte_size` bytes at `*base`, which belong to the message. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(
        struct TRITONSERVER_Message *message, const char **base, size_t *byte_size);

/* ---- Metrics, as a whole --------------------------------------------------------------------- */

/* Ends what TRITONSERVER_ServerMetrics() gave, and the text it gave out. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricsDelete(
        struct TRITONSERVER_Metrics *metrics);

/* All metrics as text: `*byte_size` bytes at `*base`, which belong to `metrics`. `format` must
 * be TRITONSERVER_METRIC_PROMETHEUS, or the one of NESO_ServerMetrics(), otherwise INVALID_ARG. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricsFormatted(
        struct TRITONSERVER_Metrics *metrics, TRITONSERVER_MetricFormat format, const char **base,
        size_t *byte_size);

/* ---- Traces ---------------------------------------------------------------------------------- */
/* Timestamps, and if wanted tensors, of one inference. A trace is given to
 * TRITONSERVER_ServerInferAsync(), which then owns it until the release callback. An inference
 * that runs further models (an ensemble) makes child traces with the same callbacks. Ids count
 * from 1 in each process. */

/* "DISABLED", "MIN", "MAX", "TIMESTAMPS" or "TENSORS"; "<unknown>" for anything else,
 * combinations included. */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_InferenceTraceLevelString(
        TRITONSERVER_InferenceTraceLevel level);

/* "REQUEST_START", "QUEUE_START" and so on: the enum's names without their prefix; "<unknown>"
 * for anything else. */
TRITONSERVER_DECLSPEC const char *TRITONSERVER_InferenceTraceActivityString(
        TRITONSERVER_InferenceTraceActivity activity);

/* A trace with timestamps. `parent_id` is 0 for one without a parent. `activity_fn` and
 * `release_fn` are required and get `trace_userp`. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceNew(
        struct TRITONSERVER_InferenceTrace **trace, TRITONSERVER_InferenceTraceLevel level,
        uint64_t parent_id, TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
        TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp);

/* A trace with timestamps, tensors or both, as `level` says; `tensor_activity_fn` is required
 * when it includes TENSORS. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceTensorNew(
        struct TRITONSERVER_InferenceTrace **trace, TRITONSERVER_InferenceTraceLevel level,
        uint64_t parent_id, TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
        TRITONSERVER_InferenceTraceTensorActivityFn_t tensor_activity_fn,
        TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp);

/* Reports a point of the caller's own, named `activity_name`, at `timestamp` ns of the
 * monotonic clock, as TRITONSERVER_TRACE_CUSTOM_ACTIVITY. For backends. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceReportActivity(
        struct TRITONSERVER_InferenceTrace *trace, uint64_t timestamp, const char *activity_name);

/* Ends a trace. Not while the server owns it. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceDelete(
        struct TRITONSERVER_InferenceTrace *trace);

/* The trace's id, unique in the process. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceId(
        struct TRITONSERVER_InferenceTrace *trace, uint64_t *id);

/* The parent's id; 0 when there is none. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceParentId(
        struct TRITONSERVER_InferenceTrace *trace, uint64_t *parent_id);

/* The model that ran. Belongs to the trace. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceModelName(
        struct TRITONSERVER_InferenceTrace *trace, const char **model_name);

/* The version that ran. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceModelVersion(
        struct TRITONSERVER_InferenceTrace *trace, int64_t *model_version);

/* The request's id, "" when it has none. Belongs to the trace. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceRequestId(
        struct TRITONSERVER_InferenceTrace *trace, const char **request_id);

/* A new trace with this one as its parent, and the same level, context and callbacks; for a further
 * inference made on behalf of this one. It is the caller's until it is given to
 * TRITONSERVER_ServerInferAsync(). The parent is not released before all children are deleted. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceSpawnChildTrace(
        struct TRITONSERVER_InferenceTrace  *trace,
        struct TRITONSERVER_InferenceTrace **child_trace);

/* Attaches a text that travels with the trace, such as a W3C trace context as JSON. Copied. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceSetContext(
        struct TRITONSERVER_InferenceTrace *trace, const char *trace_context);

/* The text attached to the trace, or NULL. Belongs to the trace. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceContext(
        struct TRITONSERVER_InferenceTrace *trace, const char **trace_context);

/* ---- Requests -------------------------------------------------------------------------------- */
/* One question to one model. Made, filled, given to TRITONSERVER_ServerInferAsync(), and the
 * caller's again when the release callback comes; it may then be changed and sent again.
 * Setters look at their arguments only; whether the whole fits the model is checked when it is
 * sent. */

/* A request for a model of `server`. It holds the model, which is therefore not unloaded while
 * the request exists. `model_version` -1 leaves the version to the model's policy.
 *
 * NOT_FOUND or UNAVAILABLE when there is no such model or it is not ready. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestNew(
        struct TRITONSERVER_InferenceRequest **inference_request,
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version);

/* Ends a request that the caller owns: not one that is being inferred. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(
        struct TRITONSERVER_InferenceRequest *inference_request);

/* The id, "" when none was set. Belongs to the request. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestId(
        struct TRITONSERVER_InferenceRequest *inference_request, const char **id);

/* A text of the caller's choice, which comes back with the responses and prefixes error texts. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetId(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *id);

/* The flags, a combination of TRITONSERVER_RequestFlag. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestFlags(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t *flags);

/* Sets the flags, a combination of TRITONSERVER_RequestFlag; other bits are INVALID_ARG. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetFlags(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t flags);

/* The sequence's number; 0 means none. INVALID_ARG when the correlation id is a text. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCorrelationId(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t *correlation_id);

/* The sequence's text; "" means none. INVALID_ARG when the correlation id is a number. Belongs
 * to the request. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCorrelationIdString(
        struct TRITONSERVER_InferenceRequest *inference_request, const char **correlation_id);

/* Makes the request part of the sequence with this number; replaces a text. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationId(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t correlation_id);

/* Makes the request part of the sequence with this text; replaces a number. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetCorrelationIdString(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *correlation_id);

/* Withdraws a request that is being inferred. A queued one is answered with a CANCELLED error;
 * one that runs goes on until its backend looks. Callbacks come as always. No effect on a
 * request that is not being inferred, or is finished. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(
        struct TRITONSERVER_InferenceRequest *inference_request);

/* Whether TRITONSERVER_InferenceRequestCancel() was called. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestIsCancelled(
        struct TRITONSERVER_InferenceRequest *inference_request, bool *is_cancelled);

/* Deprecated: the priority cut to 32 bits. Use TRITONSERVER_InferenceRequestPriorityUInt64(). */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestPriority(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t *priority);

/* The priority: 1 is the highest, 0 means the model's default. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestPriorityUInt64(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t *priority);

/* Deprecated: use TRITONSERVER_InferenceRequestSetPriorityUInt64(). */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetPriority(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t priority);

/* Sets the priority: 1 is the highest, 0 means the model's default, and so does a number beyond
 * the model's priority levels. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetPriorityUInt64(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t priority);

/* The timeout in microseconds; 0 means none. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestTimeoutMicroseconds(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t *timeout_us);

/* Sets how long the request may wait in a queue, in microseconds; 0 means no limit of its own.
 * It counts only where the model's queue policy allows a request to override its default. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
        struct TRITONSERVER_InferenceRequest *inference_request, uint64_t timeout_us);

/* Adds an input tensor without data. `shape` has `dim_count` dimensions, the batch included
 * where the model takes batches; it is copied, as is the name. ALREADY_EXISTS when the request
 * has an input of that name. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        const TRITONSERVER_DataType datatype, const int64_t *shape, uint64_t dim_count);

/* Adds an input whose type and shape are taken from the model: for data that comes without a
 * description. The model must have exactly one input, and no dimension of it but one may be
 * variable, which then follows from the size of the data. INVALID_ARG otherwise, when the
 * request is sent. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRawInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name);

/* Removes the input of that name with its data. INVALID_ARG when there is none. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name);

/* Removes all inputs with their data. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputs(
        struct TRITONSERVER_InferenceRequest *inference_request);

/* Appends `byte_size` bytes at `base` to the data of an input; several appends make the data in
 * that order. The bytes are *not* copied: they must stay in place and unchanged until the
 * release callback. 0 bytes are ignored. INVALID_ARG when the request has no such input.
 *
 * With TRITONSERVER_MEMORY_GPU they lie on the device `memory_type_id`, and writes to them must have
 * ended before the submission. INVALID_ARG when the server does not have this device, UNSUPPORTED when
 * it has none. The server copies them for code that reads on the CPU: for models whose backend does
 * not look at the type of memory, and for tensors of type BYTES. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);

/* As TRITONSERVER_InferenceRequestAppendInputData(), for use by instances with that host policy
 * only: a copy of the data near their processors. An input must then also have the data without
 * a policy, or for every policy. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
        const char *host_policy_name);

/* As TRITONSERVER_InferenceRequestAppendInputData(), with memory type, id, size and CUDA handle
 * taken from `buffer_attributes`, which may be deleted afterwards. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
        struct TRITONSERVER_BufferAttributes *buffer_attributes);

/* Removes the data of one input and keeps the input, so that a request can be sent again with
 * other data. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputData(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name);

/* Asks for this output. A request that asks for none gets all of the model's outputs. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRequestedOutput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name);

/* Withdraws the wish for one output. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveRequestedOutput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name);

/* Withdraws the wish for every output: all of them will come again. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(
        struct TRITONSERVER_InferenceRequest *inference_request);

/* Sets who gets the request back. Required before TRITONSERVER_ServerInferAsync(). */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetReleaseCallback(
        struct TRITONSERVER_InferenceRequest    *inference_request,
        TRITONSERVER_InferenceRequestReleaseFn_t request_release_fn, void *request_release_userp);

/* Sets who gets the responses, and who gives memory for their outputs. Required before
 * TRITONSERVER_ServerInferAsync(). The allocator stays the caller's. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
        struct TRITONSERVER_InferenceRequest  *inference_request,
        struct TRITONSERVER_ResponseAllocator *response_allocator, void *response_allocator_userp,
        TRITONSERVER_InferenceResponseCompleteFn_t response_fn, void *response_userp);

/* Sets a parameter, a named text that the backend can read. Name and text are copied. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetStringParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const char *value);

/* As TRITONSERVER_InferenceRequestSetStringParameter(), with a whole number. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetIntParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const int64_t value);

/* As TRITONSERVER_InferenceRequestSetStringParameter(), with a truth value. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetBoolParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const bool value);

/* As TRITONSERVER_InferenceRequestSetStringParameter(), with a real number. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetDoubleParameter(
        struct TRITONSERVER_InferenceRequest *request, const char *key, const double value);

/* ---- Responses ------------------------------------------------------------------------------- */

/* Ends a response: its outputs' buffers go back through the allocator's release callback, and
 * every pointer that came from the response is invalid. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(
        struct TRITONSERVER_InferenceResponse *inference_response);

/* The failure that the response reports; NULL when it reports none. The caller owns it. (Also
 * INVALID_ARG, as an error, when `inference_response` is NULL.) */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseError(
        struct TRITONSERVER_InferenceResponse *inference_response);

/* The model and version that answered. The name belongs to the response. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseModel(
        struct TRITONSERVER_InferenceResponse *inference_response, const char **model_name,
        int64_t *model_version);

/* The id of the request, "" when it had none. Belongs to the response. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseId(
        struct TRITONSERVER_InferenceResponse *inference_response, const char **request_id);

/* How many parameters the backend attached. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameterCount(
        struct TRITONSERVER_InferenceResponse *inference_response, uint32_t *count);

/* One of them, counted from 0. `*vvalue` points to the value as `*type` says: see
 * TRITONSERVER_ParameterType. Name and value belong to the response. INVALID_ARG beyond the
 * last. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameter(
        struct TRITONSERVER_InferenceResponse *inference_response, const uint32_t index,
        const char **name, TRITONSERVER_ParameterType *type, const void **vvalue);

/* How many outputs the response has. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutputCount(
        struct TRITONSERVER_InferenceResponse *inference_response, uint32_t *count);

/* One output, counted from 0: its name, type and shape (`*dim_count` dimensions), its
 * `*byte_size` bytes at `*base`, where they lie, and in `*userp` the allocation callback's
 * note. All belongs to the response. INVALID_ARG beyond the last. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(
        struct TRITONSERVER_InferenceResponse *inference_response, const uint32_t index,
        const char **name, TRITONSERVER_DataType *datatype, const int64_t **shape,
        uint64_t *dim_count, const void **base, size_t *byte_size,
        TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id, void **userp);

/* The name of class `class_index` of an output whose model has a file of labels; `*label` is
 * NULL when there is none. Belongs to the response. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_InferenceResponseOutputClassificationLabel(
        struct TRITONSERVER_InferenceResponse *inference_response, const uint32_t index,
        const size_t class_index, const char **label);

/* ---- Buffer attributes ----------------------------------------------------------------------- */
/* What is known about a buffer, for the functions that pass it along. A new one says: CPU, id
 * 0, 0 bytes, no CUDA handle. */

/* New attributes. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesNew(
        struct TRITONSERVER_BufferAttributes **buffer_attributes);

/* Ends attributes that the caller made. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesDelete(
        struct TRITONSERVER_BufferAttributes *buffer_attributes);

/* Sets the number of the device. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryTypeId(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, int64_t memory_type_id);

/* Sets the kind of memory. INVALID_ARG outside the enum. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryType(
        struct TRITONSERVER_BufferAttributes *buffer_attributes,
        TRITONSERVER_MemoryType               memory_type);

/* Sets a pointer to the CUDA inter-process handle, which is not copied; NULL: none. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetCudaIpcHandle(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, void *cuda_ipc_handle);

/* Sets the size in bytes. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetByteSize(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, size_t byte_size);

/* The number of the device. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesMemoryTypeId(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, int64_t *memory_type_id);

/* The kind of memory. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesMemoryType(
        struct TRITONSERVER_BufferAttributes *buffer_attributes,
        TRITONSERVER_MemoryType              *memory_type);

/* The pointer to the CUDA inter-process handle; NULL when there is none. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesCudaIpcHandle(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, void **cuda_ipc_handle);

/* The size in bytes. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesByteSize(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, size_t *byte_size);

/* ---- Server options -------------------------------------------------------------------------- */
/* What TRITONSERVER_ServerNew() is told. The server copies what it needs; the options may be
 * changed, reused or deleted afterwards. */

/* Options with these values: id "triton"; model control NONE; exit on error, strict model
 * configuration and strict readiness on; exit timeout 30 s; metrics of all kinds on, each 2000
 * ms; a pool of 256 MiB of pinned memory; rate limiter off; 4 threads that load models;
 * plug-ins under /opt/tritonserver/backends, /opt/tritonserver/repoagents and
 * /opt/tritonserver/caches. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsNew(
        struct TRITONSERVER_ServerOptions **options);

/* Ends options. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsDelete(
        struct TRITONSERVER_ServerOptions *options);

/* The server's name, which it reports in its metadata. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetServerId(
        struct TRITONSERVER_ServerOptions *options, const char *server_id);

/* Adds a directory of models: each call adds one. At least one is required. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelRepositoryPath(
        struct TRITONSERVER_ServerOptions *options, const char *model_repository_path);

/* Who decides which models are loaded. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelControlMode(
        struct TRITONSERVER_ServerOptions *options, TRITONSERVER_ModelControlMode mode);

/* Adds a model to load at the start, in mode EXPLICIT; "*", alone, means all. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetStartupModel(
        struct TRITONSERVER_ServerOptions *options, const char *model_name);

/* true: each model must come with a complete configuration. false: backends may fill in what is
 * missing. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetStrictModelConfig(
        struct TRITONSERVER_ServerOptions *options, bool strict);

/* Prefers configs/<name>.pbtxt of a model to its config.pbtxt, where there is one. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelConfigName(
        struct TRITONSERVER_ServerOptions *options, const char *model_config_name);

/* Whether instances compete for resources. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetRateLimiterMode(
        struct TRITONSERVER_ServerOptions *options, TRITONSERVER_RateLimitMode mode);

/* How many of a resource there are on one device; `device` -1: on each device. Without it, as
 * many as the most demanding instance needs. ALREADY_EXISTS when it was given for that device
 * before. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsAddRateLimiterResource(
        struct TRITONSERVER_ServerOptions *options, const char *resource_name,
        const size_t resource_count, const int device);

/* The size of the pool of pinned memory; 0: none. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(struct TRITONSERVER_ServerOptions *options,
                                                      uint64_t                           size);

/* The size of one GPU's pool of memory. Kept; without effect where there is no GPU. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(struct TRITONSERVER_ServerOptions *options,
                                                    int gpu_device, uint64_t size);

/* The range of addresses kept for growing buffers on one GPU. Kept; without effect where there
 * is no GPU. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(struct TRITONSERVER_ServerOptions *options,
                                                    int                                gpu_device,
                                                    size_t cuda_virtual_address_size);

/* Deprecated: as TRITONSERVER_ServerOptionsSetCacheConfig() with "local" and {"size": "<size>"}. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetResponseCacheByteSize(
        struct TRITONSERVER_ServerOptions *options, uint64_t size);

/* Turns a response cache on and configures it. `config_json` is a JSON object whose meaning is
 * the cache's own; INVALID_ARG when it is not one. One configuration per name: the last counts. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCacheConfig(
        struct TRITONSERVER_ServerOptions *options, const char *cache_name,
        const char *config_json);

/* Where caches are found, as <directory>/<name>/libtritoncache_<name>.so. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCacheDirectory(
        struct TRITONSERVER_ServerOptions *options, const char *cache_dir);

/* GPUs below this compute capability are not used. Kept; without effect where there is no GPU. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(
        struct TRITONSERVER_ServerOptions *options, double cc);

/* true: TRITONSERVER_ServerNew() fails when any model does. false: the server starts with those
 * that load. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetExitOnError(
        struct TRITONSERVER_ServerOptions *options, bool exit);

/* true: the server is ready when every model is. false: when it answers. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetStrictReadiness(
        struct TRITONSERVER_ServerOptions *options, bool strict);

/* How many seconds TRITONSERVER_ServerStop() waits for running inferences. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetExitTimeout(
        struct TRITONSERVER_ServerOptions *options, unsigned int timeout);

/* How many threads copy tensors side by side; 0: each thread its own. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetBufferManagerThreadCount(struct TRITONSERVER_ServerOptions *options,
                                                      unsigned int thread_count);

/* How many models are loaded at the same time. INVALID_ARG for 0. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelLoadThreadCount(
        struct TRITONSERVER_ServerOptions *options, unsigned int thread_count);

/* How often a failed load is tried again. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelLoadRetryCount(
        struct TRITONSERVER_ServerOptions *options, unsigned int retry_count);

/* true: repositories may hold models of the same name. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelNamespacing(
        struct TRITONSERVER_ServerOptions *options, bool enable_namespace);

/* Whether GPUs may read each other's memory. Kept; without effect where there is no GPU. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetEnablePeerAccess(
        struct TRITONSERVER_ServerOptions *options, bool enable_peer_access);

/* Where the log goes: a file to append to, or "" for standard error. This and the other log
 * settings act on the whole process and at once; `options` is not used and may be NULL. The
 * error names the file when it cannot be opened, and the log stays where it was. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFile(
        struct TRITONSERVER_ServerOptions *options, const char *file);

/* Whether messages of level INFO are written. At once; `options` may be NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogInfo(
        struct TRITONSERVER_ServerOptions *options, bool log);

/* Whether messages of level WARN are written. At once; `options` may be NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogWarn(
        struct TRITONSERVER_ServerOptions *options, bool log);

/* Whether messages of level ERROR are written. At once; `options` may be NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogError(
        struct TRITONSERVER_ServerOptions *options, bool log);

/* The form of the log's lines. At once; `options` may be NULL. INVALID_ARG for an unknown form. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFormat(
        struct TRITONSERVER_ServerOptions *options, const TRITONSERVER_LogFormat format);

/* How verbose the log is: 0 for not at all. A negative number counts as 0. At once; `options`
 * may be NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogVerbose(
        struct TRITONSERVER_ServerOptions *options, int level);

/* Whether there are metrics at all. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetMetrics(
        struct TRITONSERVER_ServerOptions *options, bool metrics);

/* Whether GPUs are measured. Needs metrics to be on. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetGpuMetrics(
        struct TRITONSERVER_ServerOptions *options, bool gpu_metrics);

/* Whether processors and main memory are measured. Needs metrics to be on. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCpuMetrics(
        struct TRITONSERVER_ServerOptions *options, bool cpu_metrics);

/* How often they are measured, in ms. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetMetricsInterval(
        struct TRITONSERVER_ServerOptions *options, uint64_t metrics_interval_ms);

/* Where backends are found, as <directory>/<name>/libtriton_<name>.so, unless a model brings
 * its own. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetBackendDirectory(
        struct TRITONSERVER_ServerOptions *options, const char *backend_dir);

/* Where repository agents are found, as <directory>/<name>/libtritonrepoagent_<name>.so. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetRepoAgentDirectory(
        struct TRITONSERVER_ServerOptions *options, const char *repoagent_dir);

/* The part of a device's memory, 0 to 1, beyond which no further model is loaded on it.
 * INVALID_ARG for another fraction, a negative device or a kind other than GPU. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
        struct TRITONSERVER_ServerOptions *options, const TRITONSERVER_InstanceGroupKind kind,
        const int device_id, const double fraction);

/* A setting for one backend, or for all with `backend_name` "". Settings with a meaning for the
 * server itself: default-max-batch-size, min-compute-capability, backend-directory,
 * auto-complete-config. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetBackendConfig(
        struct TRITONSERVER_ServerOptions *options, const char *backend_name, const char *setting,
        const char *value);

/* A setting of a host policy: numa-node (a number) or cpu-cores (<first>-<last>). UNSUPPORTED
 * for any other setting. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetHostPolicy(
        struct TRITONSERVER_ServerOptions *options, const char *policy_name, const char *setting,
        const char *value);

/* A setting of the metrics: counter_latencies, summary_latencies, histogram_latencies,
 * summary_quantiles. `name` is "" for the general ones. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetMetricsConfig(
        struct TRITONSERVER_ServerOptions *options, const char *name, const char *setting,
        const char *value);

/* ---- Server ---------------------------------------------------------------------------------- */

/* Starts a server: finds the models, loads those that the control mode says, and returns when
 * they are ready or have failed. With exit on error, a model that fails makes this fail with
 * INTERNAL; what was loaded is unloaded again. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerNew(
        struct TRITONSERVER_Server **server, struct TRITONSERVER_ServerOptions *options);

/* Stops the server, if that was not done, and ends it. No request, response or callback may be
 * left that belongs to it. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerDelete(
        struct TRITONSERVER_Server *server);

/* Refuses new inferences, waits until the running ones have ended, at most the exit timeout,
 * and unloads all models. INTERNAL when some have not ended in time. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerStop(
        struct TRITONSERVER_Server *server);

/* Changes how many seconds TRITONSERVER_ServerStop() waits. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerSetExitTimeout(
        struct TRITONSERVER_Server *server, unsigned int timeout);

/* Adds a repository while the server runs, in mode EXPLICIT only; its models can then be
 * loaded. Each name mapping is a STRING parameter: its name is a sub-directory of the
 * repository, its value the name the model there gets. ALREADY_EXISTS when the path is
 * registered or a name is given twice. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerRegisterModelRepository(
        struct TRITONSERVER_Server *server, const char *repository_path,
        const struct TRITONSERVER_Parameter **name_mapping, const uint32_t mapping_count);

/* Removes a repository, in mode EXPLICIT only. What is loaded from it stays loaded. NOT_FOUND
 * when it is not registered. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerUnregisterModelRepository(
        struct TRITONSERVER_Server *server, const char *repository_path);

/* Looks for changes in the repositories and loads, reloads and unloads models accordingly, in
 * mode POLL only. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerPollModelRepository(
        struct TRITONSERVER_Server *server);

/* Whether the server can answer at all. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerIsLive(
        struct TRITONSERVER_Server *server, bool *live);

/* Whether it can infer; with strict readiness only when all its models can. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerIsReady(
        struct TRITONSERVER_Server *server, bool *ready);

/* Whether one model version can infer. `model_version` -1: the one that a request without a
 * version would get. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelIsReady(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        bool *ready);

/* How a model takes batches: `*flags` is a TRITONSERVER_ModelBatchFlag. `*voidp`, which may be
 * NULL as an argument, is set to NULL: reserved. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelBatchProperties(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        uint32_t *flags, void **voidp);

/* How many responses a model sends: `*txn_flags` is a TRITONSERVER_ModelTxnPropertyFlag.
 * `*voidp`, which may be NULL as an argument, is set to NULL: reserved. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelTransactionProperties(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        uint32_t *txn_flags, void **voidp);

/* {"name", "version", "extensions"} of the server, as the KServe v2 protocol has it. The
 * message is the caller's, here and below. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerMetadata(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_Message **server_metadata);

/* {"name", "versions", "platform", "inputs", "outputs"} of a model, as the KServe v2 protocol
 * has it. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelMetadata(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        struct TRITONSERVER_Message **model_metadata);

/* {"model_stats": [...]}: counts and durations of inferences (ns) of a model. An empty name
 * means all models; version -1 all versions. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelStatistics(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        struct TRITONSERVER_Message **model_stats);

/* The configuration a model runs with, every default filled in. `config_version` must be 1. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelConfig(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        const uint32_t config_version, struct TRITONSERVER_Message **model_config);

/* [{"name", "version", "state", "reason"}, ...]: the models of the repositories, loaded or not.
 * `flags` may be TRITONSERVER_INDEX_FLAG_READY. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerModelIndex(
        struct TRITONSERVER_Server *server, uint32_t flags,
        struct TRITONSERVER_Message **model_index);

/* Loads a model, or loads it anew if it has changed, in mode EXPLICIT only; returns when it is
 * ready or has failed. The old one serves until the new one is ready, and goes on if it fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerLoadModel(
        struct TRITONSERVER_Server *server, const char *model_name);

/* As TRITONSERVER_ServerLoadModel(), with overrides: a STRING parameter "config" holds a model
 * configuration as JSON that replaces the model's file, and BYTES parameters "file:<path>" hold
 * the files of a directory that replaces the model's. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerLoadModelWithParameters(
        struct TRITONSERVER_Server *server, const char *model_name,
        const struct TRITONSERVER_Parameter **parameters, const uint64_t parameter_count);

/* Begins to unload a model, in mode EXPLICIT only. It ends when its last inference has. Models
 * that an ensemble is made of stay. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerUnloadModel(
        struct TRITONSERVER_Server *server, const char *model_name);

/* As TRITONSERVER_ServerUnloadModel(), and the models that were loaded only because this one
 * needs them. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerUnloadModelAndDependents(
        struct TRITONSERVER_Server *server, const char *model_name);

/* All metrics of this moment. The caller ends them with TRITONSERVER_MetricsDelete(). */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerMetrics(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_Metrics **metrics);

/* Checks a request against its model, queues it and returns. On success the request belongs to the
 * server until its release callback; the callbacks may come before this function returns. On
 * failure the request stays the caller's and its callbacks are not called. `trace` may be NULL. It
 * is taken in both cases: its release callback comes exactly once, on failure before this function
 * returns. A trace that another inference still holds is refused and left alone.
 *
 * INVALID_ARG when the request does not fit the model, UNAVAILABLE when the model is not ready,
 * its queue is full or the server stops. Failures that come later arrive in a response. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_InferenceRequest *inference_request,
        struct TRITONSERVER_InferenceTrace *trace);

/* ---- Metrics of a program or a plug-in ------------------------------------------------------- */
/* A *family* is a name with a help text; a *metric* is a family with values for its labels.
 * They appear in TRITONSERVER_ServerMetrics() beside the server's own. */

/* A family. The same name, kind and description again gives the same family, counted; the same
 * name with another kind or description is INVALID_ARG. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(
        struct TRITONSERVER_MetricFamily **family, const TRITONSERVER_MetricKind kind,
        const char *name, const char *description);

/* Ends one use of a family. INTERNAL while metrics of it exist. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(
        struct TRITONSERVER_MetricFamily *family);

/* The kind that the family was made with. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_GetMetricFamilyKind(
        struct TRITONSERVER_MetricFamily *family, TRITONSERVER_MetricKind *kind);

/* Arguments for metrics that need some. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricArgsNew(
        struct TRITONSERVER_MetricArgs **args);

/* The upper bounds of a histogram's buckets, `buckets_count` of them, ascending; copied. The
 * last one, +Inf, is added by the server. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricArgsSetHistogram(
        struct TRITONSERVER_MetricArgs *args, const double *buckets, const uint64_t buckets_count);

/* Ends arguments; metrics made with them stay. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricArgsDelete(
        struct TRITONSERVER_MetricArgs *args);

/* A metric that starts at 0. `labels` are `label_count` STRING parameters, copied. The family
 * must outlive it. A histogram needs TRITONSERVER_MetricNewWithArgs(). */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricNew(
        struct TRITONSERVER_Metric **metric, struct TRITONSERVER_MetricFamily *family,
        const struct TRITONSERVER_Parameter **labels, const uint64_t label_count);

/* As TRITONSERVER_MetricNew(), with `args`: required for a histogram, NULL otherwise. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricNewWithArgs(
        struct TRITONSERVER_Metric **metric, struct TRITONSERVER_MetricFamily *family,
        const struct TRITONSERVER_Parameter **labels, const uint64_t label_count,
        const struct TRITONSERVER_MetricArgs *args);

/* Ends a metric; it disappears from the output. Before its family. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricDelete(
        struct TRITONSERVER_Metric *metric);

/* The value of a counter or a gauge. UNSUPPORTED for a histogram. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricValue(
        struct TRITONSERVER_Metric *metric, double *value);

/* Adds to a counter or a gauge. INVALID_ARG for a negative value to a counter; UNSUPPORTED for
 * a histogram. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricIncrement(
        struct TRITONSERVER_Metric *metric, double value);

/* Sets a gauge. UNSUPPORTED for the other kinds. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricSet(
        struct TRITONSERVER_Metric *metric, double value);

/* Counts a value in a histogram. UNSUPPORTED for the other kinds. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_MetricObserve(
        struct TRITONSERVER_Metric *metric, double value);

/* The kind of the metric's family. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_GetMetricKind(
        struct TRITONSERVER_Metric *metric, TRITONSERVER_MetricKind *kind);

#ifdef __cplusplus
}
#endif
