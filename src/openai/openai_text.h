/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that comes in pieces: a character of UTF-8 that is split over two pieces is held back until it is
 * whole, so that no client sees a part of one.
 *
 * Ownership.  The held bytes are inside the struct; results borrow from the arguments.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stddef.h>

struct openai_hold {
        char    bytes[3]; /* the longest incomplete character */
        uint8_t n;
};

/* Returns how many bytes at the end of `text` are the beginning of a character that may still come. */
size_t openai_text_unfinished(struct str text);
/* Returns the number of characters, as offsets of log-probabilities count them. */
size_t openai_text_characters(struct str text);

/* Returns the held bytes and the next piece, without what has to be held back now. Uses `joined` only when
 * there were held bytes. At the end of a text nothing is held back. */
struct str openai_hold_pass(struct openai_hold *h, struct str piece, bool is_end,
                            struct strbuf *joined);

/* The elements of a BYTES tensor, in turn. */
struct openai_elements {
        struct str left;
};

/* Returns false after the last one. */
bool openai_elements_next(struct openai_elements *e, struct str *ret);
