/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes and writes percent escapes (RFC 3986, 2.1).
 *
 * Ownership.  Text is appended to the caller's strbuf.
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

/* Resolves %XX. False, and nothing appended, when an escape is not two hex digits. The result may
 * contain any byte, NUL and '/' too: the caller checks it. '+' stays '+'. */
bool url_decode(struct str in, struct strbuf *out);

/* Writes all bytes but letters, digits and "-._~" (RFC 3986, 2.3) as %XX; '/' stays with keeps_slash. */
void url_encode(struct str in, bool keeps_slash, struct strbuf *out);

/* Writes a name for a path as servers of the reference take it: one with other characters than ASCII is encoded
 * as a whole; in any other a '%' stands for itself. */
void url_put_name(struct str name, struct strbuf *out);

/* Appends "&name=value" to a URL or a form, without '&' when `out` is empty. The value is encoded. */
void url_put_parameter(struct strbuf *out, const char *name, const char *value);
