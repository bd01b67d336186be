/* SPDX-License-Identifier: BSD-3-Clause */
/* The logging extension. */
#include "base/log.h"
#include "base/strbuf.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "control/log_control.h"
#include "http/http_handlers.h"
#include "http/http_members.h"

void http_logging_get(struct http_call *call) {
        struct log_settings now;
        struct json_writer  w;
        AUTO_STRBUF         text = { 0 };

        log_get_settings(&now);
        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_begin_object(&w);
        json_key(&w, "log_file");
        json_put_string(&w, now.file);
        json_key(&w, "log_info");
        json_put_bool(&w, now.info);
        json_key(&w, "log_warning");
        json_put_bool(&w, now.warning);
        json_key(&w, "log_error");
        json_put_bool(&w, now.error);
        json_key(&w, "log_verbose_level");
        json_put_u64(&w, now.verbose_level);
        json_key(&w, "log_format");
        json_put_string(&w, log_control_format_name(now.format));
        json_end_object(&w);
        http_call_reply_text(call, HTTP_JSON, strbuf_str(&text));
}

static struct error *read_bool(struct json_reader *r, bool *ret) {
        if (json_peek(r) != JSON_BOOL)
                return error_new_text(ERR_INVALID_ARG,
                                      "attempt to access JSON non-boolean as boolean");
        *ret = json_read_bool(r);
        return NULL;
}

static struct error *read_level(struct json_reader *r, unsigned *ret) {
        struct json_number number = { 0 };

        if (json_peek(r) == JSON_NUMBER)
                number = json_read_number(r);
        if (!number.is_integer || (number.is_negative && number.magnitude > 0) ||
            number.magnitude > INT32_MAX)
                return error_new_text(ERR_INVALID_ARG, "attempt to access JSON "
                                                       "non-unsigned-integer as unsigned-integer");
        *ret = (unsigned)number.magnitude;
        return NULL;
}

static struct error *read_format(struct json_reader *r, struct arena *arena, enum log_format *ret) {
        struct str name;

        if (json_peek(r) != JSON_STRING)
                return error_new_text(ERR_INVALID_ARG,
                                      "attempt to access JSON non-string as string");
        name = json_read_string(r, arena);
        if (log_control_find_format(name, ret))
                return NULL;
        return error_new(ERR_UNAVAILABLE, "invalid argument for --log_format, got: %.*s",
                         STR_ARG(name));
}

struct change {
        struct log_settings settings;
        struct arena       *arena;
};

/* null leaves a setting as it is; unknown names are ignored. */
static struct error *read_setting(void *owner, struct json_reader *r, struct str key) {
        struct change       *c = owner;
        struct log_settings *s = &c->settings;

        if (json_peek(r) == JSON_NULL) {
                json_read_null(r);
                return NULL;
        }
        if (str_is(key, "log_file"))
                return log_control_refuse_file();
        if (str_is(key, "log_info"))
                return read_bool(r, &s->info);
        if (str_is(key, "log_warning"))
                return read_bool(r, &s->warning);
        if (str_is(key, "log_error"))
                return read_bool(r, &s->error);
        if (str_is(key, "log_verbose_level"))
                return read_level(r, &s->verbose_level);
        if (str_is(key, "log_format"))
                return read_format(r, c->arena, &s->format);
        json_skip(r);
        return NULL;
}

void http_logging_post(struct http_call *call) {
        struct change c = { .arena = &call->arena };
        struct error *err;

        log_get_settings(&c.settings);
        err = http_members_read(call->body, c.arena, read_setting, &c);
        if (!err)
                err = log_control_apply(NULL, &c.settings);
        if (err)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_logging_get(call);
}
