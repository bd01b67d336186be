/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v2/models/{m}[/versions/{v}]/generate and generate_stream ("Triton, generate extension"):
 * inference without shapes and data types in the text, for models that a client talks with.
 *
 *     generate           one JSON object, sent when the inference is over
 *     generate_stream    server-sent events, one for each response as it comes:
 *                        data: {"model_name":...}\n\n
 *
 * Decoupled models may be asked through both, but of generate exactly one response is expected. The
 * first response decides the status; a fault after it is an event {"error":"..."}, and a final
 * response without contents is none. What is found before the model runs is a plain JSON error.
 *
 * A client that leaves cancels its inference. A stream keeps each response until its text is with
 * the socket, and the backend of a decoupled model waits while too many are kept (infer_call.h): it
 * goes at the pace of its reader. One that reads nothing for `idle_time_ns` counts as gone. Of
 * generate only the first response is kept, however many come.
 *
 * Ownership.  Everything of one request lives in the arena of its http_call, but for the text.
 * Threads.  The call's loop.
 */
#pragma once

#include "http/http_call.h"

void http_generate_post(struct http_call *call);
void http_generate_stream_post(struct http_call *call);
