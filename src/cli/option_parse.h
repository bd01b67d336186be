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

/* An option of the command line. */
struct option_match {
        const struct option_row *row;
        const char              *name;  /* borrowed; the whole of the name that was given */
        const char              *value; /* borrowed from argv; "true" for a flag */
};

/* Reads the option whose name is argv[*at]; *at becomes the index of its last argument. */
struct error *option_parse_one(int argc, char **argv, int *at, struct option_match *ret) NODISCARD;

/* argv[0] is skipped. */
struct error *option_parse(int argc, char **argv, struct cli_options *ret) NODISCARD;
