/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata, configurations and statistics of the C API as messages. */
#include "call/model_query.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"
#include "triton/core/tritonserver.h"

/* Converts the JSON and frees it. */
static struct error *map_answer(struct grpc_call *call, const ProtobufCMessageDescriptor *type,
                                struct TRITONSERVER_Message *json, ProtobufCMessage **ret) {
        struct error *err = rpc_map_answer(type, json, &call->arena, ret);

        core_error_drop(TRITONSERVER_MessageDelete(json));
        return err;
}

struct error *rpc_server_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer) {
        struct TRITONSERVER_Message *json;

        (void)request;
        TRY(core_error_take(TRITONSERVER_ServerMetadata(call->core, &json)));
        return map_answer(call, &inference__server_metadata_response__descriptor, json, ret_answer);
}

/* ---- one model ---- */

static struct error *answer_about_model(struct grpc_call *call, struct model_query *query,
                                        const char *version, const ProtobufCMessageDescriptor *type,
                                        ProtobufCMessage **ret_answer) {
        struct TRITONSERVER_Message *json;

        TRY(model_version_read(str_of(version), &query->version));
        TRY(model_query_ask(query, call->core, &json));
        return map_answer(call, type, json, ret_answer);
}

struct error *rpc_model_metadata(struct grpc_call *call, const ProtobufCMessage *request,
                                 ProtobufCMessage **ret_answer) {
        const Inference__ModelMetadataRequest *q =
                RPC_REQUEST(Inference__ModelMetadataRequest, request);
        struct model_query query = { .kind = MODEL_QUERY_METADATA, .model = q->name };

        return answer_about_model(call, &query, q->version,
                                  &inference__model_metadata_response__descriptor, ret_answer);
}

struct error *rpc_model_config(struct grpc_call *call, const ProtobufCMessage *request,
                               ProtobufCMessage **ret_answer) {
        const Inference__ModelConfigRequest *q =
                RPC_REQUEST(Inference__ModelConfigRequest, request);
        struct model_query query = { .kind = MODEL_QUERY_CONFIG, .model = q->name };

        return answer_about_model(call, &query, q->version,
                                  &inference__model_config_response__descriptor, ret_answer);
}

/* ---- all models ---- */

/* In the call's arena. */
struct bulk {
        struct bulk_query                 query;
        struct grpc_call                 *call;    /* borrowed: holds this */
        const ProtobufCMessageDescriptor *type;    /* type of the answer */
        struct arena                      scratch; /* holds the answer until it is sent */
        struct grpc_part                  answer;
};

static struct error *encode_bulk(struct bulk_query *query, struct TRITONSERVER_Message *json) {
        struct bulk      *b = CONTAINER_OF(query, struct bulk, query);
        ProtobufCMessage *message;

        TRY(rpc_map_answer(b->type, json, &b->scratch, &message));
        return rpc_map_pack(message, NULL, &b->scratch, &b->answer);
}

/* Answers the call, which frees its arena and `b` with it. */
static void on_done(struct loop_work *w) {
        struct bulk *b = CONTAINER_OF(w, struct bulk, query.work);
        struct arena scratch = b->scratch;

        if (b->query.failure != NULL)
                grpc_call_fail(b->call, b->query.failure);
        else
                grpc_call_reply(b->call, &b->answer, 1);
        arena_done(&scratch);
}

void rpc_metadata_reply_bulk(struct grpc_call *call, const struct model_query *query,
                             const ProtobufCMessageDescriptor *type) {
        struct bulk *b = ARENA_NEW(&call->arena, struct bulk);

        bulk_query_init(&b->query, call->core, query, encode_bulk, on_done);
        b->call = call;
        b->type = type;
        arena_init(&b->scratch, NULL, 0, 0);
        grpc_call_start_work_thread(call, &b->query.work);
}

/* Without a name: statistics of all models. */
struct error *rpc_model_statistics(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer) {
        const Inference__ModelStatisticsRequest *q =
                RPC_REQUEST(Inference__ModelStatisticsRequest, request);
        const ProtobufCMessageDescriptor *type = &inference__model_statistics_response__descriptor;
        struct model_query query = { .kind = MODEL_QUERY_STATISTICS, .model = q->name };

        if (q->name[0] != '\0')
                return answer_about_model(call, &query, q->version, type, ret_answer);
        TRY(model_version_read(str_of(q->version), &query.version));
        rpc_metadata_reply_bulk(call, &query, type);
        *ret_answer = NULL;
        return NULL;
}
