/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast reader of plain request heads, which nearly every client sends, and the table of known names.
 *
 * llhttp decides what is valid HTTP, but it works character by character, which for a small inference
 * costs more than the model. So this reader tries first, in one pass. It accepts GET and POST of a path,
 * HTTP/1.1, and fields of ordinary characters that declare nothing unusual about the body or the
 * connection. If it does not accept a head, llhttp parses that head from its first byte. Both give the
 * same result for a plain head; tests/fuzz/fuzz_http_request.c compares them.
 *
 * It saves 8 % of the server's CPU time on `tiny: run to completion` of `make bench`, and 2 700 of
 * 14 100 instructions in user space (decisions/small-requests.md).
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"
#include "http/http_message.h"

#include <stdbool.h>

/* Fills the fields of `m` that a head sets, without checking the limit of the body. Returns false and
 * leaves `m` as it was when the head is incomplete or not plain. */
bool http_head_read_plain(struct http_message *m, struct str bytes);

/* Resets `m` to its state before the first head. */
void http_head_forget(struct http_message *m);

/* HTTP_NAME_OTHER for names that are not in enum http_name. */
enum http_name http_head_find_name(struct str name);

/* True for the value of a Host field that names one host, with or without a port (RFC 9112, 3.2). A comma
 * is refused although a name may have one: it joins two fields to one. */
bool http_head_is_host(struct str value);
