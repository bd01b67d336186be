/* SPDX-License-Identifier: BSD-3-Clause */
/* A failure: one of eight codes and a message, composed where the facts are known.
 *
 * The message is for people. Code that must distinguish errors of one code compares their kinds.
 *
 * Functions that can fail return `struct error *`, NULL on success. The same object crosses the C
 * API as TRITONSERVER_Error. error_wrap() adds context, once per layer that has new facts.
 *
 * Ownership.  The receiver owns an error and ends it with error_free(), which ignores NULL and
 * static errors (ERROR_STATIC: expected refusals on the hot path that need no allocation).
 * Threads.  An error has one owner; nothing is shared.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>

/* Values are those of TRITONSERVER_Error_Code. */
enum error_code {
        ERR_UNKNOWN = 0,
        ERR_INTERNAL = 1,
        ERR_NOT_FOUND = 2,
        ERR_INVALID_ARG = 3,
        ERR_UNAVAILABLE = 4,
        ERR_UNSUPPORTED = 5,
        ERR_ALREADY_EXISTS = 6,
        ERR_CANCELLED = 7,
};

enum error_kind {
        ERROR_KIND_NONE,
        ERROR_KIND_LOAD, /* the load of a model failed, and the message names the model and its reasons */
        ERROR_KIND_FETCH, /* files of a model could not be fetched; the message begins with the address */
};

struct error {
        enum error_code code;
        enum error_kind kind;
        bool            is_static; /* never freed */
        const char     *message;   /* owned: allocated together with the struct */
        char           *field;     /* owned; path of the configuration's field that the error is
                                    * about, as in "input[1].dims[0]"; NULL: not known */
};

#define ERROR_STATIC(error_code, text)                                                             \
        { .code = (error_code), .is_static = true, .message = (text) }

/* A new error. Never NULL: when memory is short, a static INTERNAL error "out of memory". */
struct error *error_new(enum error_code code, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* Uses the text as given: no formatting, no limit on its length. */
struct error *error_new_text(enum error_code code, const char *text) COLD;

/* "<formatted>: <old message>" with the old code; takes `err`, which may be NULL (gives NULL). */
struct error *error_wrap(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* Puts the formatted text directly before the old message, without a separator; takes `err`. */
struct error *error_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* Puts the formatted text directly behind the old message; takes `err`, which may be NULL. */
struct error *error_append(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* Adds "; did you mean '<prefix><nearest>'?" to the message, or nothing when `nearest` is NULL; takes `err`. */
struct error *error_suggest(struct error *err, const char *prefix, const char *nearest) COLD;

/* Sets the kind. Takes `err`, which may be NULL; a static error stays as it is. A copy and another code
 * keep the kind, a longer message does not. */
struct error *error_mark(struct error *err, enum error_kind kind) COLD;
/* True when `err` is not NULL and of that kind. */
bool error_is(const struct error *err, enum error_kind kind);

/* Changes the code of the failure; takes `err`. */
struct error *error_recode(struct error *err, enum error_code code) COLD;

/* Records which field of a configuration the error is about; the message stays. Callers add parts
 * from the inside out: "dims[%zu]" where the dimension is checked, then "input[%zu]" where the
 * input is. Takes `err`, which may be NULL; a static error stays as it is. */
struct error *error_at(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* A new error INVALID_ARG about that field, to which callers add the outer parts. */
struct error *error_in_field(const char *field, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* A static error is its own copy. NULL gives NULL. */
struct error *error_copy(const struct error *err);
void          error_free(struct error *err);

/* From errno: INTERNAL "<formatted>: <strerror>" (NOT_FOUND for ENOENT). */
struct error *error_errno(int errnum, const char *format, ...) PRINTF_LIKE(2, 3) COLD;

/* "Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported",
 * "Already exists", "Cancelled"; "<invalid code>" for anything else. */
const char *error_code_string(enum error_code code);

/* Keeps the first error, and frees later ones. Takes `err`, which may be NULL. */
static inline void error_keep_first(struct error **kept, struct error *err) {
        if (err == NULL)
                return;
        if (*kept == NULL)
                *kept = err;
        else
                error_free(err);
}

DEFINE_CLEANUP(error_cleanup, struct error *, error_free)
#define AUTO_ERROR CLEANUP(error_cleanup) UNUSED struct error *

/* Returns the error of `expression` from the function, if there is one. */
#define TRY(expression)                                                                            \
        do {                                                                                       \
                struct error *try_err_ = (expression);                                             \
                if (try_err_ != NULL)                                                              \
                        return try_err_;                                                           \
        } while (0)

/* The same, after `undo`, which gives back what the function has taken so far. */
#define TRY_OR(expression, undo)                                                                   \
        do {                                                                                       \
                struct error *try_err_ = (expression);                                             \
                if (try_err_ != NULL) {                                                            \
                        undo;                                                                      \
                        return try_err_;                                                           \
                }                                                                                  \
        } while (0)
