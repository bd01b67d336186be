/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds code in a load request: files that the server, or a backend in it, would execute, and names
 * of such files.
 *
 * A runtime reads model files as data. A shared object runs as the server itself, from its
 * constructors on, even when the load fails afterwards. A configuration may name any file of the
 * model's directory as the backend's library. Files are therefore judged by their first bytes, and
 * not only by their name. Names in a configuration are the repository owner's choice.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

#include <stddef.h>

struct config_origin;
struct override_file;

/* UNSUPPORTED when a file is code; the error names the model and the first such file. */
struct error *uploaded_code_check_files(const char *model, const struct override_file *files,
                                        size_t n_files) NODISCARD;
/* UNSUPPORTED when a sent configuration names a library, an agent or a file of the server's own
 * parameters that `own`, the configuration in the repository, does not. `own` is NULL when there is
 * none; `origin` compares the two. */
struct error *uploaded_code_check_config(const struct model_config  *given,
                                         const struct model_config  *own,
                                         const struct config_origin *origin, const char *model)
        NODISCARD;
