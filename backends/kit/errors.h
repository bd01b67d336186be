/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors and log lines for a backend: printf in, TRITONSERVER_Error or a server log line out.
 *
 * Ownership.  As in tritonserver.h: an error belongs to whoever received it last.
 * Threads.  Every function may be called from any thread.
 */
#pragma once

#include "triton/core/tritonbackend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_PRINTF_LIKE(text, args) __attribute__((format(printf, text, args)))

/* Leaves the function with the error of `expression`, if there is one. */
#define KIT_TRY(expression)                                                                        \
        do {                                                                                       \
                TRITONSERVER_Error *kit_try_err_ = (expression);                                   \
                if (__builtin_expect(kit_try_err_ != NULL, 0))                                     \
                        return kit_try_err_;                                                       \
        } while (0)

/* A new error; never NULL. */
TRITONSERVER_Error *kit_error(TRITONSERVER_Error_Code code, const char *format, ...)
        KIT_PRINTF_LIKE(2, 3);

/* UNAVAILABLE: `n_bytes` could not be allocated for `purpose` ("the gathered input 'X'"). */
TRITONSERVER_Error *kit_error_no_memory(size_t n_bytes, const char *purpose);

/* Another error with the same code and text; NULL gives NULL. */
TRITONSERVER_Error *kit_error_copy(TRITONSERVER_Error *err);

/* For failures that have nobody to be returned to: logs "<what>: <text>" and ends the error.
 * NULL is fine and logs nothing. */
void kit_error_log(TRITONSERVER_Error *err, const char *what);

#define KIT_LOG(level, ...) kit_log((level), __FILE__, __LINE__, __VA_ARGS__)
void kit_log(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...)
        KIT_PRINTF_LIKE(4, 5);

#ifdef __cplusplus
}
#endif
