/* SPDX-License-Identifier: BSD-3-Clause */
/* Percent escapes in the path of a request target (RFC 3986, 2.1).
 *
 * Ownership.  Decoded text is appended to the caller's strbuf.
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

/* Resolves %XX. False, and nothing appended, when an escape is not two hex digits. The result may
 * hold any byte, NUL and '/' too: the caller checks. '+' stays '+'. */
bool url_decode(struct str in, struct strbuf *out);
