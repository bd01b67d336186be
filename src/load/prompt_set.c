/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/prompt_set.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "load/schedule.h"

#include <math.h>
#include <stdlib.h>

#define MAX_DISTINCT 65536

static const char *const words[] = {
        "the",   "of",    "and",  "to",   "in",    "is",    "it",   "for",  "on",   "with",
        "as",    "at",    "by",   "an",   "be",    "this",  "that", "from", "or",   "are",
        "was",   "but",   "not",  "have", "had",   "one",   "all",  "were", "when", "we",
        "there", "can",   "your", "said", "their", "if",    "do",   "will", "each", "about",
        "how",   "up",    "out",  "them", "then",  "she",   "many", "some", "so",   "these",
        "would", "other", "into", "has",  "more",  "her",   "two",  "like", "him",  "see",
        "time",  "could", "no",   "make", "than",  "first", "been", "who",  "now",  "made",
        "over",  "did",   "down", "only", "way",   "find",  "use",
};

/* ---- lengths ----------------------------------------------------------------------------------- */

struct error *prompt_length_read(const char *option, const char *text, double *ret_mean,
                                 double *ret_deviation) {
        char  *end;
        double mean = strtod(text, &end), deviation = 0.0;
        bool   is_right = end != text;

        if (is_right && *end == ',') {
                const char *second = end + 1;

                deviation = strtod(second, &end);
                is_right = end != second;
        }
        if (!is_right || *end != '\0' || !(mean >= 1.0 && mean <= PROMPT_SET_MAX_TOKENS) ||
            !(deviation >= 0.0 && deviation <= PROMPT_SET_MAX_TOKENS))
                return error_new(
                        ERR_INVALID_ARG,
                        "--%s: '%s' is no number of tokens from 1 to %d, or MEAN,DEVIATION", option,
                        text, PROMPT_SET_MAX_TOKENS);
        *ret_mean = mean;
        *ret_deviation = deviation;
        return NULL;
}

/* Draws from the normal distribution (Box and Muller); returns at least 1. */
static uint64_t next_length(const struct prompt_options *o, uint64_t *random) {
        double radius = sqrt(-2.0 * log(random_unit(random)));
        double length = o->tokens + o->deviation * radius * cos(2.0 * M_PI * random_unit(random));

        return length < 1.0 ? 1 : (uint64_t)MIN(length + 0.5, (double)PROMPT_SET_MAX_TOKENS);
}

/* ---- random words ------------------------------------------------------------------------------ */

static void put_words(uint64_t n, uint64_t *random, struct strbuf *out) {
        for (uint64_t i = 0; i < n && !out->overflowed; i++) {
                if (out->len > 0)
                        strbuf_putc(out, ' ');
                strbuf_puts(out, words[(random_next(random) >> 32) % ARRAY_LEN(words)]);
        }
}

/* The offsets first, since the text moves while it grows. */
static struct error *make_words(const struct prompt_options *o, struct prompt_set *s) {
        size_t      n = (size_t)MIN(MAX(o->n_distinct, 1), (uint64_t)MAX_DISTINCT);
        uint64_t    random = random_state(o->seed);
        AUTO_STRBUF prefix = { .max = PROMPT_SET_MAX_BYTES }, one = { .max = PROMPT_SET_MAX_BYTES };
        size_t      at = 0;

        put_words(o->n_prefix, &random, &prefix);
        s->items = mem_zalloc(n * sizeof(*s->items));
        for (s->n = 0; s->n < n; s->n++) {
                strbuf_clear(&one);
                strbuf_put(&one, prefix.ptr, prefix.len);
                put_words(next_length(o, &random), &random, &one);
                strbuf_put(&s->text, one.ptr, one.len);
                strbuf_spoil(&s->text, &one);
                strbuf_spoil(&s->text, &prefix);
                if (s->text.overflowed)
                        return error_new(ERR_INVALID_ARG, "the prompts have more than %zu MiB",
                                         PROMPT_SET_MAX_BYTES >> 20);
                s->items[s->n].len = one.len;
        }
        for (size_t i = 0; i < n; at += s->items[i++].len)
                s->items[i].ptr = s->text.ptr + at;
        return NULL;
}

/* ---- a file ------------------------------------------------------------------------------------ */

static struct error *read_lines(const char *path, struct prompt_set *s) {
        TRY(error_wrap(file_read(path, PROMPT_SET_MAX_BYTES, &s->text), "--prompts"));
        STR_FOR_EACH(strbuf_str(&s->text), '\n', line) {
                while (line.len > 0 && line.ptr[line.len - 1] == '\r')
                        line.len--;
                line = str_trim(line);
                if (line.len == 0)
                        continue;
                if (!str_is_utf8(line))
                        return error_new(ERR_INVALID_ARG, "--prompts: prompt %zu of %s is no UTF-8",
                                         s->n + 1, path);
                s->items = mem_grow(s->items, s->n, sizeof(*s->items));
                s->items[s->n++] = line;
        }
        return s->n > 0 ? NULL : error_new(ERR_INVALID_ARG, "--prompts: %s has no prompt", path);
}

/* ---- the set ----------------------------------------------------------------------------------- */

struct error *prompt_set_make(const struct prompt_options *o, struct prompt_set *ret) {
        struct error *err;

        *ret = (struct prompt_set){ .text.max = PROMPT_SET_MAX_BYTES };
        err = o->path != NULL ? read_lines(o->path, ret) : make_words(o, ret);
        if (err != NULL)
                prompt_set_done(ret);
        return err;
}

void prompt_set_done(struct prompt_set *s) {
        strbuf_done(&s->text);
        free(s->items);
        *s = (struct prompt_set){ 0 };
}
