/* SPDX-License-Identifier: BSD-3-Clause */
/* Completes a configuration with the fields that a backend detected (TRITONBACKEND_ModelSetConfig).
 *
 * It uses max_batch_size, input, output, the scheduling choice (when none was configured) and
 * model_transaction_policy.decoupled (when set) of the backend's message only: the author's other
 * fields stay. The caller normalises again afterwards. Source: model configuration, order of processing at
 * load.
 *
 * Ownership.  The fields are copied; `from_backend` still belongs to the caller.
 * Threads.  The owner of `c`.
 */
#pragma once

#include "config/model_config.h"

/* INTERNAL when the backend would change the kind of scheduling. On an error `c` is unchanged. */
struct error *model_config_complete(struct model_config *c, const struct model_config *from_backend)
        NODISCARD;
