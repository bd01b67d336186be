/* SPDX-License-Identifier: BSD-3-Clause */
/* What Neso adds to the C API: the few things its own front end needs and a plain Triton server
 * does not have. A program that must also run against other servers does not include this.
 *
 * Ownership.  As in tritonserver.h: a returned error belongs to the caller.
 * Threads.  Every function may be called from any thread.
 */
#pragma once

#include "triton/core/tritonserver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A third TRITONSERVER_LogFormat, for TRITONSERVER_ServerOptionsSetLogFormat(): each line of the
 * log is one JSON object with the keys "ts" (RFC 3339, UTC), "level", "pid", "at" (file:line) and
 * "msg". */
#define NESO_LOG_FORMAT_JSON ((TRITONSERVER_LogFormat)2)

/* The version of the server that answers the calls, such as "0.1.0". Lives as long as the
 * library is loaded. */
TRITONSERVER_DECLSPEC const char *NESO_Version(void);

/* Writes a line of `byte_size` bytes, without its newline, to where the log goes, exactly as it
 * is: no level, no time, no quoting. The access log is written with it. The whole line and its
 * newline reach the file in one write, so lines of different threads do not mix. The caller must
 * have escaped what came from a peer.
 *
 * INVALID_ARG when `line` is NULL and byte_size is not 0, or when the line contains a newline. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_LogLine(const char *line, size_t byte_size);

/* Lets a fault that ends the process say which plug-in was at work: at SIGSEGV, SIGABRT, SIGBUS,
 * SIGFPE and SIGILL one line goes to stderr with the signal, the library, the function of it that
 * was called and the model; then the signal goes to who had it before, or ends the process as it
 * would have. `neso serve` asks for it; a program with a server in it may. It lasts until the
 * process ends; asking again changes nothing. A program that handles one of these signals itself,
 * and passes on what is not meant for it, asks first and puts its handler on top.
 *
 * INTERNAL when the kernel refuses. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ReportCrashes(void);

/* Whether the model of a request is decoupled: may answer it several times, or not at all. Spares
 * who has made a request already the search for its model that
 * TRITONSERVER_ServerModelTransactionProperties() does. `is_decoupled` is written on success.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestIsDecoupled(
        struct TRITONSERVER_InferenceRequest *inference_request, bool *is_decoupled);

/* Bounds what a decoupled model's responses cost while their reader is slow. Responses of the
 * request that the backend has made and nobody has deleted yet count, each with its outputs and a
 * little for itself; while there are `max_responses` of them or more, or `max_bytes` or more, the
 * backend waits where it makes the next one. One response can always be made. So a program that
 * calls TRITONSERVER_InferenceResponseDelete() when a response has reached its reader makes the
 * backend go at that reader's pace. TRITONSERVER_InferenceRequestCancel() ends the waiting.
 *
 * To be called before TRITONSERVER_ServerInferAsync(), and holds for further uses of the request.
 * Nothing waits on a thread that NESO_ThreadAllowInlineExecution() allows to run models, or for
 * models that preserve the order of responses.
 *
 * INVALID_ARG when `inference_request` is NULL or a limit is 0. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestLimitResponses(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t max_responses,
        uint64_t max_bytes);

/* Whether the answer to a request may be kept by the server's response cache, if it has one (at
 * first it may). Not for a request with inputs or outputs in memory that somebody else may write
 * to while it runs, such as a client's shared memory: whoever changes the bytes after they were
 * looked at would decide what other clients are answered. An answer that is kept already is given
 * in either case. It holds until it is set again.
 *
 * INVALID_ARG when `inference_request` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestSetCacheable(
        struct TRITONSERVER_InferenceRequest *inference_request, bool cacheable);

/* Whether a request to a model that has a next one (docs/chains.md) runs that model alone, as a step of an
 * ensemble does, instead of the chain (at first it runs the chain). For requests that a backend makes,
 * whose model was written for the outputs of the model that it names. The request's own parameter
 * `chain`, a boolean, wins over it. It holds until it is set again.
 *
 * INVALID_ARG when `inference_request` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestSetRunsAlone(
        struct TRITONSERVER_InferenceRequest *inference_request, bool alone);

/* What the model of a request says of its input `name`: data type, and dimensions of the
 * configuration, -1 being any size; without the batch dimension, which `is_batched` tells to come
 * in front of them. A `datatype` of TRITONSERVER_TYPE_INVALID: the model has no such input. `shape`
 * lives as long as the request. It is the very model that the request will run on, also when
 * another version has taken its place meanwhile; and no JSON is made to be read again, as
 * TRITONSERVER_ServerModelMetadata() does.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceRequestModelInput(
        struct TRITONSERVER_InferenceRequest *inference_request, const char *name,
        TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
        bool *is_batched);

/* Whether the calling thread may run models itself (off at first): with `allow`,
 * TRITONSERVER_ServerInferAsync() may execute a small model before it returns, and the callbacks
 * of the request then run within it, on this thread. That spares two hops between threads. A
 * thread that submits while it holds a lock which a callback takes must leave it off. Models with
 * the parameter inline_execution "always" do so on every thread, with "never" on none.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadAllowInlineExecution(bool allow);

/* For threads that submit many requests in a row, such as event loops: wakes the instances that
 * are to run what this thread has submitted since its last call. The first call on a thread is a
 * promise to call again before each wait; from then on TRITONSERVER_ServerInferAsync() may leave
 * an idle instance asleep until that moment (for some ten microseconds at most), so that requests
 * which arrived together are executed together. A thread that may run models itself may do so in
 * this call as well, with the callbacks of the requests: hold no lock which a callback takes.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadWakeInstances(void);

/* For backends that answer many requests in a row: between the two calls this thread only sends
 * responses and releases requests, and whoever receives them may put off until the end what tells
 * another thread, so that one wake-up serves all. Pairs nest; one that is still open when
 * TRITONBACKEND_ModelInstanceExecute() returns is ended for it, but nobody does so on a thread of the
 * backend's own, and then clients wait for ever. Servers other than Neso do not have these functions:
 * a backend that runs there as well refers to them as weak symbols.
 *
 * Never fails. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadBeginResponses(void);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadEndResponses(void);

/* For callbacks of responses and of releases: `is_put_off` is set when more responses follow at once
 * on this thread, see above; then `call(userp)` comes behind them, on this thread, once for each time
 * that it was asked for. Otherwise nothing was noted, and the callback tells its threads itself.
 *
 * INVALID_ARG: `call` or `is_put_off` is NULL. */
