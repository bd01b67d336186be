/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors that cross between the front end and the core: the codes are the same, the text is copied.
 *
 * Ownership.  Each function takes its argument; NULL gives NULL.
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#include <stddef.h>

struct TRITONSERVER_Error;

struct error *core_error_take_any(struct TRITONSERVER_Error *core) NODISCARD COLD;
void          core_error_drop_any(struct TRITONSERVER_Error *core) COLD;

/* An error of the core becomes one of the front end. Inline: each call into the core passes here,
 * and nearly all of them with NULL. */
NODISCARD static inline struct error *core_error_take(struct TRITONSERVER_Error *core) {
        return LIKELY(core == NULL) ? NULL : core_error_take_any(core);
}
/* The other way round, for callbacks that the core calls. */
struct TRITONSERVER_Error *core_error_give(struct error *err) NODISCARD;
/* Frees an error nobody can be told about. */
static inline void core_error_drop(struct TRITONSERVER_Error *core) {
        if (UNLIKELY(core != NULL))
                core_error_drop_any(core);
}
