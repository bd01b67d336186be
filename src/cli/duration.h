/* SPDX-License-Identifier: BSD-3-Clause */
/* Times for people: "0", "850 ns", "12.3 us", "4.56 ms", "1.20 s", three digits each.
 */
#pragma once

#include "base/strbuf.h"

void duration_print(double ns, struct strbuf *out);
