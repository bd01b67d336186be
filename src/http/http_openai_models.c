/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of the OpenAI API: their list, one of them, load and unload. */
#include "base/strbuf.h"
#include "call/repository_order.h"
#include "call/service.h"
#include "codec/json_writer.h"
#include "http/http_openai.h"
#include "net/loop.h"
#include "openai/openai_list.h"
#include "openai/openai_settings.h"

/* A model has a few dozen bytes in the list, and a name of any length. */
#define MAX_LIST_BYTES ((size_t)64 << 20)

/* ---- the list ---- */

/* In the call's arena. */
struct listing {
        struct loop_work  work;
        struct http_call *call; /* borrowed: holds this */
        struct strbuf     text; /* owned */
        struct error     *err;  /* owned */
};

static struct openai_list_options options_of(const struct http_call *call) {
        return (struct openai_list_options){ .core = call->core,
                                             .access = &call->access,
                                             .lists_all = call->service->openai->lists_all };
}

static void reply_models(struct http_call *call, struct error *err, struct strbuf *text) {
        if (err != NULL)
                http_openai_refuse(call, &(struct http_openai_refusal){ .err = err });
        else
                http_call_reply_json(call, text);
        strbuf_done(text);
}

static void run_listing(struct loop_work *w) {
        struct listing                  *l = CONTAINER_OF(w, struct listing, work);
        const struct openai_list_options options = options_of(l->call);

        l->err = openai_list_print(&options, &l->text);
}

static void refuse_listing(struct loop_work *w, struct error *err) {
        CONTAINER_OF(w, struct listing, work)->err = err;
}

static void on_listed(struct loop_work *w) {
        struct listing *l = CONTAINER_OF(w, struct listing, work);
        struct strbuf   text = l->text;

        reply_models(l->call, l->err, &text);
}

void http_openai_models(struct http_call *call) {
        struct listing *l = ARENA_NEW(&call->arena, struct listing);

        l->call = call;
        l->work = (struct loop_work){ .run = run_listing,
                                      .refuse = refuse_listing,
                                      .done = on_listed,
                                      .is_background = true,
                                      .is_low_priority = true };
        strbuf_init(&l->text, MAX_LIST_BYTES);
        http_call_start_work_thread(call, &l->work);
}

/* The core's text for an unknown model mentions a request, but there is none here. */
void http_openai_model(struct http_call *call) {
        const struct openai_list_options options = options_of(call);
        struct strbuf                    text = { 0 };
        struct error                    *err;

        err = openai_list_print_model(&options, http_call_model(call), &text);
        if (err != NULL && err->code == ERR_NOT_FOUND) {
                error_free(err);
                err = error_new(ERR_NOT_FOUND, "the model '%.*s' does not exist",
                                STR_ARG(call->model));
        }
        reply_models(call, err, &text);
}

/* ---- load and unload ---- */

/* In the call's arena. */
struct order {
        struct repository_order order;
        struct http_call       *call; /* borrowed: holds this */
};

static void reply_ordered(struct http_call *call) {
        struct strbuf      text = { 0 };
        struct json_writer w = { .out = &text };

        json_begin_object(&w);
        json_member_string(&w, "status", "success");
        json_member_str(&w, "model", call->model);
        json_end_object(&w);
        reply_models(call, NULL, &text);
}

static void on_ordered(struct loop_work *w) {
        struct order       *o = CONTAINER_OF(w, struct order, order.work);
        struct http_call   *call = o->call;
        enum access_verdict verdict;
        struct error       *err =
                repository_order_answer(&o->order, &call->access, &call->arena, &verdict);

        if (verdict != ACCESS_GRANTED) {
                AUTO_ERROR refusal = err;

                http_call_refuse_access(call, verdict, refusal->message, HTTP_JSON);
        } else if (err != NULL) {
                http_openai_refuse(call, &(struct http_openai_refusal){ .err = err });
        } else {
                reply_ordered(call);
        }
}

static void order(struct http_call *call, enum repository_order_kind kind) {
        struct order *o;

        if (!call->service->openai->may_load) {
                struct error *err =
                        error_new_text(ERR_INVALID_ARG, "Model load/unload requires "
                                                        "--model-control-mode=explicit");

                http_openai_refuse(call, &(struct http_openai_refusal){ .err = err });
                return;
        }
        o = ARENA_NEW(&call->arena, struct order);
        repository_order_init(&o->order, kind, call->core, http_call_model(call), on_ordered);
        repository_order_limit(&o->order, &call->access);
        o->call = call;
        http_call_start_work_thread(call, &o->order.work);
}

void http_openai_load(struct http_call *call) {
        order(call, REPOSITORY_LOAD);
}

void http_openai_unload(struct http_call *call) {
        order(call, REPOSITORY_UNLOAD);
}
