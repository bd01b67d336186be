/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of argv into struct cli_options, as the rows of options/option_rows.def define.
 *
 * Accepted are "--name=value" and "--name value", long options only. A name may be shortened as long as
 * one option begins so. Errors are INVALID_ARG with the text for the user: the option, what is wrong,
 * what is allowed, a suggestion.
 */
#pragma once

#include "base/error.h"
#include "cli/cli_options.h"

/* argv[0] is skipped. */
struct error *option_parse(int argc, char **argv, struct cli_options *ret) NODISCARD;
