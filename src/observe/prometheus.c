/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/prometheus.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* "%.17g" writes at most 24 characters. */
#define NUMBER_MAX 32

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, longer than any escape */

/* Every integer below this is exact in a double, and is printed with all of its digits. */
#define MAX_EXACT_INTEGER 9007199254740992.0

static locale_t       c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) {
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool is_letter(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *name, bool allows_colon) {
        if (name[0] == '\0')
                return false;
        for (const char *at = name; *at != '\0'; at++) {
                bool is_digit = *at >= '0' && *at <= '9';

                if (!is_letter(*at) && !(is_digit && at != name) && !(allows_colon && *at == ':'))
                        return false;
        }
        return true;
}

bool prometheus_is_label_name(const char *name) {
        return is_name(name, false);
}

bool prometheus_is_family_name(const char *name) {
        return is_name(name, true);
}

static void put_ascii(struct strbuf *out, char c, bool is_quoted) {
        if (c == '\n') {
                strbuf_puts(out, "\\n");
                return;
        }
        if (c == '\\' || (is_quoted && c == '"'))
                strbuf_putc(out, '\\');
        strbuf_putc(out, c);
}

/* Help texts escape backslashes and line feeds; values of labels also double quotes. Bytes that are no UTF-8, as the
 * name of a folder may have them, become U+FFFD, as in JSON: a scraper would refuse the whole page. */
static void put_escaped(struct strbuf *out, const char *text, bool is_quoted) {
        struct str left = str_of(text);

        while (left.len > 0) {
                size_t n = str_utf8_first(left);

                if (n == 1)
                        put_ascii(out, *left.ptr, is_quoted);
                else if (n > 1)
                        strbuf_put(out, left.ptr, n);
                else
                        strbuf_puts(out, REPLACEMENT);
                left = str_skip(left, MAX(n, 1));
        }
}

static const char *kind_name(enum metric_kind kind) {
        switch (kind) {
        case METRIC_COUNTER: return "counter";
        case METRIC_GAUGE: return "gauge";
        case METRIC_HISTOGRAM: return "histogram";
        }
        return "untyped";
}

void prometheus_head(struct strbuf *out, const char *name, const char *help,
                     enum metric_kind kind) {
        strbuf_puts(out, "# HELP ");
        strbuf_puts(out, name);
        strbuf_putc(out, ' ');
        put_escaped(out, help, false);
        strbuf_puts(out, "\n# TYPE ");
        strbuf_puts(out, name);
        strbuf_putc(out, ' ');
        strbuf_puts(out, kind_name(kind));
        strbuf_putc(out, '\n');
}

static int compare_labels(const void *a, const void *b) {
        return strcmp(((const struct metric_label *)a)->name,
                      ((const struct metric_label *)b)->name);
}

void prometheus_labels(struct strbuf *out, const struct metric_label *labels, size_t n_labels) {
        struct metric_label *sorted;

        if (n_labels == 0)
                return;
        sorted = mem_alloc(n_labels * sizeof(*sorted));
        memcpy(sorted, labels, n_labels * sizeof(*sorted));
        qsort(sorted, n_labels, sizeof(*sorted), compare_labels);
        for (size_t i = 0; i < n_labels; i++) {
                strbuf_putc(out, i == 0 ? '{' : ',');
                strbuf_puts(out, sorted[i].name);
                strbuf_puts(out, "=\"");
                put_escaped(out, sorted[i].value, true);
                strbuf_putc(out, '"');
        }
        strbuf_putc(out, '}');
        free(sorted);
}

char *prometheus_labels_new(const struct metric_label *labels, size_t n_labels) {
        struct strbuf text = { 0 };
        size_t        bytes = 1; /* the closing brace */

        for (size_t i = 0; i < n_labels; i++)
                bytes += strlen(labels[i].name) + strlen(REPLACEMENT) * strlen(labels[i].value) +
                         strlen("{=\"\"");
        strbuf_need(&text, bytes);
        prometheus_labels(&text, labels, n_labels);
        return strbuf_take(&text);
}

/* Tries 15 digits first, which need not restore the value, and then more: 17 always restore the same
 * double. */
static void print_shortest(struct strbuf *out, double value) {
        char     digits[NUMBER_MAX];
        locale_t before;

        /* A plug-in may have set a locale whose decimal point is a comma. */
        pthread_once(&c_locale_once, make_c_locale);
        before = uselocale(c_locale);
        for (int precision = 15; precision <= 17; precision++) {
                snprintf(digits, sizeof(digits), "%.*g", precision, value);
                if (strtod(digits, NULL) == value)
                        break;
        }
        uselocale(before);
        strbuf_puts(out, digits);
}

void prometheus_number(struct strbuf *out, double value) {
        if (isnan(value))
                strbuf_puts(out, "NaN");
        else if (isinf(value))
                strbuf_puts(out, value > 0 ? "+Inf" : "-Inf");
        else if (fabs(value) < MAX_EXACT_INTEGER && value == floor(value))
                strbuf_printf(out, "%" PRId64, (int64_t)value);
        else
                print_shortest(out, value);
}

void prometheus_sample(struct strbuf *out, const char *name, const char *labels_text,
                       double value) {
        strbuf_puts(out, name);
        strbuf_puts(out, labels_text);
        strbuf_putc(out, ' ');
        prometheus_number(out, value);
        strbuf_putc(out, '\n');
}

static void put_exemplar(struct strbuf *out, const struct prometheus_exemplar *e) {
        strbuf_puts(out, " # {trace_id=\"");
        put_escaped(out, e->trace_id, true);
        strbuf_puts(out, "\"} ");
        prometheus_number(out, e->value);
        strbuf_printf(out, " %" PRIu64 ".%03" PRIu64, e->wall_ns / NS_PER_S,
                      e->wall_ns % NS_PER_S / NS_PER_MS);
}

static void put_bucket(struct strbuf *out, const char *name, const char *labels_text, double bound,
                       uint64_t count, const struct prometheus_exemplar *exemplar) {
        size_t len = strlen(labels_text);

        strbuf_puts(out, name);
        strbuf_puts(out, "_bucket");
        if (len == 0) {
                strbuf_putc(out, '{');
        } else {
                strbuf_put(out, labels_text, len - 1); /* without the closing brace */
                strbuf_putc(out, ',');
        }
        strbuf_puts(out, "le=\"");
        prometheus_number(out, bound);
        strbuf_printf(out, "\"} %" PRIu64, count);
        if (exemplar != NULL && exemplar->trace_id[0] != '\0')
                put_exemplar(out, exemplar);
        strbuf_putc(out, '\n');
}

void prometheus_histogram(struct strbuf *out, const char *name, const char *labels_text,
                          const struct prometheus_histogram *h) {
        uint64_t count = 0;

        for (size_t i = 0; i <= h->n_bounds; i++) {
                count += h->counts[i];
                put_bucket(out, name, labels_text, i < h->n_bounds ? h->bounds[i] : INFINITY, count,
                           h->exemplars != NULL ? &h->exemplars[i] : NULL);
        }
        strbuf_printf(out, "%s_sum%s ", name, labels_text);
        prometheus_number(out, h->sum);
        strbuf_printf(out, "\n%s_count%s %" PRIu64 "\n", name, labels_text, count);
}
