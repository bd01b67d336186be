/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of struct cli_options to the C API's TRITONSERVER_ServerOptions.
 */
#pragma once

#include "base/error.h"
#include "cli/cli_options.h"

struct TRITONSERVER_ServerOptions;

/* Settings of the log take effect at once. The caller ends *ret with
 * TRITONSERVER_ServerOptionsDelete(). */
struct error *core_options_make(const struct cli_options           *o,
                                struct TRITONSERVER_ServerOptions **ret) NODISCARD;
