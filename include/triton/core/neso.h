/* SPDX-License-Identifier: BSD-3-Clause */
/* Neso's additions to the C API: the functions that its own front end, its backends and its tools use
 * and that the reference server does not have. A program that must also run with other servers does not
 * include this header, except for functions that it refers to as weak symbols.
 *
 * Ownership.  As in tritonserver.h: a returned error belongs to the caller.
 * Threads.  Every function may be called from any thread.
 */
#pragma once

#include "triton/core/tritonserver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Objects of tritonbackend.h, which a program does not need to include, and one of this header. All are
 * known by pointer only. */
struct TRITONBACKEND_MemoryManager;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_ModelInstance;
struct TRITONBACKEND_ResponseFactory;
struct NESO_ReadyWatch;

/* Version of the additions in this header and of the functions NESOBACKEND_... that backends export.
 * Within a major version things are only added, and each addition raises the minor version: what was
 * built against this header works with a library of the same major and the same or a higher minor
 * version. docs/decisions/neso-api.md has the rules. */
#define NESO_API_VERSION_MAJOR 1
#define NESO_API_VERSION_MINOR 0

/* Returns the version above as the library was built with it. A plug-in that also runs on other servers
 * refers to this function as a weak symbol.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ApiVersion(uint32_t *major, uint32_t *minor);

/* A third TRITONSERVER_LogFormat, for TRITONSERVER_ServerOptionsSetLogFormat(): each line of the
 * log is one JSON object with the keys "ts" (RFC 3339, UTC), "level", "pid", "at" (file:line) and
 * "msg". */
#define NESO_LOG_FORMAT_JSON ((TRITONSERVER_LogFormat)2)

/* A second TRITONSERVER_MetricFormat: OpenMetrics 1.0. Samples have the names that they have in
 * TRITONSERVER_METRIC_PROMETHEUS; buckets of latencies have exemplars with the ids of traced requests;
 * counters whose names do not end in "_total" are of the type "unknown". */
#define NESO_METRIC_OPENMETRICS ((TRITONSERVER_MetricFormat)1)

/* The same as TRITONSERVER_ServerMetrics(), for the format with which TRITONSERVER_MetricsFormatted() will
 * be called: TRITONSERVER_METRIC_PROMETHEUS or NESO_METRIC_OPENMETRICS. TRITONSERVER_MetricsDelete()
 * frees the metrics.
 *
 * INVALID_ARG when `server` or `metrics` is NULL or the format is another one. UNAVAILABLE when memory is
 * short. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerMetrics(
        struct TRITONSERVER_Server *server, TRITONSERVER_MetricFormat format,
        struct TRITONSERVER_Metrics **metrics);

/* The version of the server library, such as "0.1.0". Valid as long as the library is loaded. */
TRITONSERVER_DECLSPEC const char *NESO_Version(void);

/* Writes a line of `byte_size` bytes, which excludes the newline, to the destination of the log,
 * unchanged: no level, no time, no quoting. The access log uses it. The line and its newline reach the
 * file in one write, so lines of different threads do not mix. The caller must have escaped text that
 * came from a peer.
 *
 * INVALID_ARG when `line` is NULL and byte_size is not 0, or when the line contains a newline. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_LogLine(const char *line, size_t byte_size);

/* One of the last warnings and errors of the log. Texts are valid during the callback. */
struct NESO_LogRecentLine {
        uint64_t              number;  /* 1, 2, ... in the order of the log */
        uint64_t              wall_ms; /* milliseconds since the epoch */
        TRITONSERVER_LogLevel level;   /* TRITONSERVER_LOG_WARN or TRITONSERVER_LOG_ERROR */
        const char           *file;    /* source file, without its directory */
        uint32_t              line;
        const char           *message; /* its first 512 bytes */
};

/* Whether the last 200 warnings and errors of the log are kept in memory; initially false. With false
 * later lines are not kept.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_LogKeepRecent(bool keep);

/* Calls `line` for each kept line whose number is greater than `after`, the oldest first. It runs within
 * the call, with no lock held.
 *
 * INVALID_ARG when `line` is NULL. */
