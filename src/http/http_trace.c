/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of requests, and the trace extension: settings, global or of one model. */
#include "http/http_trace.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "call/service.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "http/http_handlers.h"
#include "http/http_members.h"
#include "trace/tracer.h"
#include "triton/core/tritonserver.h"

#include <string.h>

/* ---- a traced request ---- */

static void on_sent(struct http_call *call) {
        struct trace_record *r = STEAL(call->trace);

        trace_record_point(r, TRACE_POINT_HTTP_SEND_START, call->send_start_ns);
        trace_record_point(r, TRACE_POINT_HTTP_SEND_END, clock_now_ns());
        trace_record_unref(r);
}

/* A function of its own, so that requests without a trace do not pay for its stack frame. */
static NOINLINE struct trace_record *start_trace(struct http_call *call, const char *model) {
        struct trace_record *r;

        r = tracer_start(call->service->tracer,
                         &(struct trace_request){
                                 .model = model,
                                 .traceparent = http_call_header(call, "traceparent"),
                                 .tracestate = http_call_header(call, "tracestate"),
                         });
        if (r == NULL)
                return NULL;
        trace_record_point(r, TRACE_POINT_HTTP_RECV_START, call->recv_start_ns);
        trace_record_point(r, TRACE_POINT_HTTP_RECV_END, call->recv_end_ns);
        call->trace = r;
        call->on_sent = on_sent;
        return r;
}

struct trace_record *http_trace_start(struct http_call *call, const char *model) {
        return tracer_is_on(call->service->tracer) ? start_trace(call, model) : NULL;
}

bool http_trace_answer_header(struct http_call *call, struct http_header *ret) {
        char text[TRACEPARENT_CHARS + 1];

        if (call->trace == NULL || !tracer_answer_header(call->trace, text))
                return false;
        ret->name = STR_LIT("traceparent");
        ret->value = str_of(arena_strdup(&call->arena, text));
        return true;
}

/* ---- the extension ---- */

/* Returns NULL for the global settings. */
static const char *model_of(struct http_call *call) {
        return call->model.len > 0 ? http_call_model(call) : NULL;
}

static struct error *check_model(struct http_call *call) {
        return tracer_check_model(call->core, model_of(call));
}

static void reply_settings(struct http_call *call) {
        struct trace_report_row rows[TRACE_REPORT_MAX_ROWS];
        size_t      n = tracer_report(call->service->tracer, model_of(call), &call->arena, rows);
        AUTO_STRBUF text = { 0 };
        struct json_writer w = { .out = &text };

        json_begin_object(&w);
        for (size_t i = 0; i < n; i++) {
                json_key(&w, rows[i].key);
                if (rows[i].is_list)
                        json_begin_array(&w);
                for (size_t k = 0; k < rows[i].n_values; k++)
                        json_put_string(&w, rows[i].values[k]);
                if (rows[i].is_list)
                        json_end_array(&w);
        }
        json_end_object(&w);
        http_call_reply_json(call, &text);
}

void http_trace_get(struct http_call *call) {
        struct error *err = check_model(call);

        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                reply_settings(call);
}

/* ---- changes ---- */

/* Counts the elements of the array at the reader, of which it has a copy. */
static size_t count_elements(struct json_reader r) {
        size_t n = 0;

        json_enter_array(&r);
        for (; json_next_element(&r); n++)
                json_skip(&r);
        return n;
}

static struct error *read_level(struct json_reader *r, struct arena *arena, uint32_t *ret) {
        struct str name;
        size_t     n;

        if (json_peek(r) != JSON_ARRAY)
                return error_new_text(ERR_INVALID_ARG, "attempt to access JSON non-array as array");
        n = count_elements(*r);
        *ret = TRITONSERVER_TRACE_LEVEL_DISABLED;
        json_enter_array(r);
        while (json_next_element(r)) {
                TRY(http_members_read_text(r, arena, &name));
                TRY(trace_level_read(name, n, ret));
        }
        return NULL;
}

struct reading {
        struct trace_change change;
        struct arena       *arena;
};

/* null clears a setting; unknown names are ignored. */
static struct error *read_setting(void *owner, struct json_reader *r, struct str key) {
        struct reading      *reading = owner;
        struct trace_change *change = &reading->change;
        enum trace_setting   setting = trace_setting_find(key);
        struct str           text;

        if (str_is(key, "trace_file"))
                return trace_settings_refuse_file();
        if (setting == N_TRACE_SETTINGS) {
                json_skip(r);
                return NULL;
        }
        if (json_peek(r) == JSON_NULL) {
                json_read_null(r);
                change->actions[setting] = TRACE_CLEAR;
                return NULL;
        }
        change->actions[setting] = TRACE_SET;
        if (setting == TRACE_SETTING_LEVEL)
                return read_level(r, reading->arena, &change->values.level);
        TRY(http_members_read_text(r, reading->arena, &text));
        return trace_number_read(setting, text, "", &change->values);
}

void http_trace_post(struct http_call *call) {
        struct reading reading = { .arena = &call->arena };
        struct error  *err = check_model(call);

        if (err == NULL)
                err = http_members_read(call->body, reading.arena, read_setting, &reading);
        if (err == NULL)
                err = tracer_change(call->service->tracer, model_of(call), &reading.change);
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                reply_settings(call);
}
