/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer to `neso ctl infer`, as a table or, with --json, as JSON in which the outputs that came
 * as bytes behind it are values like all others.
 */
#pragma once

#include "cli/ctl_private.h"

/* `binary` is what came behind the JSON. An answer that cannot be understood is an error. */
struct error *ctl_infer_print(struct ctl *c, struct str json, struct str binary) NODISCARD;
