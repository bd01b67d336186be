/* SPDX-License-Identifier: BSD-3-Clause */
/* Which interpreter runs a model, and with which environment.
 *
 * The model's parameter EXECUTION_ENV_PATH names a directory with bin/activate, or a conda-pack
 * archive of one; its bin/python3 is used, and the variables that `activate` would set are set; no
 * shell runs. Otherwise it is the backend's setting python-path.
 *
 * Ownership.  What is found belongs to the caller. Unpacked archives belong to struct environments and
 * are deleted with it.
 * Threads.  Any; one archive is unpacked once, others wait for it.
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