typedef void (*NESO_AfterResponsesFn_t)(void *userp);

TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ThreadAfterResponses(
        NESO_AfterResponsesFn_t call, void *userp, bool *is_put_off);

/* Tells when what TRITONSERVER_ServerIsLive(), TRITONSERVER_ServerIsReady() and
 * TRITONSERVER_ServerModelIsReady() say may have changed: the server begins to exit, a version of
 * a model begins to load, is ready, has failed or is unloaded. What it is now, `changed` asks for
 * itself. It is not told what backends say of their instances (TRITONBACKEND_ModelInstanceReady).
 *
 * `changed` runs on the thread that made the change, which may be any, with no lock held, and
 * possibly several times at once; it must not block, and changes that follow each other quickly
 * may be told as one. A change after NESO_ReadyWatchNew() has returned is not missed.
 *
 * NESO_ReadyWatchDelete() waits for calls that are running: when it returns, `userp` is not used
 * any more. So it must not be called within `changed`, nor with a lock that `changed` takes. It is
 * called before the server is deleted; NULL is fine.
 *
 * INVALID_ARG when `watch`, `server` or `changed` is NULL. */
struct NESO_ReadyWatch;
typedef void (*NESO_ReadyWatchFn_t)(void *userp);

TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ReadyWatchNew(
        struct NESO_ReadyWatch **watch, struct TRITONSERVER_Server *server,
        NESO_ReadyWatchFn_t changed, void *userp);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ReadyWatchDelete(
        struct NESO_ReadyWatch *watch);

