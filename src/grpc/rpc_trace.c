/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace extension: settings, global or of one model. */
#include "call/service.h"
#include "codec/pb_build.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"
#include "trace/tracer.h"
#include "triton/core/tritonserver.h"

#include <string.h>

/* protobuf-c's types of a setting's value in requests and in answers. */
#define SETTING_IN Inference__TraceSettingRequest__SettingValue
#define SETTING_OUT Inference__TraceSettingResponse__SettingValue

/* ---- the request ---- */

static struct error *read_level(const SETTING_IN *value, uint32_t *ret) {
        *ret = TRITONSERVER_TRACE_LEVEL_DISABLED;
        for (size_t i = 0; i < value->n_value; i++)
                TRY(trace_level_read(str_of(value->value[i]), value->n_value, ret));
        return NULL;
}

/* A setting without a value is cleared; unknown names are ignored. */
static struct error *read_setting(const char *key, const SETTING_IN *value,
                                  struct trace_change *change) {
        enum trace_setting setting = trace_setting_find(str_of(key));

        if (strcmp(key, "trace_file") == 0)
                return trace_settings_refuse_file();
        if (setting == N_TRACE_SETTINGS)
                return NULL;
        if (value == NULL || value->n_value == 0) {
                change->actions[setting] = TRACE_CLEAR;
                return NULL;
        }
        change->actions[setting] = TRACE_SET;
        if (setting == TRACE_SETTING_LEVEL)
                return read_level(value, &change->values.level);
        if (value->n_value > 1)
                return error_new(ERR_INVALID_ARG, "expect only 1 value for '%s'", key);
        return trace_number_read(setting, str_of(value->value[0]), " ", &change->values);
}

static struct error *change_settings(struct grpc_call                     *call,
                                     const Inference__TraceSettingRequest *q, const char *model) {
        struct trace_change change = { 0 };

        for (size_t i = 0; i < q->n_settings; i++)
                TRY(read_setting(q->settings[i]->key, q->settings[i]->value, &change));
        return tracer_change(call->service->tracer, model, &change);
}

/* ---- the answer ---- */

static struct error *add_setting(struct grpc_call *call, Inference__TraceSettingResponse *answer,
                                 const struct trace_report_row *row) {
        ProtobufCMessage *entry, *value;
        SETTING_OUT      *out;

        TRY(pb_message_new(&inference__trace_setting_response__settings_entry__descriptor,
                           &call->arena, &entry));
        TRY(pb_message_new(&inference__trace_setting_response__setting_value__descriptor,
                           &call->arena, &value));
        out = (void *)value;
        out->n_value = row->n_values;
        out->value = arena_alloc(&call->arena, row->n_values * sizeof(out->value[0]));
        for (size_t i = 0; i < row->n_values; i++)
                out->value[i] = (char *)row->values[i]; /* never written to */
        answer->settings[answer->n_settings] = (void *)entry;
        answer->settings[answer->n_settings]->key = (char *)row->key;
        answer->settings[answer->n_settings++]->value = out;
        return NULL;
}

static struct error *fill_answer(struct grpc_call *call, const char *model,
                                 Inference__TraceSettingResponse *answer) {
        struct trace_report_row rows[TRACE_REPORT_MAX_ROWS];
        size_t                  n = tracer_report(call->service->tracer, model, &call->arena, rows);

        answer->settings = arena_alloc(&call->arena, n * sizeof(answer->settings[0]));
        for (size_t i = 0; i < n; i++)
                TRY(add_setting(call, answer, &rows[i]));
        return NULL;
}

struct error *rpc_trace_setting(struct grpc_call *call, const ProtobufCMessage *request,
                                ProtobufCMessage **ret_answer) {
        const Inference__TraceSettingRequest *q =
                RPC_REQUEST(Inference__TraceSettingRequest, request);
        const char *model = *q->model_name != '\0' ? q->model_name : NULL;

        TRY(tracer_check_model(call->core, model));
        if (q->n_settings > 0)
                TRY(change_settings(call, q, model));
        TRY(pb_message_new(&inference__trace_setting_response__descriptor, &call->arena,
                           ret_answer));
        return fill_answer(call, model, (void *)*ret_answer);
}
