/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing text, for a backend's completed configuration and its messages.
 *
 * Additions report no failure; kit_text_take() reports at the end whether all of them succeeded.
 *
 * Ownership.  The struct owns the text until it is taken.
 * Threads.  One user at a time.
 */
#pragma once

#include "kit/errors.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Far larger than any configuration; an endless loop stops here. */
#define KIT_TEXT_MAX (64u << 20)

struct kit_text {
        char  *chars; /* owned; NUL-terminated unless NULL */
        size_t len;
        size_t capacity;
        bool   has_failed;
};

void kit_text_add(struct kit_text *text, const char *chars, size_t len);
void kit_text_print(struct kit_text *text, const char *format, ...) KIT_PRINTF_LIKE(2, 3);

/* Adds `string` in quotes, with JSON's escapes. */
void kit_text_add_json(struct kit_text *text, const char *string);

/* Adds "[1,-1,16]". */
void kit_text_add_shape(struct kit_text *text, const int64_t *dims, size_t n_dims);

/* Returns the text, or NULL when an addition failed; the struct is empty afterwards. */
char *kit_text_take(struct kit_text *text);
void  kit_text_done(struct kit_text *text);

#ifdef __cplusplus
}
#endif
