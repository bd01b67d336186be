/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of traces as clients write them: texts into values. */
#include "trace/trace_settings.h"

#include "triton/core/tritonserver.h"

static const char *const names[N_TRACE_SETTINGS] = {
        [TRACE_SETTING_LEVEL] = "trace_level",
        [TRACE_SETTING_RATE] = "trace_rate",
        [TRACE_SETTING_COUNT] = "trace_count",
        [TRACE_SETTING_LOG_FREQUENCY] = "log_frequency",
};

enum trace_setting trace_setting_find(struct str key) {
        for (int i = 0; i < N_TRACE_SETTINGS; i++)
                if (str_is(key, names[i]))
                        return (enum trace_setting)i;
        return N_TRACE_SETTINGS;
}

struct error *trace_settings_refuse_file(void) {
        return error_new_text(ERR_UNSUPPORTED, "trace file location can not be updated "
                                               "through network protocol");
}

struct error *trace_level_read(struct str name, size_t n_names, uint32_t *ret) {
        if (str_is(name, "OFF") && n_names > 1)
                return error_new_text(ERR_INVALID_ARG,
                                      "Expect only one trace level 'OFF' is specified");
        if (str_is(name, "TIMESTAMPS"))
                *ret |= TRITONSERVER_TRACE_LEVEL_TIMESTAMPS;
        else if (str_is(name, "TENSORS"))
                *ret |= TRITONSERVER_TRACE_LEVEL_TENSORS;
        return NULL;
}

/* Digits, perhaps with a sign before them. */
static bool is_number(struct str s) {
        if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+'))
                s = str_range(s.ptr + 1, s.len - 1);
        for (size_t i = 0; i < s.len; i++)
                if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return false;
        return s.len > 0;
}

/* In [min, max], or why not. */
static struct error *read_within(const char *name, struct str text, int64_t min, int64_t max,
                                 int64_t *ret) {
        struct str digits = text;

        if (!is_number(text))
                return error_new(ERR_INVALID_ARG, "Unable to parse '%s', got: %.*s", name,
                                 STR_ARG(text));
        if (*digits.ptr == '+')
                digits = str_range(digits.ptr + 1, digits.len - 1);
        if (str_to_i64(digits, ret) && *ret >= min && *ret <= max)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "Unable to parse '%s', value is out of range [ %lld, %lld ], got: %.*s",
                         name, (long long)(min < -1 ? -1 : min), (long long)max, STR_ARG(text));
}

static struct error *read_count(struct str text, const char *blank, int32_t *ret) {
        int64_t number;

        TRY(read_within("trace_count", text, INT32_MIN, INT32_MAX, &number));
        if (number < -1)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse 'trace_count'. Expecting value >= -1, got:%s%.*s",
                                 blank, STR_ARG(text));
        *ret = (int32_t)number;
        return NULL;
}

struct error *trace_number_read(enum trace_setting setting, struct str text, const char *blank,
                                struct trace_values *ret) {
        int64_t number = 0;

        if (setting == TRACE_SETTING_COUNT)
                return read_count(text, blank, &ret->count);
        TRY(read_within(names[setting], text, 0, UINT32_MAX, &number));
        if (setting == TRACE_SETTING_RATE)
                ret->rate = (uint32_t)number;
        else
                ret->log_frequency = (uint32_t)number;
        return NULL;
}
