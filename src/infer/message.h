/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON text that crosses the C API: metadata, configuration, statistics, the repository index.
 * TRITONSERVER_Message is struct message.
 *
 * Ownership.  A message owns its text.
 * Threads.  One owner at a time; concurrent reading is fine.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stddef.h>

struct message {
        char  *text;       /* JSON, NUL-terminated; after the struct, or owned_text */
        size_t len;        /* without the NUL */
        char  *owned_text; /* owned; NULL when the text is stored after the struct */
};

/* Checks that `json` is one JSON value and copies it. INVALID_ARG names the error and its position. */
struct error *message_new_parsed(struct str json, struct message **ret) NODISCARD;

/* Takes the text of a JSON writer; the buffer is empty afterwards, also on failure. INTERNAL when the
 * buffer had overflowed. */
struct error *message_new_take(struct strbuf *json, struct message **ret) NODISCARD;

void message_free(struct message *m); /* NULL is fine */

static inline struct str message_text(const struct message *m) {
        return str_range(m->text, m->len);
}
