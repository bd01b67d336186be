/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "http/http_handlers.h"
#include "http/http_survey.h"

#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

void http_call_reply_message(struct http_call *call, struct TRITONSERVER_Error *failure,
                             struct TRITONSERVER_Message *message) {
        struct error *err = core_error_take(failure);
        const char   *json = NULL;
        size_t        len = 0;

        if (!err)
                err = core_error_take(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        if (err)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, str_range(json, len));
        if (message)
                core_error_drop(TRITONSERVER_MessageDelete(message));
}

void http_metadata_server(struct http_call *call) {
        struct TRITONSERVER_Message *message = NULL;
        struct TRITONSERVER_Error   *err = TRITONSERVER_ServerMetadata(call->core, &message);

        http_call_reply_message(call, err, message);
}

/* The three questions about one model differ in the function asked. */
typedef struct TRITONSERVER_Error *(*ask_fn)(struct http_call *call, const char *model,
                                             int64_t version, struct TRITONSERVER_Message **ret);

static void reply_about_model(struct http_call *call, ask_fn ask) {
        struct TRITONSERVER_Message *message = NULL;
        struct TRITONSERVER_Error   *failure;
        int64_t                      version;
        struct error                *err = model_version_read(call->version, &version);

        if (err) {
                http_call_reply_error(call, err, HTTP_JSON);
                return;
        }
        failure = ask(call, http_call_model(call), version, &message);
        http_call_reply_message(call, failure, message);
}

static struct TRITONSERVER_Error *ask_metadata(struct http_call *call, const char *model,
                                               int64_t version, struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelMetadata(call->core, model, version, ret);
}

static struct TRITONSERVER_Error *ask_config(struct http_call *call, const char *model,
                                             int64_t version, struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelConfig(call->core, model, version, 1, ret);
}

static struct TRITONSERVER_Error *ask_statistics(struct http_call *call, const char *model,
                                                 int64_t                       version,
                                                 struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelStatistics(call->core, model, version, ret);
}

static struct TRITONSERVER_Error *ask_sequences(struct http_call *call, const char *model,
                                                int64_t                       version,
                                                struct TRITONSERVER_Message **ret) {
        return NESO_ServerModelSequences(call->core, model, version, ret);
}

void http_metadata_sequences(struct http_call *call) {
        reply_about_model(call, ask_sequences);
}

static struct TRITONSERVER_Error *ask_chain(struct http_call *call, const char *model,
                                            int64_t version, struct TRITONSERVER_Message **ret) {
        return NESO_ServerModelChain(call->core, model, version, ret);
}

void http_metadata_chain(struct http_call *call) {
        reply_about_model(call, ask_chain);
}

void http_metadata_model(struct http_call *call) {
        reply_about_model(call, ask_metadata);
}

void http_metadata_config(struct http_call *call) {
        reply_about_model(call, ask_config);
}

static struct TRITONSERVER_Error *ask_all_statistics(struct TRITONSERVER_Server   *core,
                                                     const struct http_question   *question,
                                                     struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelStatistics(core, "", question->version, ret);
}

/* Without a model in the path: of all. */
void http_metadata_statistics(struct http_call *call) {
        struct http_question question = { .ask = ask_all_statistics };
        struct error        *err;

        if (call->model.len > 0) {
                reply_about_model(call, ask_statistics);
                return;
        }
        err = model_version_read(call->version, &question.version);
        if (err)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_survey_start(call, &question);
}
