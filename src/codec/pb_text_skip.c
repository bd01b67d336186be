/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text_skip.h"

#include <string.h>

void pb_skip_token(struct pb_lexer *l) {
        struct error *err = pb_lexer_next(l);

        if (err == NULL)
                return;
        error_free(err);
        l->token.kind = PB_TOKEN_END;
}

static bool is_one_of(const struct pb_lexer *l, const char *signs) {
        return l->token.kind == PB_TOKEN_SIGN && l->token.text.len == 1 &&
               *l->token.text.ptr != '\0' && strchr(signs, *l->token.text.ptr) != NULL;
}

bool pb_is_opener(const struct pb_lexer *l) {
        return is_one_of(l, "{[<");
}

bool pb_is_closer(const struct pb_lexer *l) {
        return is_one_of(l, "}]>");
}

long pb_balance_of(const struct pb_balance *b, char close) {
        switch (close) {
        case '}': return b->curly;
        case ']': return b->square;
        default: return b->angle;
        }
}

static void count_bracket(struct pb_balance *b, const struct pb_lexer *l) {
        if (!pb_is_opener(l) && !pb_is_closer(l))
                return;
        switch (*l->token.text.ptr) {
        case '{': b->curly++; break;
        case '}': b->curly--; break;
        case '[': b->square++; break;
        case ']': b->square--; break;
        case '<': b->angle++; break;
        default: b->angle--; break;
        }
}

static bool is_beyond(const struct pb_lexer *l, const struct pb_region *region) {
        return l->token.is_first && l->token.from > region->beyond &&
               l->token.place.column <= region->column && pb_begins_field(*l);
}

struct pb_balance pb_balance_count(struct str text, struct pb_patches patches,
                                   const struct pb_region *region) {
        struct pb_balance b = { 0, 0, 0 };
        struct pb_lexer   l;
        struct error     *err = pb_lexer_start_patched(&l, text, NULL, patches);

        for (;;) {
                if (err != NULL) {
                        /* After an unterminated string, continues on the next line. */
                        const char *newline =
                                l.at < l.end ? memchr(l.at, '\n', (size_t)(l.end - l.at)) : NULL;

                        l.at = newline != NULL ? newline : l.end;
                } else if (l.token.kind == PB_TOKEN_END || is_beyond(&l, region)) {
                        return b;
                } else if (l.token.from > region->from ||
                           (l.token.from == region->from && !l.token.is_patched)) {
                        count_bracket(&b, &l);
                }
                error_free(err);
                err = pb_lexer_next(&l);
        }
}

bool pb_begins_field(struct pb_lexer l) {
        if (l.token.kind != PB_TOKEN_WORD)
                return false;
        pb_skip_token(&l);
        return pb_lexer_is_sign(&l, ':') || pb_is_opener(&l);
}

void pb_skip_brackets(struct pb_lexer *l, bool may_be_open) {
        unsigned indent = l->indent;
        bool     has_fields = false;
        size_t   depth = 0;

        do {
                bool begins_line = l->token.is_first && pb_begins_field(*l);

                if (depth > 0 && may_be_open && begins_line) {
                        if (l->token.place.column <= indent) {
                                if (has_fields)
                                        return;
                                may_be_open = false;
                        }
                        has_fields = true;
                }
                if (pb_is_opener(l))
                        depth++;
                else if (pb_is_closer(l))
                        depth--;
                else if (l->token.kind == PB_TOKEN_END)
                        return;
                pb_skip_token(l);
        } while (depth > 0);
}

void pb_skip_value(struct pb_lexer *l, bool may_be_open) {
        if (pb_lexer_is_sign(l, '-'))
                pb_skip_token(l);
        if (pb_is_opener(l)) {
                pb_skip_brackets(l, may_be_open);
        } else if (l->token.kind == PB_TOKEN_STRING) {
                while (l->token.kind == PB_TOKEN_STRING)
                        pb_skip_token(l);
        } else if (l->token.kind != PB_TOKEN_END && !pb_is_closer(l) && !is_one_of(l, ",;")) {
                pb_skip_token(l);
        }
}

void pb_skip_junk(struct pb_lexer *l, unsigned line, bool is_list, bool may_be_open) {
        while (l->token.kind != PB_TOKEN_END && l->token.place.line == line && !pb_is_closer(l) &&
               !(is_list && pb_lexer_is_sign(l, ',')) && !pb_begins_field(*l)) {
                if (pb_is_opener(l))
                        pb_skip_brackets(l, may_be_open);
                else
                        pb_skip_token(l);
        }
}

bool pb_has_broken_string(struct pb_lexer l) {
        unsigned line = l.token.place.line;

        while (!l.is_broken && l.token.kind != PB_TOKEN_END && l.token.place.line == line)
                pb_skip_token(&l);
        return l.is_broken && l.token.place.line == line;
}
