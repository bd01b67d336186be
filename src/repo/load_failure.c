/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_failure.h"

struct error *load_failure(const char *model, struct error *reason) {
        if (reason->is_static)
                return reason; /* no memory for its text */
        return error_mark(error_wrap(reason, "load failed for model '%s'", model), ERROR_KIND_LOAD);
}
