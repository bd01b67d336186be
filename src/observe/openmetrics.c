/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/openmetrics.h"

#include <string.h>

#define HELP "# HELP "
#define TYPE "# TYPE "
#define LE "le=\""

static void put_text(struct strbuf *out, struct str s) {
        strbuf_put(out, s.ptr, s.len);
}

/* Texts of 0.0.4 have a bare double quote, which OpenMetrics escapes. */
static void put_help(struct strbuf *out, struct str text) {
        for (size_t i = 0; i < text.len; i++) {
                if (text.ptr[i] == '"')
                        strbuf_putc(out, '\\');
                strbuf_putc(out, text.ptr[i]);
        }
}

/* `help` is "name text", `type` is "name kind". Returns whether the family is a histogram. */
static bool put_head(struct strbuf *out, struct str help, struct str type) {
        struct str name, kind = str_split(type, ' ', &name);
        struct str text = help.len > name.len ? str_skip(help, name.len + 1) : STR_LIT("");

        if (str_is(kind, "counter") && str_ends(name, STR_LIT("_total")))
                name.len -= strlen("_total");
        else if (str_is(kind, "counter"))
                kind = STR_LIT("unknown");
        strbuf_puts(out, HELP);
        put_text(out, name);
        strbuf_putc(out, ' ');
        put_help(out, text);
        strbuf_puts(out, "\n" TYPE);
        put_text(out, name);
        strbuf_putc(out, ' ');
        put_text(out, kind);
        strbuf_putc(out, '\n');
        return str_is(kind, "histogram");
}

/* Returns the length up to the end of the bound in `le`, the last label of a bucket. 0: the line is no
 * bucket, or the bound is no integer. Where the value of another label ends in "le=", a comma or a brace
 * follows the quote, not a digit. */
static size_t end_of_integer_bound(struct str line) {
        const char *at = NULL, *end = line.ptr + line.len, *digit;

        for (const char *c = line.ptr; c + strlen(LE) < end; c++)
                if (c > line.ptr && (c[-1] == ',' || c[-1] == '{') &&
                    memcmp(c, LE, strlen(LE)) == 0)
                        at = c + strlen(LE);
        for (digit = at; digit != NULL && digit < end && *digit >= '0' && *digit <= '9'; digit++)
                continue;
        return digit != NULL && digit > at && digit < end && *digit == '"'
                       ? (size_t)(digit - line.ptr)
                       : 0;
}

static void put_sample(struct strbuf *out, struct str line, bool is_histogram) {
        size_t n = is_histogram ? end_of_integer_bound(line) : 0;

        put_text(out, str_range(line.ptr, n));
        if (n > 0)
                strbuf_puts(out, ".0");
        put_text(out, str_skip(line, n));
        strbuf_putc(out, '\n');
}

void openmetrics_convert(struct str page, struct strbuf *out) {
        struct str help = STR_LIT("");
        bool       is_histogram = false;

        STR_FOR_EACH(page, '\n', line) {
                if (str_starts(line, STR_LIT(HELP)))
                        help = str_skip(line, strlen(HELP));
                else if (str_starts(line, STR_LIT(TYPE)))
                        is_histogram = put_head(out, help, str_skip(line, strlen(TYPE)));
                else if (line.len > 0)
                        put_sample(out, line, is_histogram);
        }
}

void openmetrics_end(struct strbuf *out) {
        strbuf_puts(out, "# EOF\n");
}
