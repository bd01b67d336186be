/* SPDX-License-Identifier: BSD-3-Clause */
/* A question about all models: asked, and its answer copied for the write, beside the loop, since
 * with thousands of models that takes longer than other calls should wait.
 *
 * Ownership.  The survey is in the call's arena and ends the call.
 * Threads.  Started on the call's loop; `ask` runs on another thread and touches nothing of the
 * call but its core.
 */
#pragma once

#include "http/http_call.h"

#include <stdint.h>

struct TRITONSERVER_Error;
struct TRITONSERVER_Message;
struct TRITONSERVER_Server;

struct http_question {
        struct TRITONSERVER_Error *(*ask)(struct TRITONSERVER_Server  *core,
                                          const struct http_question  *question,
                                          struct TRITONSERVER_Message **ret);
        int64_t                    version;
        uint32_t                   flags;
};

/* The question is copied. The answer is the message as JSON, or the error. */
void http_survey_start(struct http_call *call, const struct http_question *question);
