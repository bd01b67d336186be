/* SPDX-License-Identifier: BSD-3-Clause */
/* A response as the generate endpoints tell it: one flat JSON object.
 *
 *     {"OUTPUT0":[1,2],"id":"7","model_name":"m","model_version":"1","parameter":true,"text":"a"}
 *
 * Keys are in the order of their bytes. An output of one element is a scalar, any other a flat
 * array. Of equal keys the first counts: id, name and version, then parameters, then outputs.
 *
 * Ownership.  Borrows from the response; scratch memory is the arena's.
 * Threads.  One owner at a time.
 */
#pragma once

#include "call/infer_message.h"

#include "base/strbuf.h"

/* INVALID_ARG for an output whose type JSON cannot carry. An overflow of `out` is for the caller
 * to ask. */
struct error *http_generate_print(const struct infer_response *r, struct arena *scratch,
                                  struct strbuf *out) NODISCARD;

/* {"error":"<message>"} */
void http_generate_print_error(const char *message, struct strbuf *out);
