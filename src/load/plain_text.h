/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for a terminal without control characters, which the terminal would obey: a server that is asked may send any.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>

/* Each byte of a control character becomes `instead`: those below U+0020 apart from line ends, and U+007F to U+009F. */
void plain_text_make(char *text, size_t len, char instead);
/* Prints to standard output; plain, except for JSON, which escapes control characters. */
void plain_text_print(struct strbuf *text, bool is_json);
/* Prints "neso <command>: <message>" to standard error, plain. */
void plain_text_print_error(const char *command, const struct error *err);
