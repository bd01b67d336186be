/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/svg_plot.h"

#include "base/compiler.h"

#include <math.h>

#define WIDTH 560.0
#define HEIGHT 300.0
#define LEFT 64.0
#define RIGHT 12.0
#define TOP 34.0
#define BOTTOM 62.0
#define MAX_TICKS 12

/* Colours that differ also for most readers with a colour weakness (Okabe and Ito). */
static const char *const colours[SVG_PLOT_MAX_SERIES] = { "#0072b2", "#e69f00", "#009e73",
                                                          "#d55e00", "#cc79a7", "#56b4e9",
                                                          "#999933", "#777777" };

struct frame {
        double x_most, y_most;
};

double svg_plot_step(double most) {
        double power, share;

        if (!(most > 0.0) || !isfinite(most))
                return 1.0;
        power = pow(10.0, floor(log10(most)));
        share = most / power; /* 1 to 10 */
        return share > 5.0 ? power : share > 2.0 ? power / 2.0 : power / 5.0;
}

static double at_x(const struct frame *f, double x) {
        return LEFT + (f->x_most > 0.0 ? x / f->x_most : 0.0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct frame *f, double y) {
        return HEIGHT - BOTTOM - (f->y_most > 0.0 ? y / f->y_most : 0.0) * (HEIGHT - TOP - BOTTOM);
}

void svg_put_text(struct strbuf *out, const char *text) {
        for (; *text != '\0'; text++)
                switch (*text) {
                case '<': strbuf_puts(out, "&lt;"); break;
                case '>': strbuf_puts(out, "&gt;"); break;
                case '&': strbuf_puts(out, "&amp;"); break;
                case '"': strbuf_puts(out, "&quot;"); break;
                default: strbuf_putc(out, *text);
                }
}

static void put_label(struct strbuf *out, double x, double y, const char *anchor,
                      const char *text) {
        strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
        svg_put_text(out, text);
        strbuf_puts(out, "</text>\n");
}

static void put_y_axis(const struct svg_plot *p, const struct frame *f, struct strbuf *out) {
        double step = svg_plot_step(f->y_most);

        for (size_t i = 0; i < MAX_TICKS && (double)i * step <= f->y_most * 1.0001; i++) {
                double y = at_y(f, (double)i * step);

                strbuf_printf(out,
                              "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                              "y2=\"%.1f\"/>\n<text x=\"%.1f\" y=\"%.1f\" "
                              "text-anchor=\"end\">%g</text>\n",
                              LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4, (double)i * step);
        }
        put_label(out, 4, TOP - 10, "start", p->y_label);
}

static void put_x_axis(const struct svg_plot *p, const struct frame *f, struct strbuf *out) {
        double step = svg_plot_step(f->x_most);

        for (size_t i = 0; i < MAX_TICKS && (double)i * step <= f->x_most * 1.0001; i++)
                strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
                              at_x(f, (double)i * step), HEIGHT - BOTTOM + 16, (double)i * step);
        put_label(out, WIDTH - RIGHT, HEIGHT - BOTTOM + 32, "end", p->x_label);
}

static void put_legend(const struct svg_plot *p, struct strbuf *out) {
        double x = LEFT, width = (WIDTH - LEFT - RIGHT) / (double)MAX(p->n_series, 4);

        for (size_t i = 0; i < p->n_series; i++, x += width) {
                strbuf_printf(out,
                              "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" "
                              "fill=\"%s\"/>\n",
                              x, HEIGHT - 19, colours[i]);
                put_label(out, x + 14, HEIGHT - 10, "start", p->series[i].name);
        }
}

static void begin(const struct svg_plot *p, struct strbuf *out) {
        strbuf_printf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>", WIDTH, HEIGHT);
        svg_put_text(out, p->title);
        strbuf_puts(out, "</title>\n");
        strbuf_printf(out, "<text class=\"title\" x=\"%.1f\" y=\"14\" text-anchor=\"middle\">",
                      WIDTH / 2);
        svg_put_text(out, p->title);
        strbuf_puts(out, "</text>\n");
}

static void put_line(const struct svg_series *s, const struct frame *f, const char *colour,
                     struct strbuf *out) {
        strbuf_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                      colour);
        for (size_t i = 0; i < s->n; i++)
                strbuf_printf(out, "%s%.1f,%.1f", i > 0 ? " " : "", at_x(f, s->x[i]),
                              at_y(f, s->y[i]));
        strbuf_puts(out, "\"/>\n");
        for (size_t i = 0; i < s->n; i++) {
                strbuf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>",
                              at_x(f, s->x[i]), at_y(f, s->y[i]), colour);
                svg_put_text(out, s->name);
                strbuf_printf(out, " %.4g at %g</title></circle>\n", s->y[i], s->x[i]);
        }
}

void svg_plot_put_lines(const struct svg_plot *p, struct strbuf *out) {
        struct frame f = { 0 };

        for (size_t i = 0; i < p->n_series; i++)
                for (size_t k = 0; k < p->series[i].n; k++) {
                        f.x_most = MAX(f.x_most, p->series[i].x[k]);
                        f.y_most = MAX(f.y_most, p->series[i].y[k]);
                }
        begin(p, out);
        put_y_axis(p, &f, out);
        put_x_axis(p, &f, out);
        for (size_t i = 0; i < p->n_series; i++)
                put_line(&p->series[i], &f, colours[i], out);
        put_legend(p, out);
        strbuf_puts(out, "</svg>\n");
}

static double sum_at(const struct svg_plot *p, size_t k) {
        double sum = 0.0;

        for (size_t i = 0; i < p->n_series; i++)
                sum += p->series[i].y[k];
        return sum;
}

static void put_bar(const struct svg_plot *p, const struct frame *f, size_t k, struct strbuf *out) {
        double place = (WIDTH - LEFT - RIGHT) / (double)p->series[0].n,
               width = MIN(place * 0.7, 60.0);
        double middle = LEFT + place * ((double)k + 0.5), below = 0.0;

        for (size_t i = 0; i < p->n_series; i++) {
                double value = p->series[i].y[k];

                strbuf_printf(out,
                              "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                              "fill=\"%s\"><title>",
                              middle - width / 2, at_y(f, below + value), width,
                              at_y(f, below) - at_y(f, below + value), colours[i]);
                svg_put_text(out, p->series[i].name);
                strbuf_printf(out, " %.4g at %g</title></rect>\n", value, p->series[i].x[k]);
                below += value;
        }
        strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", middle,
                      HEIGHT - BOTTOM + 16, p->series[0].x[k]);
}

void svg_plot_put_bars(const struct svg_plot *p, struct strbuf *out) {
        struct frame f = { 0 };
        size_t       n = p->n_series > 0 ? p->series[0].n : 0;

        for (size_t k = 0; k < n; k++)
                f.y_most = MAX(f.y_most, sum_at(p, k));
        begin(p, out);
        put_y_axis(p, &f, out);
        put_label(out, WIDTH - RIGHT, HEIGHT - BOTTOM + 32, "end", p->x_label);
        for (size_t k = 0; k < n; k++)
                put_bar(p, &f, k, out);
        put_legend(p, out);
        strbuf_puts(out, "</svg>\n");
}
