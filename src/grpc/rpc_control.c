/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata, configurations, statistics: what the C API says, as a message. */
#include "grpc/rpc_control.h"

#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_survey.h"
#include "grpc_service.pb-c.h"

#include "triton/core/tritonserver.h"

struct error *rpc_server_metadata(struct grpc_call *call, const ProtobufCMessage *request UNUSED,
                                  ProtobufCMessage **ret_answer) {
        struct TRITONSERVER_Message *answer = NULL;
        struct TRITONSERVER_Error   *failure = TRITONSERVER_ServerMetadata(call->core, &answer);

        return rpc_map_answer(&inference__server_metadata_response__descriptor, failure, answer,
                              &call->arena, ret_answer);
}

struct error *rpc_model_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                 ProtobufCMessage **ret_answer) {
        const Inference__ModelMetadataRequest *q =
                RPC_REQUEST(Inference__ModelMetadataRequest, request);
        struct TRITONSERVER_Message *answer = NULL;
        struct TRITONSERVER_Error   *failure;
        int64_t                      version;

        TRY(model_version_read(str_of(q->version), &version));
        failure = TRITONSERVER_ServerModelMetadata(call->core, q->name, version, &answer);
        return rpc_map_answer(&inference__model_metadata_response__descriptor, failure, answer,
                              &call->arena, ret_answer);
}

struct error *rpc_model_config(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer) {
        const Inference__ModelConfigRequest *q =
                RPC_REQUEST(Inference__ModelConfigRequest, request);
        struct TRITONSERVER_Message *answer = NULL;
        struct TRITONSERVER_Error   *failure;
        int64_t                      version;

        TRY(model_version_read(str_of(q->version), &version));
        failure = TRITONSERVER_ServerModelConfig(call->core, q->name, version, 1, &answer);
        return rpc_map_answer(&inference__model_config_response__descriptor, failure, answer,
                              &call->arena, ret_answer);
}

static struct TRITONSERVER_Error *ask_all_statistics(struct TRITONSERVER_Server  *core,
                                                     const struct rpc_question   *question,
                                                     struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelStatistics(core, "", question->version, ret);
}

/* Without a name: all models. */
struct error *rpc_model_statistics(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer) {
        const Inference__ModelStatisticsRequest *q =
                RPC_REQUEST(Inference__ModelStatisticsRequest, request);
        struct rpc_question          question = {
                .type = &inference__model_statistics_response__descriptor,
                .ask = ask_all_statistics
        };
        struct TRITONSERVER_Message *answer = NULL;
        struct TRITONSERVER_Error   *failure;

        TRY(model_version_read(str_of(q->version), &question.version));
        if (q->name[0] == '\0') {
                rpc_survey_start(call, &question);
                *ret_answer = NULL;
                return NULL;
        }
        failure = TRITONSERVER_ServerModelStatistics(call->core, q->name, question.version,
                                                     &answer);
        return rpc_map_answer(question.type, failure, answer, &call->arena, ret_answer);
}
