/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and ends the trace of an HTTP request.
 *
 * Threads.  The call's loop.
 */
#pragma once

#include "http/http_call.h"

#include <stdbool.h>

/* Returns the record for infer_call_start(), NULL when this request is not traced. Sets the call's on_sent,
 * which ends the record after the answer is written. */
struct trace_record *http_trace_start(struct http_call *call, const char *model);
/* Returns the header `traceparent` of the answer, false when it has none. The value is in the call's
 * arena. */
bool http_trace_answer_header(struct http_call *call, struct http_header *ret);
