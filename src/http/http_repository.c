/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/strbuf.h"
#include "codec/base64.h"
#include "codec/json_reader.h"
#include "control/load_parameter.h"
#include "core_api/core_error.h"
#include "http/http_handlers.h"
#include "http/http_members.h"
#include "http/http_service.h"
#include "http/http_survey.h"
#include "net/loop.h"

#include "triton/core/tritonserver.h"

/* Override files of one load; a model has a handful. */
#define MAX_PARAMETERS 1024

/* One order to the repository while it runs beside the loop; in the call's arena. */
struct order {
        struct loop_work             work;
        struct http_call            *call; /* borrowed: holds this */
        const char                  *model;
        struct TRITONSERVER_Error   *failure;
        bool                         with_dependents;
        size_t                       n_parameters;
        struct TRITONSERVER_Parameter **parameters; /* in arena; each owned */
};

static struct order *new_order(struct http_call *call, loop_work_fn run, loop_work_fn done) {
        struct order *o = ARENA_NEW(&call->arena, struct order);

        o->work.run = run;
        o->work.done = done;
        o->work.gives_way = true;
        o->call = call;
        o->model = http_call_model(call);
        return o;
}

/* Answers at once what could not be read. */
static void start_order(struct order *o, struct error *err) {
        if (err)
                http_call_reply_error(o->call, err, HTTP_JSON);
        else
                http_call_offload(o->call, &o->work);
}

static void end_order(struct order *o) {
        for (size_t i = 0; i < o->n_parameters; i++)
                TRITONSERVER_ParameterDelete(o->parameters[i]);
        o->n_parameters = 0;
}

static void on_ordered(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, work);
        struct error *err = core_error_take(o->failure);

        end_order(o);
        if (err)
                http_call_reply_error(o->call, err, HTTP_JSON);
        else
                http_call_reply_text(o->call, HTTP_JSON, STR_LIT(""));
}

/* An empty body has no members. */
static struct error *read_body(struct http_call *call, http_member_fn read, void *owner) {
        if (call->body.len == 0)
                return NULL;
        return http_members_read(call->body, &call->arena, read, owner);
}

/* ---- index ---- */

static struct TRITONSERVER_Error *ask_index(struct TRITONSERVER_Server  *core,
                                            const struct http_question  *question,
                                            struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelIndex(core, question->flags, ret);
}

static struct error *read_index_member(void *owner, struct json_reader *r, struct str key) {
        struct http_question *question = owner;

        if (!str_is(key, "ready"))
                json_skip(r);
        else if (json_peek(r) != JSON_BOOL)
                return error_new(ERR_INVALID_ARG, "Invalid value for 'ready': expected a boolean");
        else
                question->flags = json_read_bool(r) ? TRITONSERVER_INDEX_FLAG_READY : 0;
        return NULL;
}

void http_repository_index(struct http_call *call) {
        struct http_question question = { .ask = ask_index };
        struct error        *err = NULL;

        if (call->body.len > 0)
                err = http_members_read_lenient(call->body, &call->arena, read_index_member,
                                                &question);
        if (err)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_survey_start(call, &question);
}

/* ---- load ---- */

static void run_load(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, work);

        o->failure = TRITONSERVER_ServerLoadModelWithParameters(
                o->call->core, o->model, (const struct TRITONSERVER_Parameter **)o->parameters,
                o->n_parameters);
}

static struct error *no_memory(const char *name) {
        return error_new(ERR_UNAVAILABLE, "no memory for load parameter '%s'", name);
}

/* A file comes as base64 and goes on as bytes, which must outlive the parameter: in the arena. */
static struct error *new_file_parameter(struct http_call *call, const char *name, struct str value,
                                        struct TRITONSERVER_Parameter **ret) {
        AUTO_STRBUF bytes = { 0 };
        char       *kept;

        strbuf_init(&bytes, call->service->max_input_bytes);
        base64_decode_lenient(value, &bytes);
        kept = bytes.overflowed ? NULL : arena_try_alloc(&call->arena, bytes.len + 1);
        if (!kept)
                return no_memory(name);
        memcpy(kept, strbuf_cstr(&bytes), bytes.len);
        *ret = TRITONSERVER_ParameterBytesNew(name, kept, bytes.len);
        return NULL;
}

