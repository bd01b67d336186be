/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/gauge_means.h"

#include "base/mem.h"

#include <math.h>

void gauge_means_init(struct gauge_means *g) {
        map_init(&g->gauges);
}

void gauge_means_done(struct gauge_means *g) {
        MAP_FOR_EACH(&g->gauges, e)
                free(e->value);
        map_done(&g->gauges);
        map_init(&g->gauges);
}

static void add_value(struct gauge_means *g, struct str name, double value) {
        struct gauge_mean *m = map_find(&g->gauges, name);

        if (m == NULL) {
                if (map_size(&g->gauges) == GAUGE_MEANS_MAX)
                        return;
                m = mem_zalloc(sizeof(*m));
                map_set(&g->gauges, name, m);
        }
        m->n++;
        /* No sum, which might be beyond all numbers. */
        m->mean = m->mean * ((double)(m->n - 1) / (double)m->n) + value / (double)m->n;
}

/* "# TYPE nv_cpu_utilization gauge": the name; empty for other lines. */
static struct str gauge_of(struct str line) {
        struct str start = STR_LIT("# TYPE "), name, kind;

        if (!str_starts(line, start))
                return (struct str){ 0 };
        kind = str_split(str_skip(line, start.len), ' ', &name);
        return str_is(str_trim(kind), "gauge") ? name : (struct str){ 0 };
}

/* Length of the "{labels}" that begin at `text`; 0 when they do not end. Values may contain blanks, braces
 * and quotes with a backslash before them. */
static size_t labels_length(struct str text) {
        bool is_quoted = false;

        for (size_t i = 0; i < text.len; i++) {
                if (is_quoted && text.ptr[i] == '\\')
                        i++;
                else if (text.ptr[i] == '"')
                        is_quoted = !is_quoted;
                else if (text.ptr[i] == '}' && !is_quoted)
                        return i + 1;
        }
        return 0;
}

/* A line has a name, labels in braces if there are any, a value, and the time if the server gives one. */
static void read_sample(struct gauge_means *g, struct str gauge, struct str line) {
        AUTO_CHARS number = NULL;
        struct str text, name = gauge;
        char      *end;
        double     value;

        if (!str_starts(line, gauge))
                return;
        if (line.len > gauge.len && line.ptr[gauge.len] == '{')
                name.len += labels_length(str_skip(line, gauge.len));
        if (name.len == line.len || line.ptr[name.len] != ' ')
                return;
        (void)str_split(str_trim(str_skip(line, name.len)), ' ', &text);
        number = mem_strndup(text.ptr, text.len);
        value = strtod(number, &end);
        if (end != number && *end == '\0' && isfinite(value))
                add_value(g, str_range(line.ptr, name.len), value);
}

void gauge_means_add(struct gauge_means *g, struct str page) {
        struct str gauge = { 0 };

        STR_FOR_EACH(page, '\n', line) {
                if (line.len > 0 && line.ptr[0] == '#') {
                        if (str_starts(line, STR_LIT("# TYPE ")))
                                gauge = gauge_of(line);
                } else if (gauge.len > 0) {
                        read_sample(g, gauge, line);
                }
        }
}
