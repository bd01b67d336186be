/* SPDX-License-Identifier: BSD-3-Clause */
/* --cache-config and its older form: which cache, and its settings as one JSON object.
 */
#pragma once

#include "base/error.h"
#include "cli/cli_options.h"

struct TRITONSERVER_ServerOptions;

struct error *cache_options_set(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t)
        NODISCARD;
