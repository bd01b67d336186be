/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/duration.h"

void duration_print(double ns, struct strbuf *out) {
        static const char *const units[] = { "ns", "us", "ms", "s" };
        size_t                   unit = 0;

        if (ns <= 0) {
                strbuf_puts(out, "0");
                return;
        }
        /* 999.5 would be printed as 1000. */
        for (; ns >= 999.5 && unit + 1 < ARRAY_LEN(units); unit++)
                ns /= 1000;
        strbuf_printf(out, "%.*f %s",
                      unit == 0 || ns >= 99.95 ? 0
                      : ns >= 9.995            ? 1
                                               : 2,
                      ns, units[unit]);
}
