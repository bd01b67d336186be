/* SPDX-License-Identifier: BSD-3-Clause */
/* A lexer of the protobuf text format with one token of look-ahead: words, numbers, strings and
 * signs.
 *
 * The lexer holds the next token; pb_lexer_next() moves on. Blanks and `#` comments separate
 * tokens. A string token is the text with its quotes; its escapes are resolved only when the string
 * is read as a value. Errors are "file:line:column: ...".
 *
 * The lexer is a value: a copy of it reads ahead.
 *
 * Ownership.  The text is borrowed; tokens are ranges of it.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

enum pb_token_kind {
        PB_TOKEN_END,    /* end of the text; `text` is empty */
        PB_TOKEN_WORD,   /* letters, digits and _, not beginning with a digit */
        PB_TOKEN_NUMBER, /* begins with a digit, or with a dot and a digit; not yet checked */
        PB_TOKEN_STRING, /* with its quotes */
        PB_TOKEN_SIGN,   /* one byte of anything else */
};

struct pb_place {
        unsigned line;   /* from 1 */
        unsigned column; /* from 1, in characters, as editors show it */
};

struct pb_token {
        enum pb_token_kind kind;
        struct str         text; /* borrowed */
        struct pb_place    place;
        const char        *from;     /* borrowed: its place in the text */
        bool               is_first; /* first token of its line */
};

struct pb_lexer {
        struct pb_token token;        /* the next token */
        const char     *at;           /* borrowed: after the token */
        const char     *end;          /* borrowed */
        const char     *file;         /* borrowed, for errors; may be NULL */
        const char     *counted;      /* borrowed: position up to which columns were counted */
        unsigned        line, column; /* place of `counted` */

        unsigned indent;      /* column of the first token of the line */
        unsigned indent_line; /* the line that `indent` belongs to */
        bool     is_broken;   /* stopped at an unterminated string: `token` */
        unsigned broken_line; /* the last line with such a string; 0: none */
};

/* Reads the first token. */
struct error *pb_lexer_start(struct pb_lexer *l, struct str text, const char *file) NODISCARD;
struct error *pb_lexer_next(struct pb_lexer *l) NODISCARD;
/* As pb_lexer_next(), in a text with mistakes: skips the rest of a line after an unterminated string. */
void pb_lexer_skip(struct pb_lexer *l);

bool pb_lexer_is_opener(const struct pb_lexer *l); /* { [ < */
bool pb_lexer_is_closer(const struct pb_lexer *l); /* } ] > */
bool pb_lexer_is_sign(const struct pb_lexer *l, char sign);
/* Consumes the sign if it is next; *ret_found is set to whether it was. */
struct error *pb_lexer_accept(struct pb_lexer *l, char sign, bool *ret_found) NODISCARD;

/* Appends the value of the string token and of all strings that follow directly. */
struct error *pb_lexer_read_string(struct pb_lexer *l, struct strbuf *out) NODISCARD;

/* Prepends "file:line:column: " to the text of an error; takes `err`. */
struct error *pb_lexer_locate(const struct pb_lexer *l, struct pb_place place, struct error *err);
/* "expected <what>, got <the next token>", with the token's place. */
struct error *pb_lexer_expected(const struct pb_lexer *l, const char *format, ...)
        PRINTF_LIKE(2, 3);
