/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics page. */
#include "base/byte_budget.h"
#include "call/memory_metrics.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "http/http_reply.h"
#include "http/http_server.h"
#include "net/mailbox.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

/* As in the reference, without the version of the format. */
#define METRICS_TYPE "text/plain; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum page_kind { PAGE_TEXT, PAGE_OPENMETRICS, N_PAGES };

static const struct {
        TRITONSERVER_MetricFormat format;
        const char               *content_type;
} kinds[N_PAGES] = {
        [PAGE_TEXT] = { TRITONSERVER_METRIC_PROMETHEUS, METRICS_TYPE },
        [PAGE_OPENMETRICS] = { NESO_METRIC_OPENMETRICS, OPENMETRICS_TYPE },
};

/* The scrapes of one round of the loop, which are answered with one page of each kind: all of them came before
 * it is made. With thousands of models a page takes tens of MiB, and more scrapes come while one is made. */
static _Thread_local struct {
        struct mail       mail;
        struct http_call *first[N_PAGES]; /* borrowed: linked by `pending`; the newest first */
} scrapes;

static void delete_page(void *metrics) {
        core_error_drop(TRITONSERVER_MetricsDelete(metrics));
}

/* A small page is answered however little room there is. */
static struct buf *hold_page(struct TRITONSERVER_Metrics *metrics, size_t len,
                             struct byte_budget *budget) {
        struct buf *holder;

        if (budget == NULL || len > BYTE_BUDGET_SMALL)
                return buf_new_holding(budget, len, delete_page, metrics);
        holder = buf_new_holding(NULL, len, delete_page, metrics);
        if (holder == NULL)
                return NULL;
        byte_budget_force(budget, len);
        holder->budget = budget;
        return holder;
}

static void answer_page(struct http_call *call, enum page_kind kind, struct str page,
                        struct buf *holder) {
        const struct http_part  part = { page.ptr, page.len, holder };
        const struct http_reply reply = { .status = 200,
                                          .content_type = kinds[kind].content_type,
                                          .parts = &part,
                                          .n_parts = page.len > 0 ? 1 : 0 };

        if (page.len > 0)
                buf_ref(holder);
        http_call_reply(call, &reply);
}

/* Before the call is answered, after which its connection may have the next one. */
static struct http_call *take_next(struct http_call **calls) {
        struct http_call *call = *calls;

        if (call != NULL)
                *calls = call->pending;
        return call;
}

static void answer_all(struct http_call *calls, enum page_kind kind, struct str page,
                       struct buf *holder) {
        struct http_call *call;

        while ((call = take_next(&calls)) != NULL)
                answer_page(call, kind, page, holder);
        buf_unref(holder);
}

static void refuse_all(struct http_call *calls, const char *why) {
        struct http_call *call;

        while ((call = take_next(&calls)) != NULL)
                http_call_reply_refusal(call, 503, why, METRICS_TYPE);
}

/* Takes the error. */
static void fail_all(struct http_call *calls, struct error *err) {
        struct http_call *call;

        while ((call = take_next(&calls)) != NULL)
                http_call_reply_error(call, error_copy(err), METRICS_TYPE);
        error_free(err);
}

static struct error *make_page(struct http_call *call, TRITONSERVER_MetricFormat format,
                               struct TRITONSERVER_Metrics **ret, struct str *ret_page) {
        const char *text = NULL;
        size_t      len = 0;

        memory_metrics_refresh(call->service->memory_metrics);
        TRY(core_error_take(NESO_ServerMetrics(call->core, format, ret)));
        TRY(core_error_take(TRITONSERVER_MetricsFormatted(*ret, format, &text, &len)));
        *ret_page = str_range(text, len);
        return NULL;
}

static void answer_kind(struct http_call *calls, enum page_kind kind) {
        struct buf_pool             *pool = http_call_buf_pool(calls);
        struct TRITONSERVER_Metrics *metrics = NULL;
        struct str                   page = STR_LIT("");
        struct error                *err = make_page(calls, kinds[kind].format, &metrics, &page);
        struct buf                  *holder = NULL;

        if (err == NULL)
                holder = hold_page(metrics, page.len, buf_pool_budget(pool));
        if (holder != NULL) {
                answer_all(calls, kind, page, holder);
                return;
        }
        if (err != NULL)
                fail_all(calls, err);
        else
                refuse_all(calls, buf_pool_shortage(pool, page.len));
        if (metrics != NULL)
                delete_page(metrics);
}

/* A connection that is answered may send its next scrape at once, which belongs to the next round. */
static void answer_scrapes(struct mail *m) {
        struct http_call *calls[N_PAGES];

        (void)m;
        for (int kind = 0; kind < N_PAGES; kind++)
                calls[kind] = STEAL(scrapes.first[kind]);
        for (int kind = 0; kind < N_PAGES; kind++)
                if (calls[kind] != NULL)
                        answer_kind(calls[kind], (enum page_kind)kind);
}

/* OpenMetrics only for clients that name it, as Prometheus does, and do not prefer the other text. */
static enum page_kind choose_kind(struct http_call *call) {
        unsigned   open = 0, text = 0;
        struct str accept;

        for (size_t n = 0; (accept = http_call_header_nth(call, "Accept", n)).ptr != NULL; n++) {
                open = MAX(open,
                           http_accept_weight(accept, "application/openmetrics-text", "1.0.0"));
                text = MAX(text, http_accept_weight(accept, "text/plain", "0.0.4"));
        }
        return open > 0 && open >= text ? PAGE_OPENMETRICS : PAGE_TEXT;
}

static void on_metrics(struct http_call *call) {
        enum page_kind kind = choose_kind(call);
        bool           is_first = true;

        for (int i = 0; i < N_PAGES; i++)
                is_first = is_first && scrapes.first[i] == NULL;
        call->pending = scrapes.first[kind];
        scrapes.first[kind] = call;
        if (!is_first)
                return;
        scrapes.mail.deliver = answer_scrapes;
        mailbox_post(http_call_mailbox(call), &scrapes.mail);
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
