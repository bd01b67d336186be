/* SPDX-License-Identifier: BSD-3-Clause */
/* Which model a configuration means by a name, in a check of files: one of its own repository, or with a
 * namespace, which is the path of a repository, one of that.
 *
 * A key tells the models of a check apart: it is the name in the repository that is checked, and
 * "<repository>::<name>" in any other.
 *
 * Threads.  Pure functions, but for the file system.
 */
#pragma once

#include <stdbool.h>

/* The repository that is meant by a model of `repository` that names `namespace` ("": none); borrowed. */
const char *check_names_repository(const char *repository, const char *namespace);
/* Owned by the caller. `checked` is the repository that is checked. */
char *check_names_key(const char *checked, const char *repository, const char *name);
