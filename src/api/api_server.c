/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_Server: life cycle, state, metadata and inference. */
#include "api/api_types.h"
#include "infer/infer_thread.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response_stream.h"
#include "observe/model_activity.h"
#include "repo/repo.h"
#include "server/core_metrics.h"
#include "server/server.h"
#include "server/server_chain.h"
#include "server/server_steps.h"
#include "triton/core/neso.h"

DEFINE_API_TYPE(TRITONSERVER_Server, server)
DEFINE_API_TYPE(TRITONSERVER_ServerOptions, server_options)
DEFINE_API_TYPE(NESO_ReadyWatch, subscription)
DEFINE_API_TYPE(TRITONSERVER_InferenceRequest, request)

struct TRITONSERVER_Error *TRITONSERVER_ServerNew(struct TRITONSERVER_Server       **server,
                                                  struct TRITONSERVER_ServerOptions *options) {
        struct server *s;

        API_NEEDS(server, options);
        API_TRY(server_new(server_options_from_api(options), &s));
        *server = server_to_api(s);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerEndStart(struct TRITONSERVER_Server *server) {
        API_NEEDS(server);
        server_end_start(server_from_api(server));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerDelete(struct TRITONSERVER_Server *server) {
        struct server *s = server_from_api(server);
        struct error  *err;

        if (s == NULL)
                return NULL;
        err = server_stop(s);
        /* After a timeout models are still in use, and so are the objects of the server that they need. */
        if (err == NULL)
                server_free(s);
        return error_to_api(err);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerStop(struct TRITONSERVER_Server *server) {
        API_NEEDS(server);
        return error_to_api(server_stop(server_from_api(server)));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerSetExitTimeout(struct TRITONSERVER_Server *server,
                                                             unsigned int                timeout) {
        API_NEEDS(server);
        atomic_store(&server_from_api(server)->exit_timeout_s, timeout);
        return NULL;
}

static struct error *check_exiting(const struct server *s) {
        if (atomic_load(&s->state) == SERVER_EXITING)
                return error_new(ERR_UNAVAILABLE, "Server exiting");
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerIsLive(struct TRITONSERVER_Server *server,
                                                     bool                       *live) {
        API_NEEDS(server, live);
        *live = false;
        API_TRY(check_exiting(server_from_api(server)));
        *live = server_is_live(server_from_api(server));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerIsReady(struct TRITONSERVER_Server *server,
                                                      bool                       *ready) {
        API_NEEDS(server, ready);
        *ready = false;
        API_TRY(check_exiting(server_from_api(server)));
        *ready = server_is_ready(server_from_api(server));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelIsReady(struct TRITONSERVER_Server *server,
                                                           const char                 *model_name,
                                                           const int64_t model_version,
                                                           bool         *ready) {
        struct server *s = server_from_api(server);

        API_NEEDS(server, model_name, ready);
        API_TRY(check_exiting(s));
        *ready = server_is_live(s) && repo_version_is_ready(s->repo, model_name, model_version);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelBatchProperties(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        uint32_t *flags, void **voidp) {
        struct model *model;

        API_NEEDS(server, model_name, flags);
        API_TRY(server_get_model_for_request(server_from_api(server), model_name, model_version,
                                             &model));
        *flags = model->io->max_batch_size > 0 ? TRITONSERVER_BATCH_FIRST_DIM
                                               : TRITONSERVER_BATCH_UNKNOWN;
        if (voidp != NULL)
                *voidp = NULL;
        model_unref(model);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelTransactionProperties(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        uint32_t *txn_flags, void **voidp) {
        struct model *model;

        API_NEEDS(server, model_name, txn_flags);
        API_TRY(server_get_model(server_from_api(server), model_name, model_version, &model));
        *txn_flags = server_chain_is_decoupled(model) ? TRITONSERVER_TXN_DECOUPLED
                                                      : TRITONSERVER_TXN_ONE_TO_ONE;
        if (voidp != NULL)
                *voidp = NULL;
        model_unref(model);
        return NULL;
}

/* Returns through `out` the message that `expression` creates in `m`. */
#define GIVE_MESSAGE(out, expression)                                                              \
        do {                                                                                       \
                struct message *m;                                                                 \
                API_TRY(expression);                                                               \
                *(out) = message_to_api(m);                                                        \
                return NULL;                                                                       \
        } while (0)

struct TRITONSERVER_Error *TRITONSERVER_ServerMetadata(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_Message **server_metadata_message) {
        API_NEEDS(server, server_metadata_message);
        GIVE_MESSAGE(server_metadata_message, server_metadata(server_from_api(server), &m));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelMetadata(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        struct TRITONSERVER_Message **model_metadata) {
        API_NEEDS(server, model_name, model_metadata);
        GIVE_MESSAGE(model_metadata,
                     server_model_metadata(server_from_api(server), model_name, model_version, &m));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelStatistics(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        struct TRITONSERVER_Message **model_stats) {
        API_NEEDS(server, model_stats);
        GIVE_MESSAGE(model_stats, server_model_statistics(server_from_api(server),
                                                          model_name != NULL ? model_name : "",
                                                          model_version, &m));
}

struct TRITONSERVER_Error *NESO_ServerModelSequences(struct TRITONSERVER_Server *server,
                                                     const char *model_name, int64_t model_version,
                                                     struct TRITONSERVER_Message **sequences) {
        API_NEEDS(server, model_name, sequences);
        GIVE_MESSAGE(sequences, server_model_sequences(server_from_api(server), model_name,
                                                       model_version, &m));
}

struct TRITONSERVER_Error *NESO_ServerModelStacks(struct TRITONSERVER_Server *server,
                                                  const char *model_name, int64_t model_version,
                                                  struct TRITONSERVER_Message **stacks) {
        API_NEEDS(server, model_name, stacks);
        GIVE_MESSAGE(stacks,
                     server_model_stacks(server_from_api(server), model_name, model_version, &m));
}

struct TRITONSERVER_Error *NESO_ServerGpus(struct TRITONSERVER_Server   *server,
                                           struct TRITONSERVER_Message **gpus) {
        API_NEEDS(server, gpus);
        GIVE_MESSAGE(gpus, server_gpus(server_from_api(server), &m));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelConfig(
        struct TRITONSERVER_Server *server, const char *model_name, const int64_t model_version,
        const uint32_t config_version, struct TRITONSERVER_Message **model_config) {
        API_NEEDS(server, model_name, model_config);
        GIVE_MESSAGE(model_config, server_model_config(server_from_api(server), model_name,
                                                       model_version, config_version, &m));
}

struct TRITONSERVER_Error *NESO_ServerModelConfigSource(struct TRITONSERVER_Server   *server,
                                                        const char                   *model_name,
                                                        int64_t                       model_version,
                                                        struct TRITONSERVER_Message **source) {
        API_NEEDS(server, model_name, source);
        GIVE_MESSAGE(source, server_model_config_source(server_from_api(server), model_name,
                                                        model_version, &m));
}

struct TRITONSERVER_Error *NESO_ServerModelChain(struct TRITONSERVER_Server *server,
                                                 const char *model_name, int64_t model_version,
                                                 struct TRITONSERVER_Message **chain) {
        API_NEEDS(server, model_name, chain);
        GIVE_MESSAGE(chain,
                     server_model_chain(server_from_api(server), model_name, model_version, &m));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelIndex(
        struct TRITONSERVER_Server *server, uint32_t flags,
        struct TRITONSERVER_Message **model_index) {
        API_NEEDS(server, model_index);
        GIVE_MESSAGE(model_index,
                     server_model_index(server_from_api(server),
                                        (flags & TRITONSERVER_INDEX_FLAG_READY) != 0, &m));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(
        struct TRITONSERVER_Server *server, struct TRITONSERVER_InferenceRequest *inference_request,
        struct TRITONSERVER_InferenceTrace *trace) {
        API_NEEDS(server, inference_request);
        if (trace != NULL)
                return error_to_api(server_infer_traced(server_from_api(server),
                                                        request_from_api(inference_request),
                                                        (struct trace *)trace));
        return error_to_api(
                server_infer(server_from_api(server), request_from_api(inference_request)));
}

API_GETTER(NESO_InferenceRequestIsDecoupled, struct TRITONSERVER_InferenceRequest,
           inference_request, bool, is_decoupled,
           server_chain_is_decoupled(request_from_api(inference_request)->model))

/* An estimate of what a program keeps for a response that it has not sent. */
#define PROGRAM_BYTES 256

struct TRITONSERVER_Error *NESO_InferenceRequestLimitResponses(
        struct TRITONSERVER_InferenceRequest *inference_request, uint32_t max_responses,
        uint64_t max_bytes) {
        struct response_limits limits = { .max_responses = max_responses,
                                          .max_bytes = max_bytes,
                                          .beside_bytes = PROGRAM_BYTES };

        API_NEEDS(inference_request);
        if (max_responses == 0 || max_bytes == 0)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "the limits of responses must be greater than 0"));
        limits.share = request_from_api(inference_request)->model->responses;
        return error_to_api(request_limit_responses(request_from_api(inference_request), &limits));
}

struct TRITONSERVER_Error *NESO_InferenceRequestSetCacheable(
        struct TRITONSERVER_InferenceRequest *inference_request, bool cacheable) {
        API_NEEDS(inference_request);
        request_from_api(inference_request)->is_uncacheable = !cacheable;
        return NULL;
}

API_SETTER(NESO_InferenceRequestSetDeviceOutputs, struct TRITONSERVER_InferenceRequest,
           inference_request, bool, on_devices,
           request_from_api(inference_request)->has_device_outputs)

API_SETTER(NESO_InferenceRequestSetRunsAlone, struct TRITONSERVER_InferenceRequest,
           inference_request, bool, alone, request_from_api(inference_request)->runs_alone)

struct TRITONSERVER_Error *NESO_InferenceRequestModelSteps(
        struct TRITONSERVER_InferenceRequest *inference_request, bool *is_composed,
        NESO_ModelStepFn_t step, void *userp) {
        API_NEEDS(inference_request, is_composed, step);
        *is_composed = server_each_step(request_from_api(inference_request), step, userp);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ThreadAllowInlineExecution(bool allow) {
        infer_thread_allow_inline(allow);
        response_stream_allow_wait(!allow);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ThreadWakeInstances(void) {
        infer_thread_flush_wakes();
        return NULL;
}

struct TRITONSERVER_Error *NESO_ThreadBeginResponses(void) {
        infer_thread_begin_responses();
        return NULL;
}

struct TRITONSERVER_Error *NESO_ThreadEndResponses(void) {
        infer_thread_end_responses();
        return NULL;
}

struct TRITONSERVER_Error *NESO_ThreadAfterResponses(NESO_AfterResponsesFn_t call, void *userp,
                                                     bool *is_deferred) {
        API_NEEDS(call, is_deferred);
        *is_deferred = infer_thread_call_after_responses(call, userp);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerReadiness(struct TRITONSERVER_Server *server,
                                                const char *model_name, int64_t model_version,
                                                bool *ready, bool *asks_backends) {
        struct server   *s = server_from_api(server);
        struct readiness found = { 0 };

        API_NEEDS(server, ready, asks_backends);
        API_TRY(check_exiting(s));
        if (model_name == NULL)
                found = server_readiness(s);
        else if (server_is_live(s))
                found = repo_version_readiness(s->repo, model_name, model_version);
        *ready = found.is_ready;
        *asks_backends = found.is_ready && found.asks_backends;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerSetDraining(struct TRITONSERVER_Server *server,
                                                  bool                        draining) {
        API_NEEDS(server);
        server_set_draining(server_from_api(server), draining);
        return NULL;
}

struct TRITONSERVER_Error *NESO_ReadyWatchNew(struct NESO_ReadyWatch    **watch,
                                              struct TRITONSERVER_Server *server,
                                              NESO_ReadyWatchFn_t changed, void *userp) {
        API_NEEDS(watch, server, changed);
        *watch = subscription_to_api(
                event_source_subscribe(&server_from_api(server)->ready, changed, userp));
        return NULL;
}

struct TRITONSERVER_Error *NESO_ReadyWatchDelete(struct NESO_ReadyWatch *watch) {
        subscription_free(subscription_from_api(watch));
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerObserveRejected(struct TRITONSERVER_Server *server,
                                                      const char                 *limit) {
        API_NEEDS(server, limit);
        return error_to_api(core_metrics_count_rejected(server_from_api(server)->core, limit));
}

struct TRITONSERVER_Error *NESO_ServerObserveKeyRefused(struct TRITONSERVER_Server *server,
                                                        const char *key, const char *reason) {
        API_NEEDS(server, key, reason);
        return error_to_api(
                core_metrics_count_key_refused(server_from_api(server)->core, key, reason));
}

/* ---- what the models do now ---- */

_Static_assert((int)NESO_PHASES == (int)ACTIVITY_PHASES, "phases differ");
_Static_assert((int)NESO_LATENCY_BUCKETS == (int)ACTIVITY_BUCKETS, "buckets differ");
_Static_assert((int)NESO_FAILURE_REASONS == (int)ACTIVITY_FAILURES, "reasons differ");

struct activity_visit {
        NESO_ModelActivityFn_t visit;
        void                  *userp;
};

static void pass_activity(const char *name, int64_t version, size_t n_instances,
                          const struct model_activity *a, void *userp) {
        const struct activity_visit *v = userp;
        struct NESO_ModelActivity    shown = {
                   .model_name = name,
                   .model_version = version,
                   .success = a->success,
                   .inferences = a->inferences,
                   .executions = a->executions,
                   .executed_inferences = a->executed_inferences,
                   .cache_hits = a->cache_hits,
                   .cache_misses = a->cache_misses,
                   .busy_ns = a->busy_ns,
                   .pending = a->pending,
                   .n_instances = n_instances,
                   .n_sequences = a->n_sequences,
        };

        memcpy(shown.failures, a->failures, sizeof(shown.failures));
        memcpy(shown.latency, a->latency, sizeof(shown.latency));
        memcpy(shown.phase_ns, a->phase_ns, sizeof(shown.phase_ns));
        v->visit(&shown, v->userp);
}

struct TRITONSERVER_Error *NESO_ServerModelActivity(struct TRITONSERVER_Server *server,
                                                    NESO_ModelActivityFn_t visit, void *userp) {
        struct activity_visit v = { visit, userp };

        API_NEEDS(server, visit);
        API_TRY(check_exiting(server_from_api(server)));
        return error_to_api(server_visit_activity(server_from_api(server), pass_activity, &v));
}