typedef void (*NESO_LogRecentFn_t)(const struct NESO_LogRecentLine *line, void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_LogRecent(uint64_t           after,
                                                                NESO_LogRecentFn_t line,
                                                                void              *userp);

/* Makes fatal signals report the plug-in that was running: at SIGSEGV, SIGABRT, SIGBUS, SIGFPE and
 * SIGILL one line goes to stderr with the signal, the library, its function that was called, and the
 * model. Then the previous handler runs, or the process ends as it would have without this. `neso
 * serve` calls this function; a program with an embedded server may. The effect lasts until the process
 * ends; further calls change nothing. A program that handles one of these signals itself, and passes on
 * signals that it does not handle, calls this function first and installs its handler afterwards.
 *
 * INTERNAL when the kernel refuses. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ReportCrashes(void);

/* Returns whether the model of a request is decoupled, that is, may send several responses or none. A
 * caller that already has a request avoids the look-up of the model by
 * TRITONSERVER_ServerModelTransactionProperties(). `is_decoupled` is written on success.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestIsDecoupled(
        struct TRITONSERVER_InferenceRequest *inference_request, bool *is_decoupled);

/* Bounds the memory of a decoupled model's responses while their reader is slow. The limits count the
 * responses of the request that the backend has created and that were not deleted yet: each with its
 * outputs and a small overhead. While there are `max_responses` of them or more, or `max_bytes` or
 * more, the backend waits when it creates the next one. One response can always be created. So a
 * program that calls TRITONSERVER_InferenceResponseDelete() when a response has reached its reader
 * slows the backend down to the reader's pace. TRITONSERVER_InferenceRequestCancel() ends the waiting.
 * Responses of an ensemble that waited for room are sent on the thread that makes it: so the deletion of a
 * response, and the cancellation, may call the response callback, and must not be made with a lock that
 * this callback takes.
 *
 * All responses of a server that exist under limits, or between the steps of ensembles, take at most a
 * quarter of its memory budget (NESO_ServerOptionsSetMemoryBudget()). Beyond it a backend waits before each
 * request's fifth response, or the second one when they are large; before the third, when the budget is
 * nearly used up.
 *
 * To be called before TRITONSERVER_ServerInferAsync(); the limits also apply to further uses of the
 * request. A backend does not wait on a thread that NESO_ThreadAllowInlineExecution() allows to run
 * models, nor for models that preserve the order of responses.
 *
 * INVALID_ARG when `inference_request` is NULL or a limit is 0; UNAVAILABLE when the memory budget is used
 * up. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestLimitResponses(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t max_responses,
        uint64_t max_bytes);

/* Whether the server's response cache, if there is one, may store the answer to a request; initially
 * true. To be set to false for a request with inputs or outputs in memory that others may write to
 * while it runs, such as a client's shared memory: a client that changes the bytes after they were
 * hashed would determine the answers to other clients. An answer that is already in the cache is used
 * in either case. The setting remains until it is changed.
 *
 * INVALID_ARG when `inference_request` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestSetCacheable(
        struct TRITONSERVER_InferenceRequest *inference_request, bool cacheable);

/* Whether the allocator of a request's responses may give memory of a GPU for outputs; initially false. With
 * true no thread that NESO_ThreadAllowInlineExecution() allows to run models waits for the copy of an output to
 * that memory, as none waits for the copy of an input that lies on a GPU: the execution is left to a thread of
 * the model's instances, an answer of the cache to a thread of the cache, and an answer of an ensemble that such
 * a thread would send to a thread of the ensembles. To be called before TRITONSERVER_ServerInferAsync(). The
 * setting remains until it is changed.
 *
 * INVALID_ARG when `inference_request` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestSetDeviceOutputs(
        struct TRITONSERVER_InferenceRequest *inference_request, bool on_devices);

/* Whether a request to a model with a `next` model (docs/chains.md) runs that model alone, as a step of
 * an ensemble does; initially false: it runs the chain. For requests that a backend makes and that
 * expect the outputs of the named model. The request's own boolean parameter `chain` takes precedence.
 * The setting remains until it is changed.
 *
 * INVALID_ARG when `inference_request` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestSetRunsAlone(
        struct TRITONSERVER_InferenceRequest *inference_request, bool alone);

/* Calls `step` with the name of each model that will run the request: those of the steps of an ensemble
 * and of the stages of a chain, also of nested ones, each as often as it runs; else the request's own
 * model. Sets *is_composed to true for an ensemble or a chain. To be called after
 * NESO_InferenceRequestSetRunsAlone() and the parameters.
 *
 * A backend whose executions wait for other models uses this to find calls that could never be served.
 * The callback runs within the call, and the name is valid during the callback.
 *
 * INVALID_ARG when a pointer other than `userp` is NULL. */
typedef void (*NESO_ModelStepFn_t)(const char *model_name, void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelSteps(
        struct TRITONSERVER_InferenceRequest *inference_request, bool *is_composed,
        NESO_ModelStepFn_t step, void *userp);

/* Returns the configuration of the input `name` of a request's model: data type and dimensions; -1 is
 * any size. `is_batched`: a batch dimension comes in front of the dimensions and is not among them. If
 * the model has no such input, `datatype` is TRITONSERVER_TYPE_INVALID. `shape` is valid as long as the
 * request. The result is that of the loaded model that the request will run on, even if another version
 * has replaced it meanwhile. Unlike TRITONSERVER_ServerModelMetadata() this function prints no JSON.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
        bool *is_batched);

/* Returns the name of input number `index` of a request's model, in the order of its configuration; NULL
 * when it has fewer inputs. The name is valid as long as the request. The result is that of the loaded
 * model that the request will run on, as for NESO_InferenceRequestModelInput().
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelInputName(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t index, const char **name);

/* Returns whether a request may leave out the input `name` of its model: it is optional there, or the model has no
 * such input. The result is that of the loaded model that the request will run on.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelInputIsOptional(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        bool *is_optional);

/* Returns the string value of the parameter `key` in the configuration of a request's model; NULL when it
 * has no such parameter. The value is valid as long as the request.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelParameter(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *key,
        const char **value);

/* Returns what is known of a request's model as it was loaded: its max_batch_size, 0 when it does not
 * batch, and the time at which it was loaded in seconds since the epoch.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelLoad(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t *max_batch_size,
        uint64_t *loaded_at_s);

/* Whether the calling thread may run models itself; initially false. With `allow`,
 * TRITONSERVER_ServerInferAsync() may execute a small model before it returns, and the callbacks of the
 * request then run within the call, on this thread. This saves two switches between threads. A thread
 * that submits while it holds a lock which a callback takes must not allow it. Models with the
 * parameter inline_execution "always" run inline on every thread, models with "never" on none.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadAllowInlineExecution(bool allow);

/* For threads that submit many requests in a row, such as event loops: wakes the instances for the
 * requests that this thread has submitted since its last call. With its first call a thread promises to
 * call again before each wait. From then on TRITONSERVER_ServerInferAsync() may leave an idle instance
 * asleep until the next call (for tens of microseconds at most), so that requests which arrived
 * together are executed together. A thread that may run models itself may also run them within this
 * call, with the callbacks of the requests: the caller must hold no lock which a callback takes.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadWakeInstances(void);

/* For backends that answer many requests in a row. Between the two calls this thread only sends
 * responses and releases requests, and their receivers may defer the wake-ups of other threads until
 * the end, so that one wake-up serves all responses. Pairs nest. A pair that is still open when
 * TRITONBACKEND_ModelInstanceExecute() returns is ended by the server; on a thread of the backend's own
 * it is not, and then clients wait forever. Other servers do not have these functions: a backend that
 * also runs there refers to them as weak symbols.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadBeginResponses(void);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadEndResponses(void);

/* For callbacks of responses and of releases. When more responses follow at once on this thread (see
 * above), `is_deferred` is set to true, and `call(userp)` runs after them, on this thread, once for each
 * request to do so. Otherwise it is set to false, `call` will not run, and the callback wakes its
 * threads itself.
 *
 * INVALID_ARG: `call` or `is_deferred` is NULL. */
typedef void (*NESO_AfterResponsesFn_t)(void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadAfterResponses(
        NESO_AfterResponsesFn_t call, void *userp, bool *is_deferred);

/* How many responses a backend may create now without waiting for a slow reader: UINT32_MAX when there
 * is no limit or the request is cancelled. TRITONBACKEND_ResponseNewFromFactory() waits when it is 0. A
 * backend that serves several requests on one thread asks first, so that one slow reader does not hold
 * up the others. The number only shrinks by responses that the backend creates itself.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ResponseFactoryRoom(
        struct TRITONBACKEND_ResponseFactory *factory, uint32_t *room);

/* When NESO_ResponseFactoryRoom() gives 0: `is_waiting` is set to true, and `call(userp)` follows once, as
 * soon as there is room or the request is cancelled. Otherwise `is_waiting` is set to false, and `call`
 * will not run. `call` runs on any thread, possibly before this function returns. It must not block, nor
 * create responses: it wakes the thread that does. One call at a time may be outstanding for a request,
 * and the factory must not be deleted before it has run.
 *
 * INVALID_ARG when an argument other than `userp` is NULL. */
typedef void (*NESO_RoomFn_t)(void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ResponseFactoryWhenRoom(
        struct TRITONBACKEND_ResponseFactory *factory, NESO_RoomFn_t call, void *userp,
        bool *is_waiting);

/* TRITONSERVER_ServerIsReady(), or with a `model_name` TRITONSERVER_ServerModelIsReady(), as far as the
 * server knows without a call of a backend. It takes no longer with more models, and waits for nothing.
 *
 * `asks_backends` is set to true when those functions would call backends that export
 * TRITONBACKEND_ModelInstanceReady, which may take seconds; `ready` is true then, but a backend may report
 * something else. Otherwise it is set to false, and `ready` is what those functions return.
 *
 * INVALID_ARG when an argument other than `model_name` is NULL; UNAVAILABLE when the server is exiting. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerReadiness(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        bool *ready, bool *asks_backends);

/* While it drains, a server is not ready (TRITONSERVER_ServerIsReady(), and NESO_ReadyWatch is called), so that
 * balancers send requests elsewhere; it serves all that arrive. Models are ready as before.
 *
 * INVALID_ARG when the server is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerSetDraining(
        struct TRITONSERVER_Server *server, bool draining);

struct NESO_CancelWatch;
struct TRITONBACKEND_Request;
typedef void (*NESO_CancelledFn_t)(void *userp);

/* Calls `cancelled(userp)` once when the request is cancelled, for a backend whose execution waits for something
 * that it can end: another request, a device, a remote server. It runs on the thread that cancels, possibly an
 * event loop, or within this function when the request was cancelled before. It must not block, nor delete
 * the watch. The watch may outlive the request: a decoupled model may be interested until its last response.
 *
 * NESO_CancelWatchDelete() waits for a running call, so it must not be called with a lock that `cancelled`
 * takes. When it returns, `userp` is not used any more. NULL is fine.
 *
 * INVALID_ARG when a pointer other than `userp` is NULL, UNAVAILABLE when memory is short. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_CancelWatchNew(
        struct NESO_CancelWatch **watch, struct TRITONBACKEND_Request *request,
        NESO_CancelledFn_t cancelled, void *userp);

/* Ends a watch, see NESO_CancelWatchNew(). Always NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_CancelWatchDelete(
        struct NESO_CancelWatch *watch);

/* Calls `changed` when the results of TRITONSERVER_ServerIsLive(), TRITONSERVER_ServerIsReady() and
 * TRITONSERVER_ServerModelIsReady() may have changed: the server begins to exit, or a version of a
 * model begins to load, is ready, has failed or is unloaded. `changed` has to query the new state.
 * Changes that backends report for their instances (TRITONBACKEND_ModelInstanceReady) cause no call.
 *
 * `changed` runs on the thread that made the change, which may be any, with no lock held, and possibly
 * several times at once. It must not block. Changes in quick succession may cause a single call. No
 * change after the return of NESO_ReadyWatchNew() is missed.
 *
 * NESO_ReadyWatchDelete() waits for running calls: when it returns, `userp` is not used any more. So it
 * must not be called within `changed`, nor with a lock that `changed` takes. It must be called before
 * the server is deleted; NULL is fine.
 *
 * INVALID_ARG when `watch`, `server` or `changed` is NULL. */
typedef void (*NESO_ReadyWatchFn_t)(void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ReadyWatchNew(
        struct NESO_ReadyWatch **watch, struct TRITONSERVER_Server *server,
        NESO_ReadyWatchFn_t changed, void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ReadyWatchDelete(
        struct NESO_ReadyWatch *watch);

/* In the callback of a TRITONSERVER_TRACE_CUSTOM_ACTIVITY: returns the name that was passed to
 * TRITONSERVER_InferenceTraceReportActivity(), valid during the callback. NULL outside of such a
 * callback.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceTraceCustomActivity(
        struct TRITONSERVER_InferenceTrace *trace, const char **activity_name);

/* Counts one request that a front end refused because of a limit of its own (a body too large, too many
 * connections): increments the counter neso_rejected_total{limit="<limit>"}, which
 * TRITONSERVER_ServerMetrics() reports. `limit` is the name of the limit, copied. Use a fixed set of
 * names, since each new name creates a series.
 *
 * INVALID_ARG when `server` or `limit` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerObserveRejected(
        struct TRITONSERVER_Server *server, const char *limit);

/* Polls as TRITONSERVER_ServerPollModelRepository() does, but returns once the repositories were read;
 * the loads and unloads continue in the background. So a model whose load never ends does not block
 * later polls of all other models. A poll skips models that are being loaded or unloaded; a later poll
 * sees their changes.
 *
 * UNAVAILABLE unless the server's mode is TRITONSERVER_MODEL_CONTROL_POLL and it is ready, INVALID_ARG
 * when `server` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerStartPoll(
        struct TRITONSERVER_Server *server);

/* Counts one request that a front end refused because of its API key: increments the counter
 * neso_api_key_refused_total{key="<key>",reason="<reason>"}, which TRITONSERVER_ServerMetrics()
 * reports. `key` is the name of the key (never the key itself), "" when none was given or it is
 * unknown; `reason` is "missing", "unknown", "group" or "model". Both are copied. Use fixed sets of
 * names, since each new pair creates a series.
 *
 * INVALID_ARG when an argument is NULL, or beyond 16384 series. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerObserveKeyRefused(
        struct TRITONSERVER_Server *server, const char *key, const char *reason);

/* Reads a metric of the kind TRITONSERVER_METRIC_KIND_HISTOGRAM, as TRITONSERVER_MetricValue() reads the
 * others: sets counts[i] to the number of values in bucket i, above bound i - 1 and up to bound i (not
 * cumulative), the last one being that of the values above all bounds, and *sum to the sum of the values.
 *
 * INVALID_ARG when an argument is NULL or n_counts is not the number of bounds + 1, UNSUPPORTED for another
 * kind of metric. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_MetricHistogram(
        struct TRITONSERVER_Metric *metric, uint64_t *counts, uint64_t n_counts, double *sum);

/* What a version of a model has done since it was loaded, and what it does now. The numbers are those
 * of TRITONSERVER_ServerMetrics(), as they are at one moment. Members may be added at the end. */
enum { NESO_PHASES = 5, NESO_LATENCY_BUCKETS = 22, NESO_FAILURE_REASONS = 4 };
struct NESO_ModelActivity {
        const char *model_name; /* valid during the callback */
        int64_t     model_version;
        uint64_t    success;                        /* requests, those from the cache included */
        uint64_t    failures[NESO_FAILURE_REASONS]; /* other, backend, canceled, rejected */
        uint64_t    inferences;                     /* rows of successful requests */
        uint64_t    executions;
        uint64_t    executed_inferences; /* rows of executions */
        uint64_t    cache_hits, cache_misses;
        uint64_t    busy_ns;     /* sum of the durations of all executions */
        uint64_t    pending;     /* requests in the queue */
        uint64_t    n_instances; /* 0: the model is made of other models */
        uint64_t    n_sequences; /* live ones, with and without a slot */
        /* Of request, queue, compute input, compute infer and compute output: the number of successful
         * requests by duration. Bucket k holds what took up to 10 us * 2^k, the last one all longer ones. */
        uint64_t latency[NESO_PHASES][NESO_LATENCY_BUCKETS];
        uint64_t phase_ns[NESO_PHASES]; /* sums of the durations that `latency` counts */
};

/* Calls `visit` for each version of a model that is ready. It runs within the call, with no lock held. A
 * program that shows live numbers calls this once a second or so: unlike
 * TRITONSERVER_ServerModelStatistics() and TRITONSERVER_ServerMetrics() it prints no text.
 *
 * INVALID_ARG when an argument other than `userp` is NULL; UNAVAILABLE when the server is exiting. */
typedef void (*NESO_ModelActivityFn_t)(const struct NESO_ModelActivity *activity, void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelActivity(
        struct TRITONSERVER_Server *server, NESO_ModelActivityFn_t visit, void *userp);

/* Lists the live sequences of a model with sequence_batching. model_version -1: those of all its
 * versions. Loads that were replaced or unloaded are included as long as they have live sequences.
 * `sequences` is JSON, to be deleted with TRITONSERVER_MessageDelete():
 *
 *     {"model_sequences": [
 *       {"name": "...", "version": "1", "retired": false, "active": 2, "backlog": 1, "sequences": [
 *         {"id": 7, "instance": "...", "slot": 0, "requests": 1, "age_us": 4711, "idle_us": 0,
 *          "ending": false}], "left_out": 0}]}
 *
 * A load that is "retired" begins no sequences. An "id" is a number or a string. A sequence without
 * "instance" and "slot" is in the backlog. A sequence that is "ending" accepts no more requests. At
 * most 1000 sequences are listed; "left_out" is the number of further ones. The listing does not block
 * the schedulers: sequences that begin or end meanwhile may be missing.
 *
 * INVALID_ARG when an argument is NULL, the model or version is not loaded, or has no
 * sequence_batching. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelSequences(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        struct TRITONSERVER_Message **sequences);

/* Returns the call stacks of a model's processes, to find where a model hangs. It works for models
 * whose instances are processes of their own, such as those of the python backend. `model_version` -1
 * is the highest. `stacks` is JSON, to be deleted with TRITONSERVER_MessageDelete():
 *
 *     {"name": "m", "version": "1", "instances": [
 *       {"name": "m_0", "process": {"pid": 4711, "executing_ms": 8012, "cut": false,
 *                                   "stacks": "Thread 0x00007f... (most recent call first):\n..."}},
 *       {"name": "m_1", "error": "Stub process 'm_1' is not healthy."}], "left_out": 0}
 *
 * "executing_ms" is the time since the oldest running execution began, 0 when there is none. Text of
 * "stacks" beyond 64 KiB is cut; instances beyond 1 MiB in total are left out. The call waits some
 * seconds for a process that does not respond. A backend supports this by exporting
 *
 *     TRITONSERVER_Error *NESOBACKEND_ModelInstanceStacks(
 *             TRITONBACKEND_ModelInstance *instance, TRITONSERVER_Message **stacks);
 *
 * which creates the JSON of "process"; it is called on any thread, concurrently with the instance's
 * execution.
 *
 * NOT_FOUND when there is no such model, UNSUPPORTED when its backend does not export the function,
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelStacks(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        struct TRITONSERVER_Message **stacks);

/* Returns the GPUs that the server may use, as JSON, to be deleted with TRITONSERVER_MessageDelete():
 *
 *     {"gpus": [
 *       {"device": 0, "name": "...", "uuid": "GPU-...", "pci_bus_id": "0000:01:00.0",
 *        "compute_capability": "9.0", "memory_total_bytes": 85899345920, "utilization": 0.25,
 *        "memory_used_bytes": 67108864, "power_watts": 75.5, "power_limit_watts": 300,
 *        "energy_joules": 1000.25, "pool_total_bytes": 67108864, "pool_used_bytes": 1024}]}
 *
 * The list is empty without GPUs. Members from "utilization" to "energy_joules" are missing when NVML
 * cannot tell them, or with allow-gpu-metrics=false; they are at most one metrics interval old. The call
 * may take some milliseconds.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerGpus(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_Message **gpus);

/* Bytes to copy from one place to another. Ids are those of GPUs; they mean nothing for memory of the host.
 * The places do not overlap. */
struct NESO_MemoryCopy {
        void                   *to;
        const void             *from;
        uint64_t                byte_size;
        TRITONSERVER_MemoryType to_type;
        TRITONSERVER_MemoryType from_type;
        int64_t                 to_id;
        int64_t                 from_id;
};

/* For backends that look at the memory types of tensors: makes all copies, in any order, and returns when
 * the last one has ended, mostly with one wait for each GPU that takes part. Bytes go from one GPU to another
 * as --enable-peer-access permits. No default stream is used, no device is synchronised, and the context
 * that is current on the thread stays. After an error the destinations have any bytes.
 *
 * INVALID_ARG when `manager` is NULL, when `copies` is NULL with an `n` above 0, or for an unknown GPU or type
 * of memory; UNSUPPORTED for memory of a GPU in a server without GPUs; UNAVAILABLE with the driver's text. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_MemoryManagerCopy(
        struct TRITONBACKEND_MemoryManager *manager, const struct NESO_MemoryCopy *copies,
        uint32_t n);

/* Sets an option by its name on the command line, from the same text: "chain-strict-unload", "true". An
 * option that may be given several times gets one more value. The options that a server in a program has
 * are listed at the end of docs/options.md; a few of them mean less than on the command line:
 *
 *     memory-budget        the memory for the implicit states of sequences. A model whose states of one
 *                          sequence never fit is not loaded; a request whose states do not fit now
 *                          fails with UNAVAILABLE
 *     scheduler            a name without a library is an error of each model that needs it, not of the
 *                          server. Models with sequences, batch ranges or a custom batching library keep
 *                          their own scheduler, and so do ensembles and chains
 *     scheduler-directory  searched after the directories of the model and its version; "", the
 *                          default: no further directory
 *
 * INVALID_ARG when an argument is NULL, when there is no such option, or when it does not take the
 * value; the text names the option and what it takes. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetByName(
        struct TRITONSERVER_ServerOptions *options, const char *option_name, const char *value);

/* Whether TRITONSERVER_ServerLoadModelWithParameters() accepts code among the uploaded files: shared
 * objects (a backend, custom batching, any file that begins as one), Python programs, and, in the given
 * configuration, names of libraries, programs and other files that the model's config.pbtxt does not have. The reference server accepts
 * them, so that a client that may load models can run code as the server. By default such a load fails
 * with UNSUPPORTED before a file is written. A program that loads only files of its own may allow it; a
 * program that passes on files of its clients should not.
 *
 * INVALID_ARG when `options` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetAllowUploadedBackends(
        struct TRITONSERVER_ServerOptions *options, bool allow);

/* Whether the error of a load that began no version ends with the reason:
 *
 *     failed to load 'm', failed to poll from model repository: repository agent ...
 *
 * By default the reason is in the log only, as in the reference server. With it, clients that may load
 * models see paths of the server.
 *
 * INVALID_ARG when `options` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetLoadReasons(
        struct TRITONSERVER_ServerOptions *options, bool tell);

/* Limits the memory that requests take inside of the server, in bytes: outputs between the steps of
 * ensembles and chains, the requests to these steps, and the responses of decoupled models. Memory of the
 * program, such as that of its allocators, is not among it. 0, the default: a quarter of what the
 * process may use. What does not fit is refused with UNAVAILABLE; a decoupled model waits until its
 * responses were deleted.
 *
 * `used_bytes` is NULL, or a counter of the program, which must exist as long as the server: both count
 * the bytes that they use there, so that they share one budget. The server changes it with the atomic
 * operations of C11 (`_Atomic size_t`).
 *
 * INVALID_ARG when `options` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetMemoryBudget(
        struct TRITONSERVER_ServerOptions *options, uint64_t byte_size, size_t *used_bytes);

/* Lets another thread end a start that takes too long, see NESO_ServerEndStart(). TRITONSERVER_ServerNew()
 * calls `start` twice, on its own thread and with no lock held: with the server before it loads models, and
 * with NULL when this has ended, also in vain. The server must not be used for anything else meanwhile, and
 * not after the second call before TRITONSERVER_ServerNew() has returned it. NULL: no calls.
 *
 * INVALID_ARG when `options` is NULL. */
typedef void (*NESO_ServerStartFn_t)(struct TRITONSERVER_Server *server, void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetStartFunction(
        struct TRITONSERVER_ServerOptions *options, NESO_ServerStartFn_t start, void *userp);

/* Ends the start of a server, between the two calls of NESO_ServerStartFn_t: no further model is loaded, and
 * downloads and warm-ups end. Does not wait. TRITONSERVER_ServerNew() returns UNAVAILABLE "Server exiting" when
 * the models that are being initialized have ended that, which no function can end, and were unloaded. No
 * effect on a server that has started.
 *
 * INVALID_ARG when `server` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerEndStart(
        struct TRITONSERVER_Server *server);

/* Returns the lines of the file that the configuration of a loaded model was read from, as JSON to be
 * deleted with TRITONSERVER_MessageDelete():
 *
 *     {"name": "m", "version": "1", "file": "config.pbtxt", "changed": false,
 *      "lines": {"max_batch_size": 3, "input": 4, "input[0]": 4, "input[0].dims": 7, ...}}
 *
 * "file" is in the model's directory. It is null, and the others are missing, when there is no such file
 * or the configuration came with a load request. "changed": the file is another one than that of the load.
 * What the configuration has and "lines" has not was filled in. Lines count from 1. `model_version` -1 is
 * the highest. The call reads the file.
 *
 * NOT_FOUND when there is no such model, UNAVAILABLE when the file cannot be read, INVALID_ARG when an
 * argument is NULL or the name is ambiguous. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelConfigSource(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        struct TRITONSERVER_Message **source);

/* Returns the models of the chain that begins with this model, in order, as JSON to be deleted with
 * TRITONSERVER_MessageDelete():
 *
 *     {"name":"A","stages":[{"name":"A","version":"1","ready":true}, ...],"max_batch_size":8}
 *
 * A stage that is not loaded has no "version". `model_version` -1 is the highest.
 *
 * NOT_FOUND when there is no such model, or no chain begins with it; INVALID_ARG when an argument is
 * NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelChain(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        struct TRITONSERVER_Message **chain);

/* The initialization of this model, which is being loaded, waits for the loads and unloads that the
 * calling thread requests from now on; NULL ends that. The model gives its place among the loads that run
 * at a time to them, and a load that waits for that model itself is refused. `model_name` is valid until
 * the end. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadLoadsFor(const char *model_name,
                                                                     int64_t     model_version);

/* Load parameters of one model, as for TRITONSERVER_ServerLoadModelWithParameters(). */
struct NESO_LoadParameters {
        const struct TRITONSERVER_Parameter **parameters; /* may be NULL when there are none */
        uint64_t                              parameter_count;
};

/* Returns whether the caller of a load or an unload has the right to a further model. */
typedef bool (*NESO_ModelPermitFn_t)(const char *model_name, void *userp);

/* TRITONSERVER_ServerLoadModelWithParameters() for a caller that has a right to some models only.
 * `permits` is called for each model that a configuration or a parameter of this load names: a step of
 * an ensemble, a stage of a chain, the next model. It runs on the calling thread, within the call. It
 * is not called for what a configuration of the repository names, nor for `model_name`.
 *
 * INVALID_ARG when `permits` returned false; then nothing was loaded. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerLoadPermittedModel(
        struct TRITONSERVER_Server *server, const char *model_name,
        const struct TRITONSERVER_Parameter **parameters, const uint64_t parameter_count,
        NESO_ModelPermitFn_t permits, void *userp);
/* TRITONSERVER_ServerUnloadModelAndDependents() for such a caller. `permits` is called for each model
 * that the model needs, directly or indirectly. INVALID_ARG when it returned false; then nothing was
 * unloaded. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerUnloadPermittedModels(
        struct TRITONSERVER_Server *server, const char *model_name, NESO_ModelPermitFn_t permits,
        void *userp);

/* Loads the models as a chain in the order of the list (docs/chains.md). The last model is loaded
 * first; each other one gets its successor as the load parameter `next`, which `parameters` must not
 * contain. All are ready when the call returns. A single model is loaded as by
 * TRITONSERVER_ServerLoadModelWithParameters().
 *
 * `parameters` has one element for each model. `loaded` has room for as many names and receives those
 * of `models`, in that order: requests for the chain go to the first.
 *
 * INVALID_ARG when the counts differ, a name or another pointer is NULL, or `next` is given; then no
 * model was loaded. Any other error is that of one load; the models after that one stay loaded. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerLoadChain(
        struct TRITONSERVER_Server *server, const char *const *models, uint64_t model_count,
        const struct NESO_LoadParameters *parameters, uint64_t parameters_count,
        const char **loaded);

/* Returns the identity of an instance among the members of its model (docs/batching.md): the name of
 * its instance group, its index in the group (that of its virtual instance), and the file of the
 * version's directory that the parameter `member_files` gives the group, or NULL. The texts are valid
 * as long as the instance. A backend that also runs on other servers refers to this function as a weak
 * symbol. A backend may also export
 *
 *     TRITONSERVER_Error *NESOBACKEND_ModelInstanceBatchRange(
 *             TRITONBACKEND_ModelInstance *instance, uint32_t *min_rows, uint32_t *max_rows);
 *
 * which is called once, after TRITONBACKEND_ModelInstanceInitialize(), and returns the batch sizes that
 * the instance takes, in rows. On entry both values are those of the model; the backend may leave them
 * unchanged.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceMember(
        struct TRITONBACKEND_ModelInstance *instance, const char **group_name, uint32_t *index,
        const char **file);

/* For the statistics of a backend: when the running TRITONBACKEND_ModelInstanceExecute() began, in
 * nanoseconds of CLOCK_MONOTONIC. The server has read the clock already, so the backend need not; a step
 * of an ensemble or a chain begins when the step before it has ended. Outside an execution it is the time
 * now. A backend that also runs on other servers refers to this function as a weak symbol.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceExecutionStart(
        struct TRITONBACKEND_ModelInstance *instance, uint64_t *start_ns);

/* Whether a parameter of the model's configuration, parameters { key value }, came with a load request.
 * A parameter that the config.pbtxt of the model's directory in the repository has with the same value did
 * not; with uploaded files, whose directory is the client's, every parameter did. With
 * NESO_ServerOptionsSetAllowUploadedBackends() none did, since the client may run programs anyway. A
 * backend refuses a sent parameter that names a file or a program: a client that may load models should
 * not be able to write files, or to run programs, as the server. A backend that also runs on other
 * servers refers to this function as a weak symbol.
 *
 * `is_sent` is false for a parameter that the configuration does not have. INVALID_ARG when an argument is
 * NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelParameterIsSent(
        struct TRITONBACKEND_Model *model, const char *name, bool *is_sent);

/* Declares, within TRITONBACKEND_ModelInitialize, that the backend looks at the memory types of this model's
 * tensors, whatever the kinds of its instances: with `inputs` it gets inputs where they lie, with `outputs` it
 * writes outputs where the allocator says, also in the memory of GPUs. Without the call, and for what is false,
 * the kinds of the instances and NESO_BACKEND_HOST_MEMORY decide. A backend that also runs on other servers
 * refers to this function as a weak symbol, and so to the three that follow.
 *
 * INVALID_ARG when `model` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelUseDeviceMemory(
        struct TRITONBACKEND_Model *model, bool inputs, bool outputs);

/* Memory of GPUs between processes, for a backend that is not linked with CUDA. `manager` is that
 * of TRITONBACKEND_BackendMemoryManager(); `device` is a memory type id. Errors of the driver are UNAVAILABLE
 * or, for a handle that is none, INVALID_ARG, with the driver's text. INVALID_ARG when a pointer is NULL or the
 * server has no such GPU; UNSUPPORTED in a server without GPUs. */

#define NESO_DEVICE_HANDLE_BYTES 64 /* of CUDA's handle for another process */

/* Returns the handle of the allocation that `memory` lies in, and the place of `memory` there. The other process
 * opens the whole allocation, which for memory of a pool is the pool. Memory that this process has opened itself
 * has no handle of its own: `known_handle` is then that of its owner, as TRITONSERVER_BufferAttributes has it;
 * otherwise it is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_DeviceMemoryShare(
        struct TRITONBACKEND_MemoryManager *manager, int64_t device, const void *memory,
        const void *known_handle, void *handle, uint64_t *offset);

/* Opens an allocation of another process and returns its begin. INVALID_ARG when it has fewer than `byte_size`
 * bytes. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_DeviceMemoryOpen(
        struct TRITONBACKEND_MemoryManager *manager, int64_t device, const void *handle,
        uint64_t byte_size, void **base);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_DeviceMemoryClose(
        struct TRITONBACKEND_MemoryManager *manager, int64_t device, void *base);

/* Objects, by key, that the instances of one instance group share: the first instance creates an object,
 * for example an engine, and deposits it; the others use it. The server destroys an object after the
 * last instance of the group was finalised, on the thread that finalised it, in the reverse order of
 * deposits. Texts are copied. A backend that also runs on other servers refers to both functions as weak
 * symbols.
 *
 * The server initialises, executes and finalises an instance on one thread, unless the backend declares
 * that any thread may execute it (NESO_BACKEND_INLINE_SAFE) or the model does (`inline_execution` is
 * "always").
 *
 * SharedGet: `object` is NULL when nothing was deposited under the key. INVALID_ARG when an argument is
 * NULL.
 * SharedSet: takes the object on success; `destroy` may be NULL. ALREADY_EXISTS when another instance
 * has deposited an object under the key; SharedGet returns that one. INVALID_ARG when another argument
 * is NULL. */
typedef void (*NESO_SharedDestroyFn_t)(void *object);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceSharedGet(
        struct TRITONBACKEND_ModelInstance *instance, const char *key, void **object);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceSharedSet(
        struct TRITONBACKEND_ModelInstance *instance, const char *key, void *object,
        NESO_SharedDestroyFn_t destroy);

/* Reads the configurations of a model repository, or of the one model whose directory `path` is, as a
 * server with these options would, and reports the problems. The function creates no server and opens
 * no backend, so problems that only a backend can find are not reported. It uses these `options`: the
 * directories of backends and repository agents, the name of configurations, and whether they are
 * completed.
 *
 * `report` is JSON, to be deleted with TRITONSERVER_MessageDelete():
 *
 *     {"path": "...", "is_model": false, "models": [
 *       {"name": "...", "directory": "...", "file": "<the configuration's, if there is one>",
 *        "problems": [{"severity": "error", "file": "...", "line": 3, "column": 5,
 *                      "field": "input[0].dims", "message": "..."}],
 *        "notes": [{"severity": "differs", "field": "optimization.cuda", ...}],
 *        "versions": [1], "config": {...}}]}
 *
 * A problem without "line" concerns its whole file or directory. A "warning" does not keep the model
 * from being loaded. Notes have the members of problems; they say which parts of the configuration work
 * as in the reference server ("works"), have another effect or none ("differs"), or keep the model from
 * loading ("missing"). "versions" and "config", completed and normalised, are present when no problem is
 * an error. A model with batch ranges also has "batch_plan": its element n - 1 lists the executions
 * that serve n rows: "8,4,1".
 *
 * INVALID_ARG when an argument is NULL; NOT_FOUND or INTERNAL when `path` is not a directory that can
 * be read. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelRepositoryCheck(
        struct TRITONSERVER_ServerOptions *options, const char *path,
        struct TRITONSERVER_Message **report);

#ifdef __cplusplus
}
#endif
