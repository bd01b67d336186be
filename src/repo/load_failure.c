/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_failure.h"

#include "base/log.h"

struct error *load_failure(const char *model, struct error *reason) {
        if (reason->is_static)
                return reason; /* no memory for its text */
        return error_mark(error_wrap(reason, "load failed for model '%s'", model), ERROR_KIND_LOAD);
}

struct error *load_failure_logged(const char *model, enum error_code code, struct error *reason) {
        struct error *err;

        log_error("%s", reason->message);
        err = load_failure(model, error_new(code, "%s\n", reason->message));
        error_free(reason);
        return err;
}
