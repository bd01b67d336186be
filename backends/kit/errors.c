/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns a text that the caller owns; NULL when memory is short. */
static char *print_text(const char *format, va_list args) {
        char *text = NULL;

        if (vasprintf(&text, format, args) < 0)
                return NULL;
        return text;
}

TRITONSERVER_Error *kit_error(TRITONSERVER_Error_Code code, const char *format, ...) {
        TRITONSERVER_Error *err;
        va_list             args;
        char               *text;

        va_start(args, format);
        text = print_text(format, args);
        va_end(args);
        err = TRITONSERVER_ErrorNew(code, text != NULL ? text : format);
        free(text);
        return err;
}

TRITONSERVER_Error *kit_error_no_memory(size_t n_bytes, const char *purpose) {
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "failed to allocate %zu bytes for %s",
                         n_bytes, purpose);
}

TRITONSERVER_Error *kit_error_copy(TRITONSERVER_Error *err) {
        if (err == NULL)
                return NULL;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ErrorCode(err), TRITONSERVER_ErrorMessage(err));
}

void kit_error_log(TRITONSERVER_Error *err, const char *what) {
        if (err == NULL)
                return;
        KIT_LOG(TRITONSERVER_LOG_ERROR, "%s: %s", what, TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
}

void kit_log(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...) {
        TRITONSERVER_Error *err;
        va_list             args;
        char               *text;

        if (!TRITONSERVER_LogIsEnabled(level))
                return;
        va_start(args, format);
        text = print_text(format, args);
        va_end(args);
        err = TRITONSERVER_LogMessage(level, file, line, text != NULL ? text : format);
        free(text);
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
}
