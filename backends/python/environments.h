/* SPDX-License-Identifier: BSD-3-Clause */
/* Archives of Python environments (conda-pack), unpacked once each.
 *
 * An archive is identified by its canonical path and the time of its last change, and unpacked into
 * <temporary directory>/python_env_XXXXXX/<n>. Members with absolute paths, with "..", or below a
 * link are refused.
 *
 * Ownership.  The directories belong to struct environments and are deleted with it.
 * Threads.  Any; each archive is unpacked once, while other threads that need it wait.
 */
#pragma once

#include "kit/errors.h"

struct environments;

/* `python` is the interpreter for the script that unpacks, in the backend's directory. */
TRITONSERVER_Error *environments_new(const char *python, const char *backend_directory,
                                     struct environments **ret);
void                environments_free(struct environments *environments);

/* Returns the directory of an environment, owned by the caller: `path` itself if it is a directory,
 * else the directory of the unpacked archive. */
TRITONSERVER_Error *environments_open(struct environments *environments, const char *path,
                                      char **ret_directory);
