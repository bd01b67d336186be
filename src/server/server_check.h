/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the models of a repository, or one model, and tells what is wrong with them; no server is
 * made and no backend opened.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

struct message;
struct server_options;

/* Of the options count the directories of backends and agents, the name of configurations and
 * whether they are completed. `path` is a repository or the directory of one model, which is told
 * from what lies in it. The report: {"path", "is_model", "models": [see model_check_print(), ...]},
 * by name. */
struct error *server_check_models(const struct server_options *options, const char *path,
                                  struct message **ret) NODISCARD;
