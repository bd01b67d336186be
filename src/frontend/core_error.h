/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors that cross between the front end and the core: the codes are the same, the text is copied.
 *
 * Ownership.  Each function takes its argument; NULL gives NULL.
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

struct TRITONSERVER_Error;

/* An error of the core becomes one of the front end. */
struct error *core_error_take(struct TRITONSERVER_Error *core) NODISCARD;
/* The other way round, for callbacks that the core calls. */
struct TRITONSERVER_Error *core_error_give(struct error *err) NODISCARD;
/* Frees an error nobody can be told about. */
void core_error_drop(struct TRITONSERVER_Error *core);
