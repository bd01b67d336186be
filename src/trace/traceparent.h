/* SPDX-License-Identifier: BSD-3-Clause */
/* The W3C trace context that a client sends with a request: the trace of the request, and the
 * client's span.
 *
 *     00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *     version, trace id, id of the client's span, flags (1 = the client records the trace)
 *
 * The text is read strictly (W3C Trace Context, section 3.2): lower-case hexadecimal digits, no
 * blanks, no id of zeros. A text with a later version is read up to the
 * end of the known part, which must end the text or be followed by a dash.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACEPARENT_CHARS 55
#define TRACEPARENT_SAMPLED 1u

struct traceparent {
        uint8_t trace_id[16];
        uint8_t span_id[8];
        uint8_t flags;
};

/* False for an invalid traceparent: the client then counts as one that sent none. */
bool traceparent_read(struct str text, struct traceparent *ret);
/* Prints version 00. `out` is NUL-terminated. */
void traceparent_print(const struct traceparent *p, char out[TRACEPARENT_CHARS + 1]);

/* Prints n bytes as 2 n lower-case digits, NUL-terminated. */
void traceparent_print_id(const uint8_t *bytes, size_t n, char *out);
/* Makes a random id, which is not zero. */
void traceparent_new_id(uint8_t *bytes, size_t n);
