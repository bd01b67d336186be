/* SPDX-License-Identifier: BSD-3-Clause */
/* --rate-limit and --rate-limit-resource.
 */
#pragma once

#include "base/error.h"
#include "cli/cli_options.h"

struct TRITONSERVER_ServerOptions;

struct error *rate_options_set(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t)
        NODISCARD;