/* In the callback of a TRITONSERVER_TRACE_CUSTOM_ACTIVITY: the name that was given to
 * TRITONSERVER_InferenceTraceReportActivity(). Lent for the callback; NULL outside of one.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_InferenceTraceCustomActivity(
        struct TRITONSERVER_InferenceTrace *trace, const char **activity_name);

/* Counts one request that a front end refused because of a limit of its own (a body too large,
 * too many connections): adds 1 to the counter neso_rejected_total{limit="<limit>"}, which
 * TRITONSERVER_ServerMetrics() reports. `limit` is the limit's name, copied; use a fixed set of
 * names, since each new one is a new series.
 *
 * INVALID_ARG when `server` or `limit` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerObserveRejected(
        struct TRITONSERVER_Server *server, const char *limit);

/* As TRITONSERVER_ServerPollModelRepository(), which returns when what it has found is loaded or
 * unloaded; this returns when it has looked, and the rest goes on behind it. So a model whose load
 * never ends does not keep later polls from all others. A look passes over models that are being
 * loaded or unloaded; what has changed of them is for a later one.
 *
 * UNAVAILABLE unless the server's mode is TRITONSERVER_MODEL_CONTROL_POLL and it is ready,
 * INVALID_ARG when `server` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerStartPoll(
        struct TRITONSERVER_Server *server);

/* Counts one request that a front end refused because of its API key: adds 1 to the counter
 * neso_api_key_refused_total{key="<key>",reason="<reason>"}, which TRITONSERVER_ServerMetrics()
 * reports. `key` is the key's name (never the key), "" when none was given or it is unknown;
 * `reason` is why ("missing", "unknown", "group", "model"). Both are copied; use fixed sets of
 * names, since each new pair is a new series.
 *
 * INVALID_ARG when an argument is NULL, or beyond 16384 series. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerObserveKeyRefused(
        struct TRITONSERVER_Server *server, const char *key, const char *reason);

/* The live sequences of a model with sequence_batching; model_version -1: of all its versions, of loads
 * that were replaced or unloaded as well, as long as they have some. `sequences` is JSON and to be
 * deleted with TRITONSERVER_MessageDelete():
 *
 *     {"model_sequences": [
 *       {"name": "...", "version": "1", "retired": false, "active": 2, "backlog": 1, "sequences": [
 *         {"id": 7, "instance": "...", "slot": 0, "requests": 1, "age_us": 4711, "idle_us": 0,
 *          "ending": false}], "left_out": 0}]}
 *
 * "retired" loads begin no sequences. An "id" is a number or a text; without "instance" and "slot" a
 * sequence is in the backlog; "ending" ones take no more requests. At most 1000 sequences are
 * listed, "left_out" is how many more there are. Schedulers are not held up: sequences that come or
 * go meanwhile may be listed or not.
 *
 * INVALID_ARG when an argument is NULL, the model or version is not loaded, or has no
 * sequence_batching. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelSequences(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        struct TRITONSERVER_Message **sequences);

/* Where the threads of a model's processes are, for a model that hangs: of models whose instances are
 * processes of their own, as those of the python backend. `model_version` -1 is the highest. `stacks` is
 * JSON and to be deleted with TRITONSERVER_MessageDelete():
 *
 *     {"name": "m", "version": "1", "instances": [
 *       {"name": "m_0", "process": {"pid": 4711, "executing_ms": 8012, "cut": false,
 *                                   "stacks": "Thread 0x00007f... (most recent call first):\n..."}},
 *       {"name": "m_1", "error": "Stub process 'm_1' is not healthy."}], "left_out": 0}
 *
 * "executing_ms" is how long the oldest execution runs, 0 when there is none. Text of "stacks" beyond
 * 64 KiB is cut; instances beyond 1 MiB in all are left out. A process that does not answer is waited for
 * some seconds. A backend takes part by exporting
 *
 *     TRITONSERVER_Error *NESOBACKEND_ModelInstanceStacks(
 *             TRITONBACKEND_ModelInstance *instance, TRITONSERVER_Message **stacks);
 *
 * which makes the JSON of "process", on any thread, beside the instance's execution.
 *
 * NOT_FOUND when there is no such model, UNSUPPORTED when its backend does not take part, INVALID_ARG
 * when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerModelStacks(
        struct TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
        struct TRITONSERVER_Message **stacks);

/* Whether TRITONSERVER_ServerLoadModelWithParameters() takes code along with the other files: shared
 * objects (a backend, custom batching, anything that begins as one) and Python programs, and, in
 * the configuration that is given, libraries of operators outside of the model's directory. The
 * reference server does, and whoever may load models then runs code as the server. Without it, as by
 * default, such a load ends with UNSUPPORTED before a file is written. A program that loads
 * only what it made itself may allow it; one that passes on what its clients send should not.
 *
 * INVALID_ARG when `options` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetAllowUploadedBackends(
        struct TRITONSERVER_ServerOptions *options, bool allow);

/* Whether the error of a load of which no version was begun has its reason behind it:
 *
 *     failed to load 'm', failed to poll from model repository: repository agent ...
 *
 * Without it, as by default, the reason is in the log alone, as the reference server does. Who may
 * load models learns paths of the server then.
 *
 * INVALID_ARG when `options` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetLoadReasons(
        struct TRITONSERVER_ServerOptions *options, bool tell);

/* Adaptive batching of models whose parameter `adaptive_batching` says nothing: "off", "idle" or
 * "flow" (docs/batching.md). "": off for models with dynamic_batching, so that their times are those
 * of the reference server, and flow for models with `batch_ranges`; that is the default.
 *
 * INVALID_ARG when an argument is NULL, or for another text. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetAdaptiveBatching(
        struct TRITONSERVER_ServerOptions *options, const char *adaptive_mode);

/* Whether a model that is the `next` of another one, or a stage of a chain, is refused to be unloaded
 * while that one is loaded. Without it, as by default, it is unloaded, and the other is not ready
 * until it is loaded again.
 *
 * INVALID_ARG when `options` is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetChainStrictUnload(
        struct TRITONSERVER_ServerOptions *options, bool strict);

/* The models of the chain that begins with this one, in order, as JSON to be deleted with
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

/* Load parameters of one model, as those of TRITONSERVER_ServerLoadModelWithParameters(). */
struct NESO_LoadParameters {
        const struct TRITONSERVER_Parameter **parameters; /* may be NULL when there are none */
        uint64_t                              parameter_count;
};

