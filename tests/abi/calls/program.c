/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls every function of tritonserver.h and neso.h with right arguments; its servers load plug-ins
 * that do so with the functions of theirs.
 *
 *   valid_calls <models> <more models> <plug-ins> <log>
 *
 * test_valid_calls.py makes the folders: the models "calls", "cached", "chained" and "sequences", no
 * model, the plug-ins "calls" of each kind, and a file to be made.
 */
#include "program.h"

static void delete_message(struct TRITONSERVER_Message *message, const char *part) {
        const char *base;
        size_t      size;

        OK(TRITONSERVER_MessageSerializeToJson, message, &base, &size);
        EXPECT(memmem(base, size, part, strlen(part)) != NULL);
        OK(TRITONSERVER_MessageDelete, message);
}

static void call_questions(struct TRITONSERVER_Server *server) {
        bool     is_live = false, is_ready = false, is_model_ready = false;
        uint32_t batch = 0, transaction = 0;
        void    *reserved = NULL;

        OK(TRITONSERVER_ServerIsLive, server, &is_live);
        OK(TRITONSERVER_ServerIsReady, server, &is_ready);
        OK(TRITONSERVER_ServerModelIsReady, server, "calls", 1, &is_model_ready);
        EXPECT(is_live && is_ready && is_model_ready);
        OK(TRITONSERVER_ServerModelBatchProperties, server, "calls", -1, &batch, &reserved);
        OK(TRITONSERVER_ServerModelTransactionProperties, server, "calls", -1, &transaction,
           &reserved);
        EXPECT(batch == TRITONSERVER_BATCH_UNKNOWN && transaction == TRITONSERVER_TXN_DECOUPLED);
}

static void call_descriptions(struct TRITONSERVER_Server *server) {
        struct TRITONSERVER_Message *message;

        OK(TRITONSERVER_ServerMetadata, server, &message);
        delete_message(message, "\"extensions\"");
        OK(TRITONSERVER_ServerModelMetadata, server, "calls", -1, &message);
        delete_message(message, "INPUT0");
        OK(TRITONSERVER_ServerModelStatistics, server, "calls", -1, &message);
        delete_message(message, "\"inference_count\":");
        OK(TRITONSERVER_ServerModelConfig, server, "calls", -1, 1, &message);
        delete_message(message, "INPUT0");
        OK(NESO_ServerModelStacks, server, "calls", -1, &message);
        delete_message(message, "\"process\":{\"stacks\":\"nowhere\"}}],\"left_out\":0}");
        OK(NESO_ServerGpus, server, &message);
        delete_message(message, "{\"gpus\":[]}");
        OK(TRITONSERVER_ServerModelIndex, server, TRITONSERVER_INDEX_FLAG_READY, &message);
        delete_message(message, "calls");
}

static void call_metrics_page(struct TRITONSERVER_Server *server) {
        struct TRITONSERVER_Metrics *metrics;
        const char                  *base;
        size_t                       size;

        OK(NESO_ServerObserveRejected, server, "connections");
        OK(NESO_ServerObserveKeyRefused, server, "", "missing");
        OK(TRITONSERVER_ServerMetrics, server, &metrics);
        OK(TRITONSERVER_MetricsFormatted, metrics, TRITONSERVER_METRIC_PROMETHEUS, &base, &size);
        EXPECT(memmem(base, size, "neso_rejected_total{", 20) != NULL);
        OK(TRITONSERVER_MetricsDelete, metrics);
        OK(NESO_ServerMetrics, server, NESO_METRIC_OPENMETRICS, &metrics);
        OK(TRITONSERVER_MetricsFormatted, metrics, NESO_METRIC_OPENMETRICS, &base, &size);
        EXPECT(memmem(base, size, "# TYPE neso_rejected counter\n", 29) != NULL);
        EXPECT(size > 6 && memcmp(base + size - 6, "# EOF\n", 6) == 0);
        OK(TRITONSERVER_MetricsDelete, metrics);
}

static void on_change(void *userp) {
        (void)userp;
}

/* The models of these calls need no others. */
static bool permit_none(const char *model, void *userp) {
        (void)model;
        (void)userp;
        return false;
}

static void on_activity(const struct NESO_ModelActivity *activity, void *userp) {
        uint64_t *success = userp;

        if (strcmp(activity->model_name, "cached") != 0)
                return;
        *success += activity->success;
        EXPECT(activity->model_version == 1 && activity->n_instances == 1);
        EXPECT(activity->cache_hits == 1 && activity->cache_misses == 1);
}

