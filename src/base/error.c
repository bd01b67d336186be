/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"

#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Result of error_new() when there is no memory for the message. */
static struct error error_out_of_memory = ERROR_STATIC(ERR_INTERNAL, "out of memory");

/* Allocates one block for the struct and a text of `len` bytes, which *ret_text points to. */
static struct error *new_with_room(enum error_code code, size_t len, char **ret_text) {
        struct error *err;
        size_t        total;

        if (!size_add(len, sizeof(*err) + 1, &total))
                return NULL;
        err = try_alloc(total);
        if (err == NULL)
                return NULL;
        *ret_text = (char *)(err + 1);
        *err = (struct error){ .code = code, .message = *ret_text };
        return err;
}

/* "<formatted><separator><tail>" as a new error. */
static struct error *new_joined(enum error_code code, const char *separator, const char *tail,
                                const char *format, va_list args) PRINTF_LIKE(4, 0);
static struct error *new_joined(enum error_code code, const char *separator, const char *tail,
                                const char *format, va_list args) {
        struct error *err;
        va_list       again;
        char         *text;
        size_t        head_len, separator_len = strlen(separator), tail_len = strlen(tail), len;
        int           printed;

        va_copy(again, args);
        printed = vsnprintf(NULL, 0, format, again);
        va_end(again);
        head_len = printed > 0 ? (size_t)printed : 0;

        if (!size_add(head_len, separator_len, &len) || !size_add(len, tail_len, &len))
                return &error_out_of_memory;
        err = new_with_room(code, len, &text);
        if (err == NULL)
                return &error_out_of_memory;

        vsnprintf(text, head_len + 1, format, args);
        memcpy(text + head_len, separator, separator_len);
        memcpy(text + head_len + separator_len, tail, tail_len + 1);
        return err;
}

struct error *error_new(enum error_code code, const char *format, ...) {
        struct error *err;
        va_list       args;

        va_start(args, format);
        err = new_joined(code, "", "", format, args);
        va_end(args);
        return err;
}

struct error *error_new_text(enum error_code code, const char *text) {
        struct error *err;
        size_t        len = strlen(text);
        char         *copy;

        err = new_with_room(code, len, &copy);
        if (err == NULL)
                return &error_out_of_memory;
        memcpy(copy, text, len + 1);
        return err;
}

static void move_field(struct error *from, struct error *to) {
        if (from->is_static || to->is_static)
                return;
        to->field = from->field;
        from->field = NULL;
}

struct error *error_wrap(struct error *err, const char *format, ...) {
        struct error *wrapped;
        va_list       args;

        if (err == NULL)
                return NULL;
        va_start(args, format);
        wrapped = new_joined(err->code, ": ", err->message, format, args);
        va_end(args);
        move_field(err, wrapped);
        error_free(err);
        return wrapped;
}

struct error *error_prefix(struct error *err, const char *format, ...) {
        struct error *prefixed;
        va_list       args;

        if (err == NULL)
                return NULL;
        va_start(args, format);
        prefixed = new_joined(err->code, "", err->message, format, args);
        va_end(args);
        move_field(err, prefixed);
        error_free(err);
        return prefixed;
}

struct error *error_append(struct error *err, const char *format, ...) {
        struct error *longer;
        va_list       args;

        if (err == NULL)
                return NULL;
        va_start(args, format);
        longer = new_joined(err->code, "", "", format, args);
        va_end(args);
        longer = error_prefix(longer, "%s", err->message);
        move_field(err, longer);
        error_free(err);
        return longer;
}

struct error *error_suggest(struct error *err, const char *prefix, const char *nearest) {
        return nearest != NULL ? error_append(err, "; did you mean '%s%s'?", prefix, nearest) : err;
}

struct error *error_recode(struct error *err, enum error_code code) {
        if (err == NULL || err->code == code)
                return err;
        if (!err->is_static) {
                err->code = code;
                return err;
        }
        return error_mark(error_new_text(code, err->message), err->kind);
}

struct error *error_mark(struct error *err, enum error_kind kind) {
        if (err != NULL && !err->is_static)
                err->kind = kind;
        return err;
}

bool error_is(const struct error *err, enum error_kind kind) {
        return err != NULL && err->kind == kind;
}

struct error *error_at(struct error *err, const char *format, ...) {
        va_list args;
        char   *outer, *joined;

        if (err == NULL || err->is_static)
                return err;
        va_start(args, format);
        if (vasprintf(&outer, format, args) < 0)
                outer = NULL;
        va_end(args);
        if (outer == NULL || err->field == NULL) {
                free(err->field);
                err->field = outer;
                return err;
        }
        if (asprintf(&joined, "%s.%s", outer, err->field) < 0)
                joined = NULL;
        free(outer);
        free(err->field);
        err->field = joined;
        return err;
}

struct error *error_in_field(const char *field, const char *format, ...) {
        struct error *err;
        va_list       args;

        va_start(args, format);
        err = new_joined(ERR_INVALID_ARG, "", "", format, args);
        va_end(args);
        return error_at(err, "%s", field);
}

struct error *error_copy(const struct error *err) {
        struct error *copy;

        if (err == NULL || err->is_static)
                return (struct error *)(uintptr_t)err;
        copy = error_mark(error_new_text(err->code, err->message), err->kind);
        return err->field != NULL ? error_at(copy, "%s", err->field) : copy;
}

void error_free(struct error *err) {
        if (err == NULL || err->is_static)
                return;
        free(err->field);
        free(err);
}

struct error *error_errno(int errnum, const char *format, ...) {
        struct error *err;
        va_list       args;
        char          reason[128]; /* glibc's longest text has 50 bytes */

        va_start(args, format);
        err = new_joined(errnum == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, ": ",
                         strerror_r(errnum, reason, sizeof(reason)), format, args);
        va_end(args);
        return err;
}

const char *error_code_string(enum error_code code) {
        static const char *const names[] = {
                [ERR_UNKNOWN] = "Unknown",
                [ERR_INTERNAL] = "Internal",
                [ERR_NOT_FOUND] = "Not found",
                [ERR_INVALID_ARG] = "Invalid argument",
                [ERR_UNAVAILABLE] = "Unavailable",
                [ERR_UNSUPPORTED] = "Unsupported",
                [ERR_ALREADY_EXISTS] = "Already exists",
                [ERR_CANCELLED] = "Cancelled",
        };

        if ((unsigned)code >= ARRAY_LEN(names))
                return "<invalid code>";
        return names[code];
}
