/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/log_control.h"

#include "base/compiler.h"
#include "core_api/core_error.h"
#include "triton/core/tritonserver.h"

static const char *const format_names[] = {
        [LOG_FORMAT_DEFAULT] = "default",
        [LOG_FORMAT_ISO8601] = "ISO8601",
        [LOG_FORMAT_JSON] = "json",
};

const char *log_control_format_name(enum log_format format) {
        return format_names[format];
}

bool log_control_find_format(struct str name, enum log_format *ret) {
        for (size_t i = 0; i < ARRAY_LEN(format_names); i++) {
                if (!str_is(name, format_names[i]))
                        continue;
                *ret = (enum log_format)i;
                return true;
        }
        return false;
}

#define SWITCH(text, member)                                                                       \
        { text, LOG_ROW_SWITCH, offsetof(struct log_settings, member) }

const struct log_row log_rows[LOG_N_ROWS] = {
        { "log_file", LOG_ROW_FILE, 0 },
        SWITCH("log_info", info),
        SWITCH("log_warning", warning),
        SWITCH("log_error", error),
        { "log_verbose_level", LOG_ROW_LEVEL, 0 },
        { "log_format", LOG_ROW_FORMAT, 0 },
};

const struct log_row *log_row_find(struct str name) {
        for (size_t i = 0; i < LOG_N_ROWS; i++)
                if (str_is(name, log_rows[i].name))
                        return &log_rows[i];
        return NULL;
}

bool *log_row_switch(const struct log_row *row, struct log_settings *s) {
        return (bool *)((char *)s + row->offset);
}

struct error *log_control_apply(struct TRITONSERVER_ServerOptions *options,
                                const struct log_settings         *s) {
        TRITONSERVER_LogFormat format = (TRITONSERVER_LogFormat)s->format;
        int                    level = (int)s->verbose_level;

        TRY(core_error_take(TRITONSERVER_ServerOptionsSetLogInfo(options, s->info)));
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetLogWarn(options, s->warning)));
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetLogError(options, s->error)));
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetLogVerbose(options, level)));
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetLogFormat(options, format)));
        log_set_settings(s);
        return NULL;
}

struct error *log_control_refuse_file(void) {
        return error_new_text(ERR_UNSUPPORTED, "log file location can not be updated "
                                               "through network protocol");
}
