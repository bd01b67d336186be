/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `neso serve` as texts, from their rows.
 */
#pragma once

#include "base/strbuf.h"
#include "cli/cli_options.h"

/* Puts the text of --help. */
void option_print_usage(struct strbuf *out);
/* Puts the text of docs/options.md. */
void option_print_markdown(struct strbuf *out);
/* Puts the configuration in force: a line "--<name>=<value>" for each value of each option, in the form
 * that the command line has. Options without a value are left out. */
void option_print_values(const struct cli_options *o, struct strbuf *out);
