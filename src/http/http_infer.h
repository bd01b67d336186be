/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v2/models/{m}[/versions/{v}]/infer: one request, one answer.
 *
 *     http_infer_post        version, model, decompression, length of the JSON part
 *       http_infer_decode    body -> struct infer_request
 *       infer_call_*         through the C API; the loop serves other requests meanwhile
 *     answer                 struct infer_response -> JSON and parts; http_call_reply
 *
 * As in the reference, errors found before the request object exists are answered as text/plain, later
 * ones as application/json.
 *
 * Ownership.  Everything of one request lives in the arena of its http_call.
 * Threads.  Handlers run on the call's loop.
 */
#pragma once

#include "base/error.h"
#include "http/http_call.h"

struct http_body_limit;
struct infer_request;

/* The handler. */
void http_infer_post(struct http_call *call);
/* The limit of the handler's bodies (http_route_table.check_body). Those whose head announces binary tensors
 * behind at most --http-max-input-size bytes of JSON have no limit here: the byte budget limits them. As in the
 * reference, JSON, raw inputs and compressed bodies have that limit. */
struct error *http_infer_check_body(const struct http_call *call, uint64_t bytes,
                                    struct http_body_limit *limit) NODISCARD;

/* For other handlers that infer. */
/* As http_call_reply_error(), and with Retry-After when the error is UNAVAILABLE. */
void http_infer_reply_error(struct http_call *http, struct error *err, const char *content_type);
/* Adds the header fields that --http-header-forward-pattern matches as parameters of the request. */
struct error *http_infer_forward_headers(struct http_call *http, struct infer_request *q) NODISCARD;
