/* SPDX-License-Identifier: BSD-3-Clause */
/* The dashboard: its page, whose files are static, and its data (web/dashboard.h). */
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/strbuf.h"
#include "call/service.h"
#include "codec/json_writer.h"
#include "codec/url.h"
#include "http/http_handlers.h"
#include "http/http_route.h"
#include "net/loop.h"
#include "openai/openai_metrics.h"
#include "openai/openai_settings.h"
#include "web/dashboard.h"
#include "web/web_asset.h"

#include <string.h>

/* ---- the page ---- */

/* Nothing from elsewhere, nothing inline: text of a model's name or of the log cannot run as a script,
 * whatever the page does with it. "data:" and "blob:" are pictures that the user gives to a model. */
#define PAGE_POLICY                                                                                \
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "    \
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* True when the client has this version of the file, or any. */
static bool has_current(struct http_call *call, const struct web_asset *file) {
        struct str rest = http_call_header(call, "If-None-Match"), tag;

        while (rest.ptr != NULL) {
                rest = str_split(rest, ',', &tag);
                tag = str_trim(tag);
                if (str_starts(tag, STR_LIT("W/")))
                        tag = str_range(tag.ptr + 2, tag.len - 2);
                if (str_is(tag, file->etag) || str_is(tag, "*"))
                        return true;
        }
        return false;
}

/* "gzip" without a quality, or with one that is not zero. */
static bool accepts_gzip(struct http_call *call) {
        struct str rest = http_call_header(call, "Accept-Encoding"), item, coding;

        while (rest.ptr != NULL) {
                rest = str_split(rest, ',', &item);

                struct str quality = str_split(item, ';', &coding);

                if (!str_equal_nocase(str_trim(coding), STR_LIT("gzip")))
                        continue;
                quality = quality.ptr != NULL ? str_trim(quality) : STR_LIT("q=1");
                return !str_is(quality, "q=0") && !str_starts(quality, STR_LIT("q=0.0"));
        }
        return false;
}

static void send_file(struct http_call *call, const struct web_asset *file) {
        const struct http_header headers[] = {
                { STR_LIT("Content-Security-Policy"), STR_LIT(PAGE_POLICY) },
                { STR_LIT("X-Content-Type-Options"), STR_LIT("nosniff") },
                { STR_LIT("Referrer-Policy"), STR_LIT("no-referrer") },
                { STR_LIT("Cache-Control"), STR_LIT("no-cache") },
                { STR_LIT("Vary"), STR_LIT("Accept-Encoding") },
                { STR_LIT("ETag"), str_of(file->etag) },
        };
        bool                   is_current = has_current(call, file);
        bool                   is_packed = !is_current && accepts_gzip(call);
        const struct http_part part = { is_packed ? file->gzip : file->plain,
                                        is_packed ? file->n_gzip : file->n_plain, NULL };

        http_call_reply(call, &(struct http_reply){ .status = is_current ? 304 : 200,
                                                    .content_type = file->content_type,
                                                    .headers = headers,
                                                    .n_headers = ARRAY_LEN(headers),
                                                    .parts = &part,
                                                    .n_parts = is_current ? 0 : 1,
                                                    .packed_as = is_packed ? "gzip" : NULL });
}

void http_dashboard_page(struct http_call *call) {
        const struct web_asset *file = web_asset_find(call->path);

        if (file != NULL)
                send_file(call, file);
        else
                http_call_reply_refusal(call, 404, "Not Found", HTTP_JSON);
}

/* ---- the data ---- */

/* In the call's arena. */
struct look {
        struct loop_work          work;
        struct http_call         *call; /* borrowed: holds this */
        struct dashboard_question question;
        bool                      wants_history;
        bool                      wants_language_models;
        struct str                model, version; /* of the history */
        struct buf               *json;           /* ref */
        struct error             *failure;        /* owned */
};

struct language_model_list {
        struct json_writer w;
        struct http_call  *call; /* borrowed */
};

static void put_language_model(void *owner, const struct openai_reading *r) {
        struct language_model_list *list = owner;
        struct json_writer         *w = &list->w;

        if (!access_grants_model(&list->call->access, str_of(r->model)))
                return;
        json_begin_array(w);
        json_put_string(w, r->model);
        json_put_i64(w, r->version);
        for (int i = 0; i < N_OPENAI_LATENCIES; i++) {
                json_begin_array(w);
                json_put_f64(w, r->seconds[i]);
                for (int k = 0; k < OPENAI_BUCKETS; k++)
                        json_put_u64(w, r->buckets[i][k]);
                json_end_array(w);
        }
        for (int i = 0; i < N_OPENAI_COUNTS; i++)
                json_put_u64(w, r->counts[i]);
        json_end_array(w);
}

/* Puts what the models have answered through the OpenAI endpoints since the server's start; the page makes rates of
 * it:
 *
 *     {"now_ms": .., "bounds_s": [..],
 *      "models": [["name", version, [sum in s, bucket, ...] of the first token, of those between, of the whole,
 *                  prompt tokens, generated tokens, ends: stop, length, tool calls, other, error], ...]} */
static struct error *print_language_models(struct http_call *call, struct strbuf *out) {
        struct language_model_list    list = { .call = call };
        const struct openai_settings *openai = call->service->openai;