static struct error *new_text_parameter(struct http_call *call, const char *name, struct str value,
                                        struct TRITONSERVER_Parameter **ret) {
        const char *text = arena_try_str(&call->arena, value);

        if (!text)
                return no_memory(name);
        *ret = TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING, text);
        return NULL;
}

/* The core takes texts that end there: what follows would be lost. */
static bool holds_nul(struct str s) {
        return s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
}

static bool is_text(struct str key) {
        return str_is(key, "config") || load_parameter_is_of_chain(key);
}

static struct error *new_parameter(struct http_call *call, struct str key, struct str value,
                                   struct TRITONSERVER_Parameter **ret) {
        const char *name = arena_try_str(&call->arena, key);

        if (!name)
                return no_memory("");
        if (holds_nul(key))
                return error_new_text(ERR_INVALID_ARG,
                                      "the name of a load parameter contains a NUL character");
        if (is_text(key) && holds_nul(value))
                return error_new(ERR_INVALID_ARG, "load parameter '%s' contains a NUL character",
                                 name);
        if (is_text(key))
                return new_text_parameter(call, name, value, ret);
        if (str_starts(key, STR_LIT("file:")))
                return new_file_parameter(call, name, value, ret);
        return error_new_text(ERR_INVALID_ARG, "unexpected error on creating Triton parameter");
}

static struct error *read_load_parameter(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;
        struct str    value;

        if (json_peek(r) == JSON_BOOL && load_parameter_is_of_chain(key))
                value = str_of(json_read_bool(r) ? "true" : "false");
        else if (json_peek(r) == JSON_STRING)
                value = json_read_string(r, &o->call->arena);
        else
                return error_new_text(ERR_INVALID_ARG,
                                      "attempt to access JSON non-string as string");
        if (json_failed(r))
                return NULL;
        if (o->n_parameters == MAX_PARAMETERS)
                return error_new(ERR_INVALID_ARG, "more than %d load parameters", MAX_PARAMETERS);
        TRY(new_parameter(o->call, key, value, &o->parameters[o->n_parameters]));
        o->n_parameters++;
        return NULL;
}

static struct error *read_load_member(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;

        if (str_is(key, "parameters"))
                return http_members_read_nested(r, &o->call->arena, read_load_parameter, o);
        json_skip(r);
        return NULL;
}

static struct error *read_load(struct order *o) {
        o->parameters = arena_alloc(&o->call->arena, MAX_PARAMETERS * sizeof(o->parameters[0]));
        return read_body(o->call, read_load_member, o);
}

/* A load takes as long as the model: the loop does not wait for it. */
void http_repository_load(struct http_call *call) {
        struct order *o = new_order(call, run_load, on_ordered);
        struct error *err = read_load(o);

        if (!err) {
                http_call_offload(call, &o->work);
                return;
        }
        end_order(o);
        http_call_reply_error(call, err, HTTP_JSON);
}

/* ---- unload ---- */

static void run_unload(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, work);

        o->failure = o->with_dependents
                             ? TRITONSERVER_ServerUnloadModelAndDependents(o->call->core, o->model)
                             : TRITONSERVER_ServerUnloadModel(o->call->core, o->model);
}

static struct error *read_unload_parameter(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;

        if (!str_is(key, "unload_dependents"))
                json_skip(r);
        else if (json_peek(r) != JSON_BOOL)
                return error_new_text(ERR_INVALID_ARG,
                                      "Unable to parse 'unload_dependents': attempt to access "
                                      "JSON non-boolean as boolean");
        else
                o->with_dependents = json_read_bool(r);
        return NULL;
}

static struct error *read_unload_member(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;

        if (str_is(key, "parameters"))
                return http_members_read_nested(r, &o->call->arena, read_unload_parameter, o);
        json_skip(r);
        return NULL;
}

void http_repository_unload(struct http_call *call) {
        struct order *o = new_order(call, run_unload, on_ordered);
        struct error *err = read_body(call, read_unload_member, o);

        start_order(o, err);
}

void http_repository_named(struct http_call *call) {
        http_call_reply_error(call,
                              error_new_text(ERR_UNSUPPORTED,
                                             "'repository_name' specification is not supported"),
                              HTTP_JSON);
}
