/* SPDX-License-Identifier: BSD-3-Clause */
/* Look-ahead in a text of the protobuf text format that may have mistakes.
 *
 * The lexer is a value: a copy of it reads ahead, and stops at the end of the skipped text. An
 * unterminated string counts as the end of the text.
 */
#pragma once

#include "codec/pb_text_lexer.h"

/* Opening minus closing brackets: above 0, closing brackets are missing. */
struct pb_balance {
        long curly, square, angle;
};

/* A region of a text: from a token to the first line after `beyond` that begins with a field not
 * indented further than `column`. */
struct pb_region {
        const char *from, *beyond;
        unsigned    column; /* 0: to the end of the text */
};

void pb_skip_token(struct pb_lexer *l);

/* Balance of the kind of bracket that `close` ends: '}', ']' or '>'. */
long              pb_balance_of(const struct pb_balance *b, char close);
struct pb_balance pb_balance_count(struct str text, struct pb_patches patches,
                                   const struct pb_region *region);

bool pb_is_opener(const struct pb_lexer *l);
bool pb_is_closer(const struct pb_lexer *l);
/* A word with a ':' or a bracket after it. */
bool pb_begins_field(struct pb_lexer l);

/* Moves from an opening bracket to after the one that closes it; the kinds of brackets may differ.
 * With `may_be_open` the closing one may be missing: then a field that is not indented further than
 * the line of the bracket ends the region too, unless all fields within are so. */
void pb_skip_brackets(struct pb_lexer *l, bool may_be_open);

/* Skips a scalar, a message or a list; skips nothing where a value is missing. */
void pb_skip_value(struct pb_lexer *l, bool may_be_open);

/* Skips the rest of the line, up to a field or a closing bracket; within a list also up to a ','. */
void pb_skip_junk(struct pb_lexer *l, unsigned line, bool is_list, bool may_be_open);

/* True when an unterminated string follows on the line of the next token. */
bool pb_has_broken_string(struct pb_lexer l);
