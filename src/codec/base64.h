/* SPDX-License-Identifier: BSD-3-Clause */
/* Base64 with the standard alphabet (RFC 4648, section 4).
 *
 * The strict decoder accepts exactly the output of the encoder: whole groups of four, '=' only at
 * the end, unused bits zero. The lenient one never fails: it skips every byte that is not in the
 * alphabet ('=' too) and drops a last group that is too short for a byte; the model repository
 * extension reads file contents so.
 *
 * Ownership.  Output is appended to the caller's strbuf, which reports overflow.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

void base64_encode(struct str in, struct strbuf *out);
bool base64_decode(struct str in, struct strbuf *out); /* strict; on false nothing is appended */
/* The same when the text has n bytes, which *ret has room for; on false it is unchanged. */
bool base64_decode_exactly(struct str in, unsigned char *ret, size_t n);
void base64_decode_lenient(struct str in, struct strbuf *out);
