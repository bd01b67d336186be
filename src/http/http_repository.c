/* SPDX-License-Identifier: BSD-3-Clause */
/* The model repository extension: index, load, unload. */
#include "base/strbuf.h"
#include "call/model_query.h"
#include "call/repository_order.h"
#include "call/service.h"
#include "codec/base64.h"
#include "codec/json_reader.h"
#include "http/http_handlers.h"
#include "http/http_members.h"

/* In the call's arena. */
struct order {
        struct repository_order order;
        struct http_call       *call; /* borrowed: holds this */
};

static void reply_order(struct order *o, struct error *err) {
        if (err != NULL)
                http_call_reply_error(o->call, err, HTTP_JSON);
        else
                http_call_reply_text(o->call, HTTP_JSON, STR_LIT(""));
}

static void on_ordered(struct loop_work *w) {
        struct order       *o = CONTAINER_OF(w, struct order, order.work);
        enum access_verdict verdict;
        struct error       *err =
                repository_order_answer(&o->order, &o->call->access, &o->call->arena, &verdict);

        if (verdict != ACCESS_GRANTED) {
                AUTO_ERROR refusal = err;

                http_call_refuse_access(o->call, verdict, refusal->message, HTTP_JSON);
        } else
                reply_order(o, err);
}

static struct order *new_order(struct http_call *call, enum repository_order_kind kind) {
        struct order *o = ARENA_NEW(&call->arena, struct order);

        repository_order_init(&o->order, kind, call->core, http_call_model(call), on_ordered);
        repository_order_limit(&o->order, &call->access);
        o->call = call;
        return o;
}

/* Starts the order, or answers the error of reading it; takes the error. */
static void start_order(struct order *o, struct error *err) {
        if (err == NULL) {
                http_call_start_work_thread(o->call, &o->order.work);
                return;
        }
        error_free(repository_order_end(&o->order)); /* nothing was ordered */
        reply_order(o, err);
}

/* An empty body has no members. */
static struct error *read_body(struct http_call *call, http_member_fn read, void *owner) {
        if (call->body.len == 0)
                return NULL;
        return http_members_read(call->body, &call->arena, read, owner);
}

/* ---- index ---- */

static struct error *read_index_member(void *owner, struct json_reader *r, struct str key) {
        struct model_query *query = owner;

        if (!str_is(key, "ready"))
                json_skip(r);
        else if (json_peek(r) != JSON_BOOL)
                return error_new(ERR_INVALID_ARG, "Invalid value for 'ready': expected a boolean");
        else
                query->only_ready = json_read_bool(r);
        return NULL;
}

void http_repository_index(struct http_call *call) {
        struct model_query query = { .kind = MODEL_QUERY_INDEX, .model = "" };
        struct error      *err = NULL;

        if (call->body.len > 0)
                err = http_members_read_lenient(call->body, &call->arena, read_index_member,
                                                &query);
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_metadata_reply_bulk(call, &query);
}

/* ---- load ---- */

static struct error *no_memory(const char *name) {
        return error_new(ERR_UNAVAILABLE, "no memory for load parameter '%s'", name);
}

/* Decodes a file from base64. */
static struct error *add_file(struct order *o, const char *name, struct str value) {
        AUTO_STRBUF bytes = { 0 };
        char       *kept;

        strbuf_init(&bytes, o->call->service->max_input_bytes);
        base64_decode_lenient(value, &bytes);
        kept = bytes.overflowed ? NULL : arena_try_alloc(&o->call->arena, bytes.len + 1);
        if (kept == NULL)
                return no_memory(name);
        memcpy(kept, strbuf_cstr(&bytes), bytes.len);
        return repository_order_add_file(&o->order, &o->call->arena, name,
                                         str_range(kept, bytes.len));
}

static struct error *add_text(struct order *o, const char *name, struct str value) {
        const char *text = arena_try_str(&o->call->arena, value);

        if (text == NULL)
                return no_memory(name);
        return repository_order_add_text(&o->order, &o->call->arena, name, text);
}

/* The core's texts end at a NUL, so the rest would be lost. */
static bool holds_nul(struct str s) {
        return s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
}

static struct error *add_parameter(struct order *o, struct str key, struct str value) {
        enum load_parameter_kind kind = load_parameter_kind(key);
        const char              *name = arena_try_str(&o->call->arena, key);

        if (name == NULL)
                return no_memory("");
        if (holds_nul(key))
                return error_new_text(ERR_INVALID_ARG,
                                      "the name of a load parameter contains a NUL character");
        if (kind == LOAD_PARAMETER_FILE)
                return add_file(o, name, value);
        if (kind == LOAD_PARAMETER_UNKNOWN)
                return error_new_text(ERR_INVALID_ARG,
                                      "unexpected error on creating Triton parameter");
        if (holds_nul(value))
                return error_new(ERR_INVALID_ARG, "load parameter '%s' contains a NUL character",
                                 name);
        return add_text(o, name, value);
}

static struct error *read_load_parameter(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;
        struct str    value;

        if (json_peek(r) == JSON_BOOL && load_parameter_kind(key) == LOAD_PARAMETER_TEXT_OR_BOOL)
                value = str_of(json_read_bool(r) ? "true" : "false");
        else
                TRY(http_members_read_text(r, &o->call->arena, &value));
        return json_failed(r) ? NULL : add_parameter(o, key, value);
}

static struct error *read_load_member(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;

        if (str_is(key, "parameters"))
                return http_members_read_nested(r, &o->call->arena, read_load_parameter, o);
        json_skip(r);
        return NULL;
}

void http_repository_load(struct http_call *call) {
        struct order *o = new_order(call, REPOSITORY_LOAD);

        start_order(o, read_body(call, read_load_member, o));
}

/* ---- unload ---- */

static struct error *read_unload_parameter(void *owner, struct json_reader *r, struct str key) {
        struct order *o = owner;

        if (!str_is(key, "unload_dependents"))
                json_skip(r);
        else if (json_peek(r) != JSON_BOOL)
                return error_new_text(ERR_INVALID_ARG,
                                      "Unable to parse 'unload_dependents': attempt to access "
                                      "JSON non-boolean as boolean");
        else
                o->order.with_dependents = json_read_bool(r);
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
        struct order *o = new_order(call, REPOSITORY_UNLOAD);

        start_order(o, read_body(call, read_unload_member, o));
}

void http_repository_named(struct http_call *call) {
        http_call_reply_error(call, repository_order_refuse_name(), HTTP_JSON);
}
