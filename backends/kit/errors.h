/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors and log lines of a backend, with texts formatted as by printf.
 *
 * Ownership.  As in tritonserver.h: the last receiver of an error owns it.
 * Threads.  Any.
 */
#pragma once

#include "triton/core/tritonbackend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_PRINTF_LIKE(text, args) __attribute__((format(printf, text, args)))

/* Returns from the function with the error of `expression`, if there is one. */
#define KIT_TRY(expression)                                                                        \
        do {                                                                                       \
                TRITONSERVER_Error *kit_try_err_ = (expression);                                   \
                if (__builtin_expect(kit_try_err_ != NULL, 0))                                     \
                        return kit_try_err_;                                                       \
        } while (0)

/* Returns a new error, never NULL. */
TRITONSERVER_Error *kit_error(TRITONSERVER_Error_Code code, const char *format, ...)
        KIT_PRINTF_LIKE(2, 3);

/* UNAVAILABLE: `n_bytes` could not be allocated for `purpose`, such as "the gathered input 'X'". */
TRITONSERVER_Error *kit_error_no_memory(size_t n_bytes, const char *purpose);

/* Returns a copy of the error; NULL for NULL. */
TRITONSERVER_Error *kit_error_copy(TRITONSERVER_Error *err);

/* For failures that no caller receives: logs "<what>: <text>" and deletes the error. NULL is fine
 * and logs nothing. */
void kit_error_log(TRITONSERVER_Error *err, const char *what);

#define KIT_LOG(level, ...) kit_log((level), __FILE__, __LINE__, __VA_ARGS__)
void kit_log(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...)
        KIT_PRINTF_LIKE(4, 5);

#ifdef __cplusplus
}
#endif