/* Loads the models as a chain in the order of the list (docs/chains.md): the last one first, each other
 * one with the one after it as its load parameter `next`, which `parameters` must not have. All are ready
 * when it returns. One model is loaded as by TRITONSERVER_ServerLoadModelWithParameters().
 *
 * `parameters` has an element for each model. `loaded` has room for as many names and gets those of
 * `models`, in that order: requests for the chain go to the first.
 *
 * INVALID_ARG when the counts differ, a name or another pointer is NULL, or `next` is given: nothing was
 * loaded then. Any other error is that of one load, and the models after that one are loaded. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerLoadChain(
        struct TRITONSERVER_Server *server, const char *const *models, uint64_t model_count,
        const struct NESO_LoadParameters *parameters, uint64_t parameters_count,
        const char **loaded);

/* What a model instance is among the members of its model (docs/batching.md): the name of its instance
 * group, its index in it (that of its virtual instance), and the file of the version's directory that the
 * parameter `member_files` gives the group; NULL when it gives none. Texts live as long as the
 * instance. A backend that runs on other servers as well refers to it as a weak symbol. And a backend
 * may export
 *
 *     TRITONSERVER_Error *NESOBACKEND_ModelInstanceBatchRange(
 *             TRITONBACKEND_ModelInstance *instance, uint32_t *min_rows, uint32_t *max_rows);
 *
 * which is called once, after TRITONBACKEND_ModelInstanceInitialize(): the batches that the instance
 * takes, by rows. Both come in as what the model takes, and may be left so.
 *
 * INVALID_ARG when an argument is NULL. */
