/* SPDX-License-Identifier: BSD-3-Clause */
/* From argv to struct cli_options, by the table.
 *
 * "--name=value" and "--name value"; only long options. Errors are INVALID_ARG and carry the text
 * that the user reads: the option, what is wrong, what is allowed, a suggestion.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/cli_options.h"

/* argv[0] is skipped. */
struct error *option_parse(int argc, char **argv, struct cli_options *ret) NODISCARD;

/* What --help prints. */
void option_print_usage(struct strbuf *out);
/* docs/options.md. */
void option_print_markdown(struct strbuf *out);
