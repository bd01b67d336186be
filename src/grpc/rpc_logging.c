/* SPDX-License-Identifier: BSD-3-Clause */
/* The logging extension. */
#include "base/log.h"
#include "call/log_control.h"
#include "codec/pb_build.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"

#include <string.h>

/* protobuf-c's types of a setting's value in requests and in answers. */
#define SETTING_IN Inference__LogSettingsRequest__SettingValue
#define SETTING_OUT Inference__LogSettingsResponse__SettingValue

/* ---- the request ---- */

/* Finds the last value with that key; NULL if there is none. */
static const SETTING_IN *find_setting(const Inference__LogSettingsRequest *q, const char *key) {
        static const SETTING_IN unset = INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__INIT;

        for (size_t i = q->n_settings; i > 0; i--)
                if (strcmp(q->settings[i - 1]->key, key) == 0)
                        return q->settings[i - 1]->value != NULL ? q->settings[i - 1]->value
                                                                 : &unset;
        return NULL;
}

static struct error *read_bool(const SETTING_IN *value, const char *key, bool *ret) {
        if (value->parameter_choice_case !=
            INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM)
                return error_new(ERR_INVALID_ARG, "expect boolean for '%s'", key);
        *ret = value->bool_param;
        return NULL;
}

static struct error *read_level(const SETTING_IN *value, const char *key, unsigned *ret) {
        if (value->parameter_choice_case !=
                    INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM ||
            value->uint32_param > INT32_MAX)
                return error_new(ERR_INVALID_ARG, "expect int32 for '%s'", key);
        *ret = value->uint32_param;
        return NULL;
}

static struct error *read_format(const SETTING_IN *value, const char *key, enum log_format *ret) {
        if (value->parameter_choice_case !=
            INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM)
                return error_new(ERR_INVALID_ARG, "expect string for '%s'", key);
        if (log_control_find_format(str_of(value->string_param), ret))
                return NULL;
        return error_new(ERR_INVALID_ARG, "invalid argument for %s, got: %s", key,
                         value->string_param);
}

static struct error *read_setting(const SETTING_IN *value, const struct log_row *row,
                                  struct log_settings *s) {
        switch (row->kind) {
        case LOG_ROW_SWITCH: return read_bool(value, row->name, log_row_switch(row, s));
        case LOG_ROW_LEVEL: return read_level(value, row->name, &s->verbose_level);
        case LOG_ROW_FORMAT: return read_format(value, row->name, &s->format);
        case LOG_ROW_FILE: break;
        }
        return log_control_refuse_file();
}

/* Unknown names are ignored. */
static struct error *read_settings(const Inference__LogSettingsRequest *q, struct log_settings *s) {
        for (size_t i = 0; i < LOG_N_ROWS; i++) {
                const SETTING_IN *value = find_setting(q, log_rows[i].name);

                if (value != NULL)
                        TRY(read_setting(value, &log_rows[i], s));
        }
        return NULL;
}

/* ---- the answer ---- */

static struct error *add_setting(struct grpc_call *call, Inference__LogSettingsResponse *answer,
                                 const char *key, SETTING_OUT **ret) {
        ProtobufCMessage *entry, *value;

        TRY(pb_message_new(&inference__log_settings_response__settings_entry__descriptor,
                           &call->arena, &entry));
        TRY(pb_message_new(&inference__log_settings_response__setting_value__descriptor,
                           &call->arena, &value));
        *ret = (SETTING_OUT *)(void *)value;
        answer->settings[answer->n_settings] = (void *)entry;
        answer->settings[answer->n_settings]->key = (char *)key; /* never written to */
        answer->settings[answer->n_settings++]->value = *ret;
        return NULL;
}

static void set_text(struct grpc_call *call, const char *text, SETTING_OUT *ret) {
        ret->parameter_choice_case =
                INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM;
        ret->string_param = arena_strdup(&call->arena, text);
}

static void set_value(struct grpc_call *call, const struct log_row *row, struct log_settings *s,
                      SETTING_OUT *ret) {
        switch (row->kind) {
        case LOG_ROW_FILE: set_text(call, s->file, ret); break;
        case LOG_ROW_FORMAT: set_text(call, log_control_format_name(s->format), ret); break;
        case LOG_ROW_SWITCH:
                ret->parameter_choice_case =
                        INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM;
                ret->bool_param = *log_row_switch(row, s);
                break;
        case LOG_ROW_LEVEL:
                ret->parameter_choice_case =
                        INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM;
                ret->uint32_param = s->verbose_level;
                break;
        }
}

static struct error *fill_answer(struct grpc_call *call, Inference__LogSettingsResponse *answer) {
        struct log_settings now;
        SETTING_OUT        *value;

        log_get_settings(&now);
        answer->settings = arena_alloc(&call->arena, LOG_N_ROWS * sizeof(answer->settings[0]));
        for (size_t i = 0; i < LOG_N_ROWS; i++) {
                TRY(add_setting(call, answer, log_rows[i].name, &value));
                set_value(call, &log_rows[i], &now, value);
        }
        return NULL;
}

struct error *rpc_log_settings(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer) {
        const Inference__LogSettingsRequest *q =
                RPC_REQUEST(Inference__LogSettingsRequest, request);
        struct log_settings settings;

        if (q->n_settings > 0) {
                log_get_settings(&settings);
                TRY(read_settings(q, &settings));
                TRY(log_control_apply(NULL, &settings));
        }
        TRY(pb_message_new(&inference__log_settings_response__descriptor, &call->arena,
                           ret_answer));
        return fill_answer(call, (void *)*ret_answer);
}
