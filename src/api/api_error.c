/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_Error. */
#include "api/api_types.h"

/* The codes are converted by their numbers. */
_Static_assert((int)ERR_UNKNOWN == (int)TRITONSERVER_ERROR_UNKNOWN, "error codes differ");
_Static_assert((int)ERR_INTERNAL == (int)TRITONSERVER_ERROR_INTERNAL, "error codes differ");
_Static_assert((int)ERR_NOT_FOUND == (int)TRITONSERVER_ERROR_NOT_FOUND, "error codes differ");
_Static_assert((int)ERR_INVALID_ARG == (int)TRITONSERVER_ERROR_INVALID_ARG, "error codes differ");
_Static_assert((int)ERR_UNAVAILABLE == (int)TRITONSERVER_ERROR_UNAVAILABLE, "error codes differ");
_Static_assert((int)ERR_UNSUPPORTED == (int)TRITONSERVER_ERROR_UNSUPPORTED, "error codes differ");
_Static_assert((int)ERR_ALREADY_EXISTS == (int)TRITONSERVER_ERROR_ALREADY_EXISTS,
               "error codes differ");
_Static_assert((int)ERR_CANCELLED == (int)TRITONSERVER_ERROR_CANCELLED, "error codes differ");

struct error *api_null_argument(const char *function, const char *name) {
        return error_new(ERR_INVALID_ARG, "%s: argument '%s' must not be NULL", function, name);
}

struct error *api_bad_value(const char *function, const char *what, long long value) {
        return error_new(ERR_INVALID_ARG, "%s: %lld is no valid %s", function, value, what);
}

struct TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *msg) {
        return error_to_api(error_new_text((enum error_code)code, msg != NULL ? msg : ""));
}

void TRITONSERVER_ErrorDelete(struct TRITONSERVER_Error *error) {
        error_free(error_from_api(error));
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(struct TRITONSERVER_Error *error) {
        const struct error *err = error_from_api(error);

        return err != NULL ? (TRITONSERVER_Error_Code)err->code : TRITONSERVER_ERROR_UNKNOWN;
}

const char *TRITONSERVER_ErrorCodeString(struct TRITONSERVER_Error *error) {
        const struct error *err = error_from_api(error);

        return error_code_string(err != NULL ? err->code : ERR_UNKNOWN);
}

const char *TRITONSERVER_ErrorMessage(struct TRITONSERVER_Error *error) {
        const struct error *err = error_from_api(error);

        return err != NULL ? err->message : "";
}
