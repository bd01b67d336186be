/* SPDX-License-Identifier: BSD-3-Clause */
/* The prompts of a load on a language model: the lines of a file, or words at random.
 *
 * Words are short English ones, of which most tokenisers make one token each, so that a length in tokens can be
 * asked for without a tokeniser. What the server counted is in the report.
 *
 *     --prefix-tokens 3 --prompt-tokens 5,1        the same prefix in each prompt
 *     "time now find" "the about two where so"
 *
 * Ownership.  The set owns the texts: prompt_set_done().
 * Threads.  Constant after it was made.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

/* Of all prompts together. */
#define PROMPT_SET_MAX_BYTES ((size_t)1 << 30)
#define PROMPT_SET_MAX_TOKENS 10000000

struct prompt_options {
        const char *path;              /* a prompt on each line; NULL: random words */
        double      tokens, deviation; /* of a prompt of random words */
        uint64_t    n_prefix;          /* words that all begin with */
        uint64_t    n_distinct;        /* prompts of random words */
        uint64_t    seed;
};

struct prompt_set {
        struct strbuf text;  /* owned: all of them */
        struct str   *items; /* owned */
        size_t        n;
};

/* INVALID_ARG when the file has no prompt, or the prompts are too long. */
struct error *prompt_set_make(const struct prompt_options *o, struct prompt_set *ret) NODISCARD;
void          prompt_set_done(struct prompt_set *s);

/* Reads "200" or "200,50"; INVALID_ARG names the option. */
struct error *prompt_length_read(const char *option, const char *text, double *ret_mean,
                                 double *ret_deviation) NODISCARD;
