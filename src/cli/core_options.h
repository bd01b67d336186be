/* SPDX-License-Identifier: BSD-3-Clause */
/* From struct cli_options to the C API's TRITONSERVER_ServerOptions.
 */
#pragma once

#include "base/error.h"
#include "cli/cli_options.h"

struct TRITONSERVER_ServerOptions;

/* Settings of the log act at once. *ret is the caller's: TRITONSERVER_ServerOptionsDelete(). */
struct error *core_options_make(const struct cli_options *o,
                                struct TRITONSERVER_ServerOptions **ret) NODISCARD;
