/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of the local cache: {"size":"<bytes>"}, a text or a number.
 */
#pragma once

#include "triton/core/tritoncache.h"

#include <stddef.h>

struct settings {
        size_t size; /* of all entries together, in bytes */
};

/* INVALID_ARG for a setting that is missing, unknown or bad. */
TRITONSERVER_Error *settings_read(const char *config, struct settings *ret);
