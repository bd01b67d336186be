/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests expect of an API call: that it works, or that it fails as it should. */
#pragma once

#include "triton/core/tritonserver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

__attribute__((unused)) static void assert_ok(struct TRITONSERVER_Error *err) {
        if (err != NULL)
                fail_msg("%s: %s", TRITONSERVER_ErrorCodeString(err),
                         TRITONSERVER_ErrorMessage(err));
}

/* `text` NULL: any but the empty one. Ends the error. */
__attribute__((unused)) static void assert_error(struct TRITONSERVER_Error *err,
                                                 TRITONSERVER_Error_Code code, const char *text) {
        assert_non_null(err);
        if (text != NULL)
                assert_string_equal(TRITONSERVER_ErrorMessage(err), text);
        else
                assert_true(strlen(TRITONSERVER_ErrorMessage(err)) > 0);
        assert_int_equal(TRITONSERVER_ErrorCode(err), code);
        TRITONSERVER_ErrorDelete(err);
}
