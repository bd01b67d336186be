/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of argv into struct cli_options, as the table of options (option_table.h) defines.
 *
 * Accepted are "--name=value" and "--name value", long options only. Errors are INVALID_ARG with
 * the text for the user: the option, what is wrong, what is allowed, a suggestion.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/cli_options.h"

/* argv[0] is skipped. */
struct error *option_parse(int argc, char **argv, struct cli_options *ret) NODISCARD;

/* Puts the text of --help. */
void option_print_usage(struct strbuf *out);
/* Puts the text of docs/options.md. */
void option_print_markdown(struct strbuf *out);
