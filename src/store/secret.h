/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for keys and tokens. It is overwritten before it is freed, so that neither a core file nor a later
 * allocation contains them. store_request_done() and store_answer_done() overwrite what they free, too.
 *
 * Ownership.  The caller owns what these functions return, and frees it with secret_free().
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/strbuf.h"

char *secret_copy(const char *text); /* NULL for NULL and for an empty text */
void  secret_free(char *text);       /* NULL is fine */
/* strbuf_init() with room for `bytes`. A buffer that grows would leave a copy in freed memory. */
void secret_buf_init(struct strbuf *b, size_t bytes, size_t max);
void secret_buf_done(struct strbuf *b);

/* False for a text with a control character: in a header, a line break would begin another one. */
bool secret_is_plain(const char *text);

DEFINE_CLEANUP(secret_cleanup, char *, secret_free)
#define AUTO_SECRET CLEANUP(secret_cleanup) char *
#define AUTO_SECRET_BUF CLEANUP(secret_buf_done) struct strbuf
