/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics page. */
#include "call/memory_metrics.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "http/http_handlers.h"
#include "http/http_server.h"

#include "triton/core/tritonserver.h"

/* As in the reference, without the version of the format. */
#define METRICS_TYPE "text/plain; charset=utf-8"

static void on_metrics(struct http_call *call) {
        struct TRITONSERVER_Metrics *metrics = NULL;
        const char                  *text = NULL;
        size_t                       len = 0;
        struct error                *err;

        memory_metrics_refresh(call->service->memory_metrics);
        err = core_error_take(TRITONSERVER_ServerMetrics(call->core, &metrics));
        if (!err)
                err = core_error_take(TRITONSERVER_MetricsFormatted(metrics,
                                                                    TRITONSERVER_METRIC_PROMETHEUS,
                                                                    &text, &len));
        if (err)
                http_call_reply_error(call, err, METRICS_TYPE);
        else
                http_call_reply_text(call, METRICS_TYPE, str_range(text, len));
        if (metrics)
                core_error_drop(TRITONSERVER_MetricsDelete(metrics));
}

/* Answers any other path with 200 and no body. */
static void on_other_path(struct http_call *call) {
        if (call->method == HTTP_METHOD_GET)
                http_call_reply_text(call, METRICS_TYPE, STR_LIT(""));
        else
                http_call_reply_wrong_method(call, STR_LIT("GET"), METRICS_TYPE);
}

static const struct http_route metrics_rows[] = {
        { "/metrics", HTTP_METHOD_GET, ENDPOINT_METRICS, METRICS_TYPE, on_metrics },
};

struct http_route_table http_metrics_routes(void) {
        return (struct http_route_table){ .rows = metrics_rows,
                                          .n_rows = ARRAY_LEN(metrics_rows),
                                          .fallback = on_other_path,
                                          .fallback_group = ENDPOINT_METRICS };
}
