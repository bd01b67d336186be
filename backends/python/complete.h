/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of a model's configuration: its auto_complete_config() runs in a process of its own,
 * which ends afterwards. A model without that function completes nothing.
 *
 * Threads.  That of ModelInitialize.
 */
#pragma once

#include "python/python_model.h"

TRITONSERVER_Error *complete_config(struct model *model);
