/* SPDX-License-Identifier: BSD-3-Clause */
/* The version of a model as clients write it, in a path or in a message.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <stdint.h>

/* "" is -1, the latest. INVALID_ARG for what is no number of a version. */
struct error *model_version_read(struct str text, int64_t *ret) NODISCARD;