static void call_control(struct TRITONSERVER_Server *server, const struct places *places) {
        static const char config[] =
                "{\"backend\":\"identity\",\"input\":[{\"name\":\"INPUT0\",\"data_type\":"
                "\"TYPE_FP32\",\"dims\":[-1]}],\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":"
                "\"TYPE_FP32\",\"dims\":[-1]}]}";
        const struct TRITONSERVER_Parameter *parameter;
        struct NESO_ReadyWatch              *watch;
        struct TRITONSERVER_Message         *message;
        const char                          *loaded[2];
        bool                                 is_ready = false, asks_backends = true;
        uint64_t                             n_success = 0;

        OK(NESO_ReadyWatchNew, &watch, server, on_change, NULL);
        OK(NESO_ServerReadiness, server, NULL, -1, &is_ready, &asks_backends);
        EXPECT(is_ready && !asks_backends);
        OK(NESO_ServerSetDraining, server, true);
        OK(NESO_ServerReadiness, server, NULL, -1, &is_ready, &asks_backends);
        EXPECT(!is_ready);
        OK(NESO_ServerSetDraining, server, false);
        OK(NESO_ServerEndStart, server); /* has started: loads below succeed */
        OK(TRITONSERVER_ServerIsReady, server, &is_ready);
        EXPECT(is_ready);
        OK(TRITONSERVER_ServerLoadModel, server, "cached");
        infer_cached(server); /* kept */
        infer_cached(server); /* found */
        OK(NESO_ServerModelActivity, server, on_activity, &n_success);
        EXPECT(n_success == 2);
        OK(TRITONSERVER_ServerUnloadModelAndDependents, server, "cached");
        parameter = TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config);
        OK(TRITONSERVER_ServerLoadModelWithParameters, server, "cached", &parameter, 1);
        OK(NESO_ServerLoadPermittedModel, server, "cached", &parameter, 1, permit_none, NULL);
        TRITONSERVER_ParameterDelete((struct TRITONSERVER_Parameter *)parameter);
        OK(NESO_ServerUnloadPermittedModels, server, "cached", permit_none, NULL);
        OK(TRITONSERVER_ServerUnloadModel, server, "cached");
        OK(NESO_ThreadLoadsFor, "cached", 1);
        OK(NESO_ThreadLoadsFor, NULL, -1);
        OK(TRITONSERVER_ServerLoadModel, server, "chained"); /* and the next one, "cached" */
        OK(NESO_ServerModelConfigSource, server, "chained", -1, &message);
        delete_message(message, "\"file\":\"config.pbtxt\"");
        OK(NESO_ServerLoadChain, server, (const char *[]){ "chained", "cached" }, 2,
           (struct NESO_LoadParameters[]){ { NULL, 0 }, { NULL, 0 } }, 2, loaded);
        OK(NESO_ServerModelChain, server, "chained", -1, &message);
        delete_message(message, "{\"name\":\"cached\",\"version\":\"1\",\"ready\":true}");
        OK(TRITONSERVER_ServerLoadModel, server, "sequences");
        OK(NESO_ServerModelSequences, server, "sequences", -1, &message);
        delete_message(message, "\"left_out\":0");
        OK(NESO_ReadyWatchDelete, watch);
        OK(TRITONSERVER_ServerRegisterModelRepository, server, places->more_models, NULL, 0);
        OK(TRITONSERVER_ServerUnregisterModelRepository, server, places->more_models);
}

/* A server that polls. */
static void call_poll(const struct places *places) {
        struct TRITONSERVER_ServerOptions *options =
                call_options(places, TRITONSERVER_MODEL_CONTROL_POLL);
        struct TRITONSERVER_Server *server;

        OK(TRITONSERVER_ServerNew, &server, options);
        OK(TRITONSERVER_ServerOptionsDelete, options);
        OK(TRITONSERVER_ServerPollModelRepository, server);
        OK(NESO_ServerStartPoll, server);
        OK(TRITONSERVER_ServerDelete, server);
}

static void call_check(struct TRITONSERVER_ServerOptions *options, const struct places *places) {
        struct TRITONSERVER_Message *report;

        OK(NESO_ModelRepositoryCheck, options, places->models, &report);
        delete_message(report, "\"name\":\"cached\"");
}

int main(int argc, char **argv) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Server        *server;

        if (argc != 5) {
                fprintf(stderr, "usage: %s <models> <more models> <plug-ins> <log>\n", argv[0]);
                return 2;
        }

        const struct places places = { argv[1], argv[2], argv[3], argv[4] };

        call_objects();
        options = call_options(&places, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        call_check(options, &places);
        OK(TRITONSERVER_ServerNew, &server, options);
        OK(TRITONSERVER_ServerOptionsDelete, options);
        call_questions(server);
        call_descriptions(server);
        call_inference(server);
        call_metrics();
        call_metrics_page(server);
        call_control(server, &places);
        OK(TRITONSERVER_ServerSetExitTimeout, server, 30);
        OK(TRITONSERVER_ServerStop, server);
        OK(TRITONSERVER_ServerDelete, server);
        call_poll(&places);
        return 0;
}
