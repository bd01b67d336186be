/* SPDX-License-Identifier: BSD-3-Clause */
/* --trace-config and its older forms, converted to the tracer's configuration.
 *
 *     --trace-config [<mode>,]<setting>=<value>
 *
 * The environment's OTEL_BSP_* variables are applied first, then the older options, then
 * --trace-config in the order given. `level` may be given twice and `resource` any number of times;
 * for other settings the last value counts.
 *
 * Ownership.  Texts are borrowed from the options; those of the environment are read at once.
 */
#pragma once

#include "base/error.h"
#include "trace/trace_settings.h"

struct cli_options;

/* INVALID_ARG names the option or the variable. */
struct error *trace_options_read(const struct cli_options *o, struct trace_config *ret) NODISCARD;
