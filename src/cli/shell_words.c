/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/shell_words.h"

#include "base/mem.h"

#include <ctype.h>
#include <string.h>

struct splitter {
        const char    *begin, *at; /* borrowed */
        struct strbuf *word;       /* borrowed */
        bool           has_expansion;
};

static struct error *refuse_words(const struct splitter *s, const char *at, const char *what) {
        return error_new(ERR_INVALID_ARG, "%s at character %zu", what, (size_t)(at - s->begin) + 1);
}

/* Whether a shell would replace the text at the dollar sign. */
static bool is_variable(const char *at) {
        return at[0] == '$' && (isalnum((unsigned char)at[1]) || strchr("_{(*@#?!$-", at[1])) &&
               at[1] != '\0';
}

/* Up to and with the closing quote. */
static struct error *take_single(struct splitter *s) {
        const char *end = strchr(s->at + 1, '\'');

        if (end == NULL)
                return refuse_words(s, s->at, "a quote ' without its end");
        strbuf_put(s->word, s->at + 1, (size_t)(end - s->at - 1));
        s->at = end + 1;
        return NULL;
}

/* A backslash outside of quotes: the next character, or nothing at the end of a line. */
static struct error *take_escaped(struct splitter *s) {
        if (s->at[1] == '\0')
                return refuse_words(s, s->at, "a backslash without the character after it");
        if (s->at[1] != '\n')
                strbuf_putc(s->word, s->at[1]);
        s->at += 2;
        return NULL;
}

/* Within double quotes a backslash quotes these alone, and else stands for itself. */
static bool is_quotable(char c) {
        return c != '\0' && strchr("$`\"\\\n", c) != NULL;
}

static void take_plain(struct splitter *s) {
        s->has_expansion = s->has_expansion || *s->at == '`' || is_variable(s->at);
        strbuf_putc(s->word, *s->at++);
}

static struct error *take_double(struct splitter *s) {
        const char *opening = s->at++;

        while (*s->at != '"') {
                if (*s->at == '\0')
                        return refuse_words(s, opening, "a quote \" without its end");
                if (*s->at == '\\' && is_quotable(s->at[1]))
                        TRY(take_escaped(s));
                else
                        take_plain(s);
        }
        s->at++;
        return NULL;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One character, or one quoted part, of a word. */
static struct error *take_part(struct splitter *s) {
        char operator_text[] = "'?', which a shell would interpret,";

        switch (*s->at) {
        case '\'': return take_single(s);
        case '"': return take_double(s);
        case '\\': return take_escaped(s);
        case ';':
        case '&':
        case '|':
        case '<':
        case '>':
        case '(':
        case ')': operator_text[1] = *s->at; return refuse_words(s, s->at, operator_text);
        case '$':
                /* $(...) ends at a parenthesis, which stands for no operator there. */
                if (s->at[1] == '(')
                        return refuse_words(s, s->at, "'$(', which a shell would replace,");
                take_plain(s);
                return NULL;
        default: take_plain(s); return NULL;
        }
}

static void add_word(struct shell_words *words, const struct splitter *s, const char *first) {
        struct shell_word *w;

        words->items = mem_realloc(words->items, (words->n_items + 1) * sizeof(*words->items));
        w = &words->items[words->n_items++];
        *w = (struct shell_word){ .text = mem_strdup(strbuf_cstr(s->word)),
                                  .raw = str_range(first, (size_t)(s->at - first)),
                                  .has_expansion = s->has_expansion };
}

static struct error *take_word(struct splitter *s, struct shell_words *words) {
        const char *first = s->at;

        strbuf_clear(s->word);
        s->has_expansion = *s->at == '~';
        while (*s->at != '\0' && !is_blank(*s->at))
                TRY(take_part(s));
        TRY(strbuf_check(s->word, "a word of a command line"));
        add_word(words, s, first);
        return NULL;
}

/* Blanks, comments, and line ends that are joined. False at the end of the text. */
static bool skip_to_word(struct splitter *s) {
        for (;;) {
                if (is_blank(*s->at))
                        s->at++;
                else if (s->at[0] == '\\' && s->at[1] == '\n')
                        s->at += 2;
                else if (*s->at == '#')
                        s->at += strcspn(s->at, "\n");
                else
                        return *s->at != '\0';
        }
}

struct error *shell_words_split(const char *text, struct shell_words *ret) {
        AUTO_STRBUF     word = { 0 };
        struct splitter s = { .begin = text, .at = text, .word = &word };
        struct error   *err = NULL;

        *ret = (struct shell_words){ 0 };
        while (err == NULL && skip_to_word(&s))
                err = take_word(&s, ret);
        if (err != NULL)
                shell_words_done(ret);
        return err;
}

void shell_words_done(struct shell_words *words) {
        for (size_t i = 0; i < words->n_items; i++)
                free(words->items[i].text);
        free(words->items);
        *words = (struct shell_words){ 0 };
}

void shell_word_put(const char *text, struct strbuf *out) {
        size_t n_plain = 0;

        while (text[n_plain] != '\0' && (isalnum((unsigned char)text[n_plain]) ||
                                         strchr("_-+=./:,@%", text[n_plain]) != NULL))
                n_plain++;
        if (n_plain > 0 && text[n_plain] == '\0') {
                strbuf_puts(out, text);
                return;
        }
        strbuf_putc(out, '\'');
        for (; *text != '\0'; text++)
                if (*text == '\'')
                        strbuf_puts(out, "'\\''");
                else
                        strbuf_putc(out, *text);
        strbuf_putc(out, '\'');
}
