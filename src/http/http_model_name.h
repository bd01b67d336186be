/* SPDX-License-Identifier: BSD-3-Clause */
/* The model name in a path: percent-encoded UTF-8, or just as it is written.
 *
 * The reference server does not resolve percent escapes, so "a%5Fb" is the name of no model "a_b",
 * and a name may have a '%' in it. No client can send a name with other characters than ASCII that
 * way. So a name with an escape of a byte of 0x80 and above is percent-encoded as a whole, and any
 * other stands for itself.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/* *ret is `segment` itself, or in the arena. INVALID_ARG when escapes are malformed, or make no
 * UTF-8, a slash or a NUL; then *ret is not written. */
struct error *http_model_name_read(struct str segment, struct arena *arena,
                                   struct str *ret) NODISCARD;
