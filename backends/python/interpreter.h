/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of a model's interpreter and its environment.
 *
 * The model's parameter EXECUTION_ENV_PATH names a directory with bin/activate, or a conda-pack
 * archive of one. The interpreter is then bin/python3 of that directory, with the variables that
 * `activate` would set; no shell runs. Otherwise the interpreter is the backend's setting
 * python-path.
 *
 * Ownership.  The result belongs to the caller. Unpacked archives belong to struct environments and
 * are deleted with it.
 * Threads.  Any; each archive is unpacked once, while other threads that need it wait.
 */
#pragma once

#include "kit/model.h"

struct environments;

struct interpreter {
        char  *python;      /* owned */
        char **environment; /* owned, and each text */
};

TRITONSERVER_Error *interpreter_find(struct environments *environments, const struct kit_model *kit,
                                     const char *python, struct interpreter *ret);
void                interpreter_done(struct interpreter *interpreter);
