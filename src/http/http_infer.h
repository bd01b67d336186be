/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v2/models/{m}[/versions/{v}]/infer: one request, one answer.
 *
 *     http_infer_post        version, model, decompression, length of the JSON part
 *       http_infer_decode    body -> struct infer_request
 *       infer_call_*         through the C API; the loop is free meanwhile
 *     answer                 struct infer_response -> JSON and parts; http_call_reply
 *
 * Faults found before the request object exists are answered as text/plain, later ones as
 * application/json, as the reference does.
 *
 * Ownership.  Everything of one request lives in the arena of its http_call.
 * Threads.  Handlers run on the call's loop.
 */
#pragma once

#include "base/error.h"
#include "http/http_call.h"

struct infer_request;

/* The handler. */
void http_infer_post(struct http_call *call);

/* For other handlers that infer. */
/* http_call_reply_error(); an overloaded server says as well when to come back. */
void http_infer_reply_error(struct http_call *http, struct error *err, const char *content_type);
/* The fields that travel to the backend become parameters (--http-header-forward-pattern). */
struct error *http_infer_forward_headers(struct http_call *http, struct infer_request *q) NODISCARD;
