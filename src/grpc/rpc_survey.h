/* SPDX-License-Identifier: BSD-3-Clause */
/* A question about all models: asked, turned into the answer's message and packed beside the loop,
 * since with thousands of models each of these takes longer than other calls should wait.
 *
 * Ownership.  The survey is in the call's arena and ends the call.
 * Threads.  Started on the call's loop; `ask` runs on another thread and touches nothing of the
 * call but its core.
 */
#pragma once

#include "codec/pb_field.h"
#include "grpc/grpc_call.h"

#include <stdint.h>

struct TRITONSERVER_Error;
struct TRITONSERVER_Message;
struct TRITONSERVER_Server;

struct rpc_question {
        const ProtobufCMessageDescriptor *type; /* of the answer */
        struct TRITONSERVER_Error *(*ask)(struct TRITONSERVER_Server         *core,
                                          const struct rpc_question *question,
                                          struct TRITONSERVER_Message      **ret);
        int64_t                           version;
        uint32_t                          flags;
};

/* The question is copied. */
void rpc_survey_start(struct grpc_call *call, const struct rpc_question *question);
