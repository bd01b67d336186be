/* SPDX-License-Identifier: BSD-3-Clause */
/* What the last few JSON texts of infer requests decoded to. A client sends the same JSON over and
 * over, and only the tensors behind it change: such a request is looked up, not read again.
 *
 * A text is known by all its bytes, and by the length of the body. What it decodes to must depend
 * on nothing else: only requests without a fault are kept, and only those whose inputs are all
 * binary, ranges of the body one behind the other. For a request that is found these ranges are
 * laid out anew, parameters are copied (forwarded headers join them), and everything else is shared
 * with what is kept.
 *
 * A text is kept when it comes a second time, so that a client that writes an id into each request
 * does not have each of them copied; the request that makes it kept is decoded twice. The oldest
 * gives way, but not the one that was found last.
 *
 * Ownership.  A request that was found holds a reference on what it was found in, and gives it back
 * when nobody reads the request any more. The memo may have replaced it, or be gone, by then.
 * Bounded: HTTP_INFER_MEMO_SIZE texts of at most HTTP_INFER_MEMO_TEXT_BYTES, each decoded into at
 * most 19 KiB; what needs more is not kept, nor is what there is no memory for.
 * Threads.  One loop's, with all requests found in it: no lock, plain counts.
 */
#pragma once

#include "http/http_infer_decode.h"

/* More kinds of requests at the same time are rare on one loop, and all are compared to find one. */
#define HTTP_INFER_MEMO_SIZE 8
#define HTTP_INFER_MEMO_TEXT_BYTES 1024

struct http_infer_memo;
struct http_infer_kept;

struct http_infer_memo *http_infer_memo_new(void);
void                    http_infer_memo_free(struct http_infer_memo *m); /* NULL is fine */

/* http_infer_decode(), with the same result; *ret_kept is what the request was found in, NULL if
 * it was not. All sources of one memo have the same max_input_bytes. Without a memo (NULL) nothing is
 * remembered. */
struct error *http_infer_memo_decode(struct http_infer_memo         *m,
                                     const struct http_infer_source *source,
                                     struct infer_request *ret, struct http_infer_kept **ret_kept)
        NODISCARD;
void http_infer_kept_unref(struct http_infer_kept *k); /* NULL is fine */
