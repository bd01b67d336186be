/* SPDX-License-Identifier: BSD-3-Clause */
/* A text that grows: what a backend writes its completed configuration and its messages with.
 *
 * Additions cannot fail one by one; kit_text_take() tells at the end whether all of them fitted.
 *
 * Ownership.  The text belongs to the struct until it is taken.
 * Threads.  One user at a time.
 */
#pragma once

#include "kit/errors.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No configuration comes near it; a loop gone wrong stops here. */
#define KIT_TEXT_MAX (64u << 20)

struct kit_text {
        char  *chars; /* owned; NUL-terminated unless NULL */
        size_t len;
        size_t capacity;
        bool   has_failed;
};

void kit_text_add(struct kit_text *text, const char *chars, size_t len);
void kit_text_print(struct kit_text *text, const char *format, ...) KIT_PRINTF_LIKE(2, 3);

/* `string` with quotes around it and JSON's escapes in it. */
void kit_text_add_json(struct kit_text *text, const char *string);

/* "[1,-1,16]" */
void kit_text_add_shape(struct kit_text *text, const int64_t *dims, size_t n_dims);

/* The text, NULL when an addition failed; the struct is empty afterwards. */
char *kit_text_take(struct kit_text *text);
void  kit_text_done(struct kit_text *text);

#ifdef __cplusplus
}
#endif
