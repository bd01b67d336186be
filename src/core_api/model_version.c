/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/model_version.h"

struct error *model_version_read(struct str text, int64_t *ret) {
        *ret = -1;
        if (text.len == 0)
                return NULL;
        if (!str_to_i64(text, ret))
                return error_new(ERR_INVALID_ARG,
                                 "failed to get model version from specified version string '%.*s' "
                                 "(details: stol), version should be an integral value > 0",
                                 STR_ARG(text));
        if (*ret < 0)
                return error_new(ERR_INVALID_ARG,
                                 "invalid model version specified '%.*s' , version should be an "
                                 "integral value > 0",
                                 STR_ARG(text));
        return NULL;
}
