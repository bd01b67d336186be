/* SPDX-License-Identifier: BSD-3-Clause */
/* The logging extension. */
#include "grpc/rpc_control.h"

#include "base/log.h"
#include "codec/pb_build.h"
#include "control/log_control.h"
#include "grpc_service.pb-c.h"

#include <string.h>

/* protobuf-c's name for the value of a setting: in requests, in answers. */
#define SETTING_IN Inference__LogSettingsRequest__SettingValue
#define SETTING_OUT Inference__LogSettingsResponse__SettingValue

/* ---- what is asked ---- */

/* Of equal keys the last counts. NULL = not asked. */
static const SETTING_IN *find(const Inference__LogSettingsRequest *q, const char *key) {
        static const SETTING_IN unset = INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__INIT;

        for (size_t i = q->n_settings; i > 0; i--)
                if (strcmp(q->settings[i - 1]->key, key) == 0)
                        return q->settings[i - 1]->value ? q->settings[i - 1]->value : &unset;
        return NULL;
}

static struct error *read_bool(const Inference__LogSettingsRequest *q, const char *key, bool *ret) {
        const SETTING_IN *value = find(q, key);

        if (!value)
                return NULL;
        if (value->parameter_choice_case !=
            INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM)
                return error_new(ERR_INVALID_ARG, "expect boolean for '%s'", key);
        *ret = value->bool_param;
        return NULL;
}

static struct error *read_level(const Inference__LogSettingsRequest *q, unsigned *ret) {
        const SETTING_IN *value = find(q, "log_verbose_level");

        if (!value)
                return NULL;
        if (value->parameter_choice_case !=
                    INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM ||
            value->uint32_param > INT32_MAX)
                return error_new_text(ERR_INVALID_ARG, "expect int32 for 'log_verbose_level'");
        *ret = value->uint32_param;
        return NULL;
}

static struct error *read_format(const Inference__LogSettingsRequest *q, enum log_format *ret) {
        const SETTING_IN *value = find(q, "log_format");

        if (!value)
                return NULL;
        if (value->parameter_choice_case !=
            INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM)
                return error_new_text(ERR_INVALID_ARG, "expect string for 'log_format'");
        if (log_control_find_format(str_of(value->string_param), ret))
                return NULL;
        return error_new(ERR_INVALID_ARG, "invalid argument for log_format, got: %s",
                         value->string_param);
}

/* Unknown names are ignored. */
static struct error *read_settings(const Inference__LogSettingsRequest *q, struct log_settings *s) {
        if (find(q, "log_file"))
                return log_control_refuse_file();
        TRY(read_bool(q, "log_info", &s->info));
        TRY(read_bool(q, "log_warning", &s->warning));
        TRY(read_bool(q, "log_error", &s->error));
        TRY(read_level(q, &s->verbose_level));
        return read_format(q, &s->format);
}

/* ---- what is told ---- */

static struct error *add(struct grpc_call *call, Inference__LogSettingsResponse *answer,
                         const char *key, SETTING_OUT **ret) {
        ProtobufCMessage *entry, *value;

        TRY(pb_message_new(&inference__log_settings_response__settings_entry__descriptor,
                           &call->arena, &entry));
        TRY(pb_message_new(&inference__log_settings_response__setting_value__descriptor,
                           &call->arena, &value));
        *ret = (SETTING_OUT *)(void *)value;
        answer->settings[answer->n_settings] = (void *)entry;
        answer->settings[answer->n_settings]->key = (char *)key; /* nobody writes to it */
        answer->settings[answer->n_settings++]->value = *ret;
        return NULL;
}

static struct error *add_text(struct grpc_call *call, Inference__LogSettingsResponse *answer,
                              const char *key, const char *text) {
        SETTING_OUT *value;

        TRY(add(call, answer, key, &value));
        value->parameter_choice_case =
                INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM;
        value->string_param = arena_strdup(&call->arena, text);
        return NULL;
}

static struct error *add_bool(struct grpc_call *call, Inference__LogSettingsResponse *answer,
                              const char *key, bool truth) {
        SETTING_OUT *value;

        TRY(add(call, answer, key, &value));
        value->parameter_choice_case =
                INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM;
        value->bool_param = truth;
        return NULL;
}

static struct error *add_level(struct grpc_call *call, Inference__LogSettingsResponse *answer,
                               unsigned level) {
        SETTING_OUT *value;

        TRY(add(call, answer, "log_verbose_level", &value));
        value->parameter_choice_case =
                INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM;
        value->uint32_param = level;
        return NULL;
}

#define N_SETTINGS 6

static struct error *fill_answer(struct grpc_call *call, Inference__LogSettingsResponse *answer) {
        struct log_settings now;

        log_get_settings(&now);
        answer->settings = arena_alloc(&call->arena, N_SETTINGS * sizeof(answer->settings[0]));
        TRY(add_text(call, answer, "log_file", now.file));
        TRY(add_bool(call, answer, "log_info", now.info));
        TRY(add_bool(call, answer, "log_warning", now.warning));
        TRY(add_bool(call, answer, "log_error", now.error));
        TRY(add_level(call, answer, now.verbose_level));
        return add_text(call, answer, "log_format", log_control_format_name(now.format));
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
