/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads that came before, and what was read of them.
 *
 * A client that keeps its connection sends the same head again and again, and so do the others that
 * ask for the same. A head that is byte for byte one of the last few is compared and not read. Those
 * who send another head each time do not pay for it: after a row of failures only some are looked
 * for.
 *
 * Not for servers that ask for headers or keys. How long a comparison takes tells how much was
 * equal, and what others know must not be found out that way.
 *
 * Ownership.  Plain; zeros are an empty one. It copies what it keeps.
 * Threads.  One owner at a time: a loop's, with one set of limits.
 */
#pragma once

#include "base/str.h"
#include "http/http_message.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEAD_MEMO_HEADS 4
/* Longer heads, and such of more fields, are read each time. */
#define HTTP_HEAD_MEMO_BYTES 384
#define HTTP_HEAD_MEMO_FIELDS 12

struct http_known_head {
        size_t            n_bytes; /* 0 = none */
        char              bytes[HTTP_HEAD_MEMO_BYTES];
        char              head[HTTP_MESSAGE_HEAD_BYTES]; /* of the message */
        struct http_field fields[HTTP_HEAD_MEMO_FIELDS];
};

struct http_head_memo {
        unsigned               n_misses; /* since the last success */
        unsigned               next;     /* to be replaced */
        struct http_known_head heads[HTTP_HEAD_MEMO_HEADS];
};

/* True when `bytes` begin with a head that is known: m is as after http_message_parse_head(), which
 * said DONE. Else nothing has changed. */
bool http_head_memo_find(struct http_head_memo *memo, struct http_message *m, struct str bytes);
/* `bytes` begin with the head that m has just read, and for which was looked without success. */
void http_head_memo_keep(struct http_head_memo *memo, const struct http_message *m,
                         struct str bytes);
