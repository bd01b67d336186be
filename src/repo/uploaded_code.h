/* SPDX-License-Identifier: BSD-3-Clause */
/* What a load request brings along and the server, or a backend in it, would execute.
 *
 * Model files are read by their runtime; a shared object runs as the server itself, from its
 * constructors on, also when the load fails afterwards. A configuration may name any file of the
 * model's directory as the backend's library, so files are judged by what they begin with and not
 * only by their name.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

#include <stddef.h>

struct override_file;

/* UNSUPPORTED, naming the model and the first file that is code. */
struct error *uploaded_code_check_files(const char *model, const struct override_file *files,
                                        size_t n_files) NODISCARD;
/* A configuration that was sent names only libraries that lie in the model's directory: else
 * UNSUPPORTED. */
struct error *uploaded_code_check_config(const struct model_config *config, const char *model,
                                         const char *directory) NODISCARD;
