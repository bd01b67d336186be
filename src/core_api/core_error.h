/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors that pass between the front end and the core. The codes are equal, the text is copied.
 *
 * Ownership.  Each function takes its argument. NULL in gives NULL out.
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#include <stddef.h>

struct TRITONSERVER_Error;

struct error *core_error_take_any(struct TRITONSERVER_Error *core) NODISCARD COLD;
void          core_error_drop_any(struct TRITONSERVER_Error *core) COLD;

/* Converts an error of the core to one of the front end. Inline, because every call into the core
 * uses it, nearly always with NULL. */
NODISCARD static inline struct error *core_error_take(struct TRITONSERVER_Error *core) {
        return core == NULL ? NULL : core_error_take_any(core);
}
/* Converts in the other direction, for callbacks that the core calls. */
struct TRITONSERVER_Error *core_error_give(struct error *err) NODISCARD;
/* Frees an error that cannot be reported. */
static inline void core_error_drop(struct TRITONSERVER_Error *core) {
        if (core != NULL)
                core_error_drop_any(core);
}
