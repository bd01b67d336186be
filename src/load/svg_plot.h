/* SPDX-License-Identifier: BSD-3-Clause */
/* Small plots as SVG, for a report in one file: lines over an axis, and stacked bars. They need no script, and
 * follow the colours of the page: text and axes use currentColor.
 *
 * Ownership.  Text is appended to the caller's strbuf; everything else is borrowed during the call.
 */
#pragma once

#include "base/strbuf.h"

#include <stddef.h>

#define SVG_PLOT_MAX_SERIES 8

struct svg_series {
        const char   *name;
        const double *x, *y; /* n each; x ascends */
        size_t        n;
};

struct svg_plot {
        const char              *title, *x_label, *y_label;
        const struct svg_series *series;
        size_t                   n_series; /* at most SVG_PLOT_MAX_SERIES */
};

/* Escapes a text for HTML and SVG, also within a quoted attribute. */
void svg_put_text(struct strbuf *out, const char *text);
/* A line with marks for each series. Both axes begin at 0. */
void svg_plot_put_lines(const struct svg_plot *p, struct strbuf *out);
/* A bar for each x, of the values of all series one above the other; all series have the x of the first. */
void svg_plot_put_bars(const struct svg_plot *p, struct strbuf *out);

/* The distance of ticks, 1, 2 or 5 times a power of ten, that gives 4 to 10 of them up to `most`. */
double svg_plot_step(double most);
