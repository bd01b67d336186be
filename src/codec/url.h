/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes percent escapes in the path of a request target (RFC 3986, 2.1).
 *
 * Ownership.  Decoded text is appended to the caller's strbuf.
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

/* Resolves %XX. False, and nothing appended, when an escape is not two hex digits. The result may
 * contain any byte, NUL and '/' too: the caller checks it. '+' stays '+'. */
bool url_decode(struct str in, struct strbuf *out);
