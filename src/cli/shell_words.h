/* SPDX-License-Identifier: BSD-3-Clause */
/* A text split into words as a shell splits it: blanks and line ends separate words; '...', "..." and
 * backslashes quote; a backslash at the end of a line joins it to the next; a word that begins with #
 * is a comment up to the end of its line. Nothing is expanded: `$X`, `$(x)`, backquotes and a leading ~
 * stay as they are, and the word says so.
 *
 * Ownership.  shell_words_done() frees the words and their texts.
 * Threads.  One owner.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

struct shell_word {
        char      *text; /* owned; without its quotes */
        struct str raw;  /* range of the split text: with them */
        bool       has_expansion;
};

struct shell_words {
        struct shell_word *items; /* owned */
        size_t             n_items;
};

/* `text` outlives the words. INVALID_ARG for a quote without its end, and for what a shell would take
 * as the end of the command or as a redirection (; & | < > and parentheses), with the number of the
 * character. */
struct error *shell_words_split(const char *text, struct shell_words *ret) NODISCARD;
void          shell_words_done(struct shell_words *words);

/* Puts a text as one word that a shell reads as this text; with quotes only where they are needed. */
void shell_word_put(const char *text, struct strbuf *out);
