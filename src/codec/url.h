/* SPDX-License-Identifier: BSD-3-Clause */
/* Request targets: path and query apart, key=value pairs, percent escapes (RFC 3986).
 *
 *     query = url_split(target, &path);
 *     while (url_query_next(&query, &key, &value)) ...
 *
 * Splitting comes before decoding, so an escaped '&' or '/' never separates anything.
 *
 * Ownership.  Ranges point into the text given; decoded text is appended to the caller's strbuf.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

/* "/v2/models?x=1#part": the path goes to *ret_path, the query (without '?', ptr NULL when there
 * is none) is returned; a fragment is dropped. */
struct str url_split(struct str target, struct str *ret_path);

/* Takes the next pair off the front of *query; both are still escaped. A key without '=' has a
 * value with ptr NULL; empty pairs ("a&&b") are passed over. False at the end. */
bool url_query_next(struct str *query, struct str *ret_key, struct str *ret_value);

/* Resolves %XX. False, and nothing appended, when an escape is not two hex digits. The result may
 * hold any byte, NUL and '/' too: the caller checks. '+' stays '+'. */
bool url_decode(struct str in, struct strbuf *out);
/* The same for a part of a query written by a form: '+' is a blank. */
bool url_decode_form(struct str in, struct strbuf *out);
