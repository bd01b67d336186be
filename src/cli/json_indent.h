/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON for people: a member on each line, two blanks for each level; arrays of scalars on one line.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

/* `json` is one complete value, of any layout; what is none is put as it is. No newline at the end. */
void json_indent(struct str json, struct strbuf *out);
