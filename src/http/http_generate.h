/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v2/models/{m}[/versions/{v}]/generate and generate_stream ("Triton, generate extension"):
 * inference in JSON without shapes and data types, for language models and the like.
 *
 *     generate           one JSON object, sent after the inference has ended
 *     generate_stream    server-sent events, one for each response when it arrives:
 *                        data: {"model_name":...}\n\n
 *
 * Both serve decoupled models as well, but generate expects exactly one response. The first response
 * decides the status. An error after it is sent as an event {"error":"..."}; a final response without
 * contents yields no event. An error before the model runs is answered as a plain JSON error.
 *
 * A client that closes the connection cancels its inference. A stream keeps each response until the
 * socket has taken its text, and the backend of a decoupled model waits while too many are kept
 * (infer_call.h), so it is no faster than its reader. The connection of a client that reads nothing for
 * `idle_time_ns` is closed. generate keeps only the first response, however many arrive.
 *
 * Ownership.  Everything of one request lives in the arena of its http_call, except the text.
 * Threads.  The call's loop.
 */
#pragma once

#include "http/http_call.h"

void http_generate_post(struct http_call *call);
void http_generate_stream_post(struct http_call *call);
