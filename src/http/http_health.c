/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "http/http_handlers.h"

#include "triton/core/tritonserver.h"

/* Health says yes or no by its status alone; an error (the server is exiting) has a text. */
static void reply_health(struct http_call *call, struct TRITONSERVER_Error *failure, bool is_well) {
        struct error *err = core_error_take(failure);

        if (err)
                http_call_reply_error(call, err, NULL);
        else
                http_call_reply_empty(call, is_well ? 200 : 400);
}

void http_health_live(struct http_call *call) {
        bool                       live = false;
        struct TRITONSERVER_Error *failure = TRITONSERVER_ServerIsLive(call->core, &live);

        reply_health(call, failure, live);
}

void http_health_ready(struct http_call *call) {
        bool                       ready = false;
        struct TRITONSERVER_Error *failure = TRITONSERVER_ServerIsReady(call->core, &ready);

        reply_health(call, failure, ready);
}

static struct error *check_model(struct http_call *call) {
        bool    ready = false;
        int64_t version;

        TRY(model_version_read(call->version, &version));
        TRY(core_error_take(TRITONSERVER_ServerModelIsReady(call->core, http_call_model(call),
                                                            version, &ready)));
        return ready ? NULL : error_new_text(ERR_INVALID_ARG, "Model version not ready");
}

void http_health_model(struct http_call *call) {
        struct error *err = check_model(call);

        if (err)
                http_call_reply_error(call, err, NULL);
        else
                http_call_reply_empty(call, 200);
}
