/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON for people: each member on a line of its own, indented by two blanks per level; an array of
 * scalars on one line.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

/* `json` is one complete value in any layout. Invalid JSON is put unchanged. No newline follows. */
void json_indent(struct str json, struct strbuf *out);
