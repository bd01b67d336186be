/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the models of a repository, or one model, and reports their mistakes; creates no server and
 * opens no backend.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

struct message;
struct server_options;

/* `path` is a repository or the directory of one model, which is recognised by its contents. Of the
 * options it uses the directories of plug-ins, model_config_name and strict_model_config. Reports
 * {"path", "is_model", "models": [see model_check_print(), ...]}, sorted by name. */
struct error *repository_check(const struct server_options *options, const char *path,
                               struct message **ret) NODISCARD;
