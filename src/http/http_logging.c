/* SPDX-License-Identifier: BSD-3-Clause */
/* The logging extension. */
#include "base/log.h"
#include "base/strbuf.h"
#include "call/log_control.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "http/http_handlers.h"
#include "http/http_members.h"

static void put_value(struct json_writer *w, const struct log_row *row, struct log_settings *s) {
        switch (row->kind) {
        case LOG_ROW_FILE: json_put_string(w, s->file); break;
        case LOG_ROW_SWITCH: json_put_bool(w, *log_row_switch(row, s)); break;
        case LOG_ROW_LEVEL: json_put_u64(w, s->verbose_level); break;
        case LOG_ROW_FORMAT: json_put_string(w, log_control_format_name(s->format)); break;
        }
}

void http_logging_get(struct http_call *call) {
        struct log_settings now;
        AUTO_STRBUF         text = { 0 };
        struct json_writer  w = { .out = &text };

        log_get_settings(&now);
        json_begin_object(&w);
        for (size_t i = 0; i < LOG_N_ROWS; i++) {
                json_key(&w, log_rows[i].name);
                put_value(&w, &log_rows[i], &now);
        }
        json_end_object(&w);
        http_call_reply_json(call, &text);
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

        TRY(http_members_read_text(r, arena, &name));
        if (log_control_find_format(name, ret))
                return NULL;
        return error_new(ERR_UNAVAILABLE, "invalid argument for --log_format, got: %.*s",
                         STR_ARG(name));
}

struct change {
        struct log_settings settings;
        struct arena       *arena;
};

/* null does not change a setting; unknown names are ignored. */
static struct error *read_setting(void *owner, struct json_reader *r, struct str key) {
        struct change        *c = owner;
        const struct log_row *row = log_row_find(key);

        if (json_peek(r) == JSON_NULL) {
                json_read_null(r);
                return NULL;
        }
        if (row == NULL) {
                json_skip(r);
                return NULL;
        }
        switch (row->kind) {
        case LOG_ROW_SWITCH: return read_bool(r, log_row_switch(row, &c->settings));
        case LOG_ROW_LEVEL: return read_level(r, &c->settings.verbose_level);
        case LOG_ROW_FORMAT: return read_format(r, c->arena, &c->settings.format);
        case LOG_ROW_FILE: break;
        }
        return log_control_refuse_file();
}

void http_logging_post(struct http_call *call) {
        struct change c = { .arena = &call->arena };
        struct error *err;

        log_get_settings(&c.settings);
        err = http_members_read(call->body, c.arena, read_setting, &c);
        if (err == NULL)
                err = log_control_apply(NULL, &c.settings);
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_logging_get(call);
}
