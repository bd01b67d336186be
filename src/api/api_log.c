/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of the log and its settings. */
#include "api/api_types.h"
#include "base/crash_report.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/log_recent.h"
#include "triton/core/neso.h"

#include <string.h>

_Static_assert((int)LOG_INFO == (int)TRITONSERVER_LOG_INFO, "log levels differ");
_Static_assert((int)LOG_WARN == (int)TRITONSERVER_LOG_WARN, "log levels differ");
_Static_assert((int)LOG_ERROR == (int)TRITONSERVER_LOG_ERROR, "log levels differ");
_Static_assert((int)LOG_VERBOSE == (int)TRITONSERVER_LOG_VERBOSE, "log levels differ");
_Static_assert((int)LOG_FORMAT_DEFAULT == (int)TRITONSERVER_LOG_DEFAULT, "log formats differ");
_Static_assert((int)LOG_FORMAT_ISO8601 == (int)TRITONSERVER_LOG_ISO8601, "log formats differ");
_Static_assert((int)LOG_FORMAT_JSON == (int)NESO_LOG_FORMAT_JSON, "log formats differ");

/* Makes reading all settings, changing one and writing all a single step, so that two threads that
 * change different settings do not overwrite each other's. It has the lowest rank, since callers of the
 * API hold no lock. */
static struct mutex settings_lock = { .rank = LOCK_SERVER };

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level) {
        return (unsigned)level <= TRITONSERVER_LOG_VERBOSE && log_is_enabled((enum log_level)level);
}

struct TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level,
                                                   const char *filename, const int line,
                                                   const char *msg) {
        API_NEEDS(filename, msg);
        if ((unsigned)level > TRITONSERVER_LOG_VERBOSE)
                return error_to_api(api_bad_value(__func__, "log level", (int)level));
        if (log_is_enabled((enum log_level)level))
                log_write((enum log_level)level, filename, line, msg);
        return NULL;
}

struct TRITONSERVER_Error *NESO_LogLine(const char *line, size_t byte_size) {
        if (byte_size > 0) {
                API_NEEDS(line);
                if (memchr(line, '\n', byte_size) != NULL)
                        return error_to_api(error_new(ERR_INVALID_ARG,
                                                      "%s: the line has a newline in it",
                                                      __func__));
        }
        log_raw(str_range(line != NULL ? line : "", byte_size));
        return NULL;
}

struct TRITONSERVER_Error *NESO_LogKeepRecent(bool keep) {
        log_recent_keep(keep);
        return NULL;
}

struct TRITONSERVER_Error *NESO_LogRecent(uint64_t after, NESO_LogRecentFn_t line, void *userp) {
        struct log_recent_line at;

        API_NEEDS(line);
        while (log_recent_next(after, &at)) {
                const struct NESO_LogRecentLine shown = {
                        .number = at.number,
                        .wall_ms = at.wall_ms,
                        .level = (TRITONSERVER_LogLevel)at.level,
                        .file = at.file,
                        .line = (uint32_t)at.line,
                        .message = at.text,
                };

                after = at.number;
                line(&shown, userp);
        }
        return NULL;
}

struct TRITONSERVER_Error *NESO_ReportCrashes(void) {
        return error_to_api(crash_report_install());
}

/* The setters of the C API take options, but ignore them: the log belongs to the process. */

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFile(
        UNUSED struct TRITONSERVER_ServerOptions *options, const char *file) {
        API_NEEDS(file);
        return error_to_api(log_set_file(file));
}

/* Defines the setter of a flag. */
#define LOG_FLAG(setter, flag)                                                                     \
        struct TRITONSERVER_Error *setter(UNUSED struct TRITONSERVER_ServerOptions *options,       \
                                          bool                                      log) {                                              \
                struct log_settings settings;                                                      \
                MUTEX_GUARD(&settings_lock);                                                       \
                                                                                                   \
                log_get_settings(&settings);                                                       \
                settings.flag = log;                                                               \
                log_set_settings(&settings);                                                       \
                return NULL;                                                                       \
        }

LOG_FLAG(TRITONSERVER_ServerOptionsSetLogInfo, info)
LOG_FLAG(TRITONSERVER_ServerOptionsSetLogWarn, warning)
LOG_FLAG(TRITONSERVER_ServerOptionsSetLogError, error)

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFormat(
        UNUSED struct TRITONSERVER_ServerOptions *options, const TRITONSERVER_LogFormat format) {
        struct log_settings settings;

        if ((unsigned)format > (unsigned)NESO_LOG_FORMAT_JSON)
                return error_to_api(api_bad_value(__func__, "log format", (int)format));

        MUTEX_GUARD(&settings_lock);
        log_get_settings(&settings);
        settings.format = (enum log_format)format;
        log_set_settings(&settings);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogVerbose(
        UNUSED struct TRITONSERVER_ServerOptions *options, int level) {
        struct log_settings settings;
        MUTEX_GUARD(&settings_lock);

        log_get_settings(&settings);
        settings.verbose_level = level > 0 ? (unsigned)level : 0;
        log_set_settings(&settings);
        return NULL;
}
