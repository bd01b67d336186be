/* SPDX-License-Identifier: BSD-3-Clause */
/* The call stacks of an instance's process, to find out where a model hangs.
 *
 * Threads.  Any; one question at a time, others wait for its end.
 */
#pragma once

#include "python/python_instance.h"

/* *ret is the JSON of NESOBACKEND_ModelInstanceStacks() in neso.h. INTERNAL when there is no
 * process, UNAVAILABLE when it does not answer in time. */
TRITONSERVER_Error *stacks_ask(struct instance *in, TRITONSERVER_Message **ret);
