/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/core_error.h"

#include "triton/core/tritonserver.h"

struct error *core_error_take_any(struct TRITONSERVER_Error *core) {
        struct error *err;

        err = error_new_text((enum error_code)TRITONSERVER_ErrorCode(core),
                             TRITONSERVER_ErrorMessage(core));
        TRITONSERVER_ErrorDelete(core);
        return err;
}

struct TRITONSERVER_Error *core_error_give(struct error *err) {
        struct TRITONSERVER_Error *core;

        if (err == NULL)
                return NULL;
        core = TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)err->code, err->message);
        error_free(err);
        return core;
}

void core_error_drop_any(struct TRITONSERVER_Error *core) {
        TRITONSERVER_ErrorDelete(core);
}
