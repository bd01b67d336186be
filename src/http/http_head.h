/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads as nearly every client writes them, read in one pass; and the fields known by name.
 *
 * llhttp judges what is HTTP. It goes character by character, which for a small inference costs
 * more than the model. So this reader goes first: it knows GET and POST of a path, HTTP/1.1, and
 * fields of ordinary characters of which none says anything unusual about the body or the
 * connection. Of anything else it has no opinion, and llhttp reads the head from its first byte.
 * What both take they read the same way; tests/fuzz/fuzz_http_request.c compares them.
 *
 * It earns 8 % of the server's CPU time on `tiny: run to completion` of `make bench`, and 2 700 of
 * 14 100 instructions in user space (decisions/small-requests.md).
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "http/http_message.h"

#include <stdbool.h>

/* Fills what follows a head, except limits on the body. False: the head is not complete or not
 * plain; m is as it was. */
bool http_head_read_plain(struct http_message *m, struct str bytes);

/* As before the first head. */
void http_head_forget(struct http_message *m);

/* HTTP_NAME_OTHER for names nobody has to find quickly. */
enum http_name http_head_find_name(struct str name);
