/* SPDX-License-Identifier: BSD-3-Clause */
/* The version of a model in the form that clients write, in a path or in a message.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <stdint.h>

/* Reads a version; "" gives -1, the latest. INVALID_ARG when the text is not a version number. */
struct error *model_version_read(struct str text, int64_t *ret) NODISCARD;