        json_writer_init(&list.w, out);
        json_begin_object(&list.w);
        json_member_u64(&list.w, "now_ms", clock_now_ns() / NS_PER_MS);
        json_member_array(&list.w, "bounds_s");
        for (size_t i = 0; i < ARRAY_LEN(openai_bounds); i++)
                json_put_f64(&list.w, openai_bounds[i]);
        json_end_array(&list.w);
        json_member_array(&list.w, "models");
        if (openai != NULL)
                openai_metrics_read(openai->metrics, put_language_model, &list);
        json_end_array(&list.w);
        json_end_object(&list.w);
        return strbuf_check(out, "the answer");
}

static struct error *print_answer(struct look *l, struct strbuf *out) {
        struct dashboard *d = l->call->service->dashboard;

        if (l->wants_language_models)
                return print_language_models(l->call, out);
        if (l->wants_history)
                return dashboard_print_history(d, l->model, l->version, out);
        return dashboard_print(d, &l->question, out);
}

/* On a work thread: with thousands of models a reading takes milliseconds. */
static struct error *make_answer(struct look *l) {
        AUTO_STRBUF out = { 0 };

        TRY(print_answer(l, &out));
        l->json = buf_new(http_call_buf_pool(l->call), out.len + 1);
        if (l->json == NULL)
                return error_new_text(ERR_UNAVAILABLE,
                                      buf_pool_shortage(http_call_buf_pool(l->call), out.len + 1));
        memcpy(l->json->bytes, strbuf_cstr(&out), out.len);
        l->json->len = out.len;
        return NULL;
}

static void run_look(struct loop_work *w) {
        struct look *l = CONTAINER_OF(w, struct look, work);

        l->failure = make_answer(l);
}

static void refuse_look(struct loop_work *w, struct error *err) {
        CONTAINER_OF(w, struct look, work)->failure = err;
}

static void on_looked(struct loop_work *w) {
        static const struct http_header no_store = { { "Cache-Control", 13 }, { "no-store", 8 } };
        struct look                    *l = CONTAINER_OF(w, struct look, work);

        if (l->failure != NULL) {
                http_call_reply_error(l->call, l->failure, HTTP_JSON);
                return;
        }

        const struct http_part part = { l->json->bytes, l->json->len, l->json };

        http_call_reply(l->call, &(struct http_reply){ .status = 200,
                                                       .content_type = HTTP_JSON,
                                                       .headers = &no_store,
                                                       .n_headers = 1,
                                                       .parts = &part,
                                                       .n_parts = 1 });
}

static bool sees_model(void *owner, struct str model) {
        struct http_call *call = owner;

        return access_grants_model(&call->access, model);
}

static struct error *read_number(struct str name, struct str value, uint64_t *ret) {
        if (str_to_u64(value, ret))
                return NULL;
        return error_new(ERR_INVALID_ARG, "'%.*s' takes a number, got '%.*s'", STR_ARG(name),
                         STR_ARG(value));
}

static struct error *read_text(struct look *l, struct str name, struct str value, struct str *ret) {
        AUTO_STRBUF text = { 0 };

        if (!url_decode(value, &text) || !str_is_utf8(strbuf_str(&text)))
                return error_new(ERR_INVALID_ARG, "'%.*s' is not percent-encoded UTF-8",
                                 STR_ARG(name));
        TRY(strbuf_check(&text, "the query"));
        *ret = str_range(arena_str(&l->call->arena, strbuf_str(&text)), text.len);
        return NULL;
}

static struct error *read_member(struct look *l, struct str name, struct str value) {
        if (str_is(name, "since"))
                return read_number(name, value, &l->question.since);
        if (str_is(name, "log"))
                return read_number(name, value, &l->question.log_since);
        if (str_is(name, "history")) {
                l->wants_history = true;
                return read_text(l, name, value, &l->model);
        }
        if (str_is(name, "language_models")) {
                l->wants_language_models = true;
                return NULL;
        }
        if (str_is(name, "version"))
                return read_text(l, name, value, &l->version);
        return error_new(ERR_INVALID_ARG, "'%.*s' is not a parameter of the dashboard",
                         STR_ARG(name));
}

static struct error *read_query(struct look *l) {
        struct str rest = http_call_query(l->call), item, name;

        while (rest.len > 0) {
                struct str value;

                rest = str_split(rest, '&', &item);
                value = str_split(item, '=', &name);
                TRY(read_member(l, name, value.ptr != NULL ? value : STR_LIT("")));
        }
        return NULL;
}

void http_dashboard_get(struct http_call *call) {
        struct look  *l = ARENA_NEW(&call->arena, struct look);
        struct error *err;

        l->call = call;
        l->work = (struct loop_work){
                .run = run_look, .refuse = refuse_look, .done = on_looked, .is_background = true
        };
        l->model = l->version = STR_LIT("");
        l->question = (struct dashboard_question){
                .with_log =
                        access_grants_group(&call->access, call->service->policy, ENDPOINT_LOGGING),
                .sees = access_is_limited(&call->access) ? sees_model : NULL,
                .owner = call,
        };
        err = read_query(l);
        /* What the key does not permit is not there. */
        if (err == NULL && l->model.len > 0 && !access_grants_model(&call->access, l->model))
                err = error_new(ERR_NOT_FOUND, "the dashboard knows no version '%.*s' of '%.*s'",
                                STR_ARG(l->version), STR_ARG(l->model));
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_start_work_thread(call, &l->work);
}
