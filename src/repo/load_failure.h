/* SPDX-License-Identifier: BSD-3-Clause */
/* The error of a failed load as a client gets it: "load failed for model '<m>': <reason>", of the kind
 * ERROR_KIND_LOAD. An error of another kind is a failure of reading the repository.
 *
 * Ownership.  The caller owns the error.
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

/* Takes the reason, whose text ends with a line feed, and keeps its code. */
struct error *load_failure(const char *model, struct error *reason) COLD NODISCARD;
/* The same with a code of its own, for a reason without a line feed, which is logged, too. */
struct error *load_failure_logged(const char *model, enum error_code code, struct error *reason)
        COLD NODISCARD;
