/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors that name their request (request.h). */
#include "infer/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct error *request_error(const struct request *req, enum error_code code, const char *format,
                            ...) {
        va_list args;
        char   *text = NULL;

        va_start(args, format);
        int len = vasprintf(&text, format, args);
        va_end(args);
        if (len < 0)
                return error_new(ERR_INTERNAL, "out of memory");

        struct error *err = error_new(code, "[request id: %s] %s",
                                      *req->id != '\0' ? req->id : "<id_unknown>", text);

        free(text);
        return err;
}
