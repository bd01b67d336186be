/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that are written down: test_valid_calls.py compares what was called with the headers.
 *
 * A line "<how> <caller> <function>" goes to the file that the environment variable ABI_CALLS
 * names, once the call has come to its end as wanted; anything else ends the program. The name is
 * the one that is called: neither can be written without the other.
 *
 *     OK(f, ...)             returns no error
 *     VALUE(f, ...)          for functions that return no error by their type; gives what it returns
 *     REFUSED(code, f, ...)  returns an error with this code and a text
 *
 * CALLER is defined by who includes this: "program", "backend", "agent" or "cache".
 *
 * Threads.  Any: a line is one write.
 */
#pragma once

#include "triton/core/tritonserver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(function, ...) call_succeeded(#function, function(__VA_ARGS__))
#define VALUE(function, ...) (call_note("value", #function), function(__VA_ARGS__))
#define REFUSED(code, function, ...)                                                               \
        call_refused(#function, TRITONSERVER_ERROR_##code, function(__VA_ARGS__))

/* What is true of a right answer. */
#define EXPECT(condition)                                                                          \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        call_failed(__FILE__, #condition);                                         \
        } while (0)

static inline void call_failed(const char *what, const char *why) {
        fprintf(stderr, "FAILED: %s: %s: %s\n", CALLER, what, why);
        abort();
}

static inline void call_note(const char *how, const char *function) {
        const char *path = getenv("ABI_CALLS");
        char        line[256];
        int         len = snprintf(line, sizeof(line), "%s %s %s\n", how, CALLER, function);
        int         fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;

        if (fd < 0 || len >= (int)sizeof(line) || write(fd, line, (size_t)len) != len)
                call_failed(function, "cannot be written down");
        close(fd);
}

static inline void call_succeeded(const char *function, TRITONSERVER_Error *err) {
        if (err != NULL)
                call_failed(function, TRITONSERVER_ErrorMessage(err));
        call_note("ok", function);
}

static inline void call_refused(const char *function, TRITONSERVER_Error_Code code,
                                TRITONSERVER_Error *err) {
        if (err == NULL)
                call_failed(function, "is not refused");
        if (TRITONSERVER_ErrorCode(err) != code || *TRITONSERVER_ErrorMessage(err) == '\0')
                call_failed(function, TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
        call_note("refused", function);
}
