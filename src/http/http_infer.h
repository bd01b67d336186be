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
 * Threads.  Handlers run on the call's loop; struct http_infer is constant.
 */
#pragma once

#include "base/error.h"
#include "http/http_call.h"

#include <stdint.h>

struct http_infer;
struct infer_core;
struct infer_request;
struct shared_memory;
struct TRITONSERVER_Server;
struct admission;

struct http_infer_options {
        struct TRITONSERVER_Server *core;                   /* borrowed */
        struct shared_memory       *shared_memory;          /* borrowed; NULL = no regions */
        struct admission           *admission;              /* borrowed; NULL = no limits */
        const char                 *header_forward_pattern; /* NULL or "" = forward none */
};

struct error *http_infer_new(const struct http_infer_options *o, struct http_infer **ret) NODISCARD;
void          http_infer_free(struct http_infer *h); /* NULL is fine; no call in flight */

/* The handler. */
void http_infer_post(struct http_call *call);

/* For other handlers that infer. */
const struct infer_core *http_infer_core(const struct http_infer *h);
/* http_call_reply_error(); an overloaded server says as well when to come back. */
void http_infer_reply_error(struct http_call *http, struct error *err, const char *content_type);
/* The fields that travel to the backend become parameters (--http-header-forward-pattern). */
struct error *http_infer_forward_headers(struct http_call *http, struct infer_request *q) NODISCARD;