struct TRITONBACKEND_ModelInstance;
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceMember(
        struct TRITONBACKEND_ModelInstance *instance, const char **group_name, uint32_t *index,
        const char **file);

/* Objects that the instances of one instance group share, by key: the first one that has made an object,
 * an engine say, deposits it, and the others use it. An object is destroyed after the last instance of
 * the group was finalised, on the thread that finalised it; an object that was deposited later goes
 * first. Texts are copied. A backend that runs on other servers as well refers to both as weak symbols.
 *
 * The server initialises, executes and finalises an instance on one and the same thread, unless its
 * backend says that any thread may execute it (NESO_BACKEND_INLINE_SAFE), or the model does
 * (`inline_execution` is always).
 *
 * SharedGet: `object` is NULL when nothing was deposited under the key. INVALID_ARG when an argument is
 * NULL.
 * SharedSet: takes the object on success; `destroy` may be NULL. ALREADY_EXISTS when another instance was
 * first: SharedGet has its object then. INVALID_ARG when another argument is NULL. */
typedef void (*NESO_SharedDestroyFn_t)(void *object);

TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceSharedGet(
        struct TRITONBACKEND_ModelInstance *instance, const char *key, void **object);
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelInstanceSharedSet(
        struct TRITONBACKEND_ModelInstance *instance, const char *key, void *object,
        NESO_SharedDestroyFn_t destroy);

/* The scheduler of models whose parameter `scheduler` says nothing (docs/schedulers.md): "default",
 * "baseline", "triton", or the name of a library libscheduler_<name>.so; "" is "default". A name without
 * a library is an error of each model that needs it, not of the server. Models with sequences, batch
 * ranges or a custom batching library, and those made of other models, keep their own.
 *
 * INVALID_ARG when an argument is NULL, or when it is no name. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetScheduler(
        struct TRITONSERVER_ServerOptions *options, const char *scheduler);

/* Where scheduler libraries are found that are not in the directory of the model or of its version.
 * "": nowhere else; that is the default.
 *
 * INVALID_ARG when an argument is NULL. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ServerOptionsSetSchedulerDirectory(
        struct TRITONSERVER_ServerOptions *options, const char *scheduler_dir);

/* Reads the configurations of a model repository, or of the one model whose directory `path` is, as
 * a server with these options would, and tells what is wrong with them. No server is made, no
 * backend opened, and what a backend would find out about its model stays open. Of `options` count
 * the directories of backends and repository agents, the name of configurations and whether they
 * are completed.
 *
 * `report` is JSON and to be deleted with TRITONSERVER_MessageDelete():
 *
 *     {"path": "...", "is_model": false, "models": [
 *       {"name": "...", "directory": "...", "file": "<the configuration's, if there is one>",
 *        "problems": [{"severity": "error", "file": "...", "line": 3, "column": 5,
 *                      "field": "input[0].dims", "message": "..."}],
 *        "versions": [1], "config": {...}}]}
 *
 * A problem without "line" is about its file, or directory, as a whole; a "warning" does not keep
 * the model from being loaded. "versions" and "config", filled in and normalised, are there when no
 * problem is an error; and for a model with batch ranges "batch_plan", of which element n - 1 tells
 * the executions that serve n rows: "8,4,1".
 *
 * INVALID_ARG when an argument is NULL; NOT_FOUND or INTERNAL when `path` is not a directory that
 * can be read. */
TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_ModelRepositoryCheck(
        struct TRITONSERVER_ServerOptions *options, const char *path,
        struct TRITONSERVER_Message **report);

#ifdef __cplusplus
}
#endif
