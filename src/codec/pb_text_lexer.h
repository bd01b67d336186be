/* SPDX-License-Identifier: BSD-3-Clause */
/* Words, numbers, strings and signs of the protobuf text format, one ahead.
 *
 * The lexer holds the token that comes next; pb_lexer_next() moves on. Blanks and `#` comments
 * lie between tokens. A string token is the text with its quotes; escapes are resolved when the
 * string is read, as only then it is known to be one. Errors are "file:line:column: ...".
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
        PB_TOKEN_END,    /* of the text; `text` is empty */
        PB_TOKEN_WORD,   /* letters, digits and _, not beginning with a digit */
        PB_TOKEN_NUMBER, /* begins with a digit, or with a dot and a digit; not yet checked */
        PB_TOKEN_STRING, /* with its quotes */
        PB_TOKEN_SIGN,   /* one byte of anything else */
};

struct pb_place {
        unsigned line;   /* from 1 */
        unsigned column; /* from 1, in characters: what an editor shows */
};

struct pb_token {
        enum pb_token_kind kind;
        struct str         text; /* borrowed */
        struct pb_place    place;
};

struct pb_lexer {
        struct pb_token token;      /* the next one */
        const char     *at;         /* borrowed: behind the token */
        const char     *end;        /* borrowed */
        const char     *file;       /* borrowed, for errors; may be NULL */
        const char     *counted;    /* borrowed: up to here columns were counted */
        unsigned        line, column; /* of what is there */
};

/* Reads the first token. */
struct error *pb_lexer_start(struct pb_lexer *l, struct str text, const char *file) NODISCARD;
struct error *pb_lexer_next(struct pb_lexer *l) NODISCARD;

bool pb_lexer_is_sign(const struct pb_lexer *l, char sign);
/* Moves over the sign if it is next; *ret_found tells. */
struct error *pb_lexer_accept(struct pb_lexer *l, char sign, bool *ret_found) NODISCARD;

/* Appends the value of the string token and of all strings that follow directly. */
struct error *pb_lexer_read_string(struct pb_lexer *l, struct strbuf *out) NODISCARD;

/* "file:line:column: " before the text of an error; takes `err`. */
struct error *pb_lexer_locate(const struct pb_lexer *l, struct pb_place place, struct error *err);
/* "expected <what>, got <the next token>", located at it. */
struct error *pb_lexer_expected(const struct pb_lexer *l, const char *format, ...)
        PRINTF_LIKE(2, 3);
