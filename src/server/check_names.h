/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolution of model names in a check of files: a name means a model of the same repository, or, with
 * a namespace (the path of a repository), a model of that repository.
 *
 * A key identifies a model within one check: it is the name for the repository that is checked, and
 * "<repository>::<name>" for any other.
 *
 * Threads.  Pure functions, except for the file system.
 */
#pragma once

#include <stdbool.h>

/* The repository of a model that a model of `repository` names with `namespace` ("": none); borrowed. */
const char *check_names_repository(const char *repository, const char *namespace);
/* The key of a model; owned by the caller. `checked` is the repository that is checked. */
char *check_names_key(const char *checked, const char *repository, const char *name);
