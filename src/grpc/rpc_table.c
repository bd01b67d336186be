/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_table.h"

#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "grpc/rpc_stream.h"
#include "grpc_service.pb-c.h"
#include "health.pb-c.h"

enum rpc {
        RPC_MODEL_INFER, /* first, so that a search from the front finds it at once */
        RPC_MODEL_STREAM_INFER,
        RPC_SERVER_LIVE,
        RPC_SERVER_READY,
        RPC_MODEL_READY,
        RPC_SERVER_METADATA,
        RPC_MODEL_METADATA,
        RPC_MODEL_CONFIG,
        RPC_MODEL_STATISTICS,
        RPC_REPOSITORY_INDEX,
        RPC_REPOSITORY_LOAD,
        RPC_REPOSITORY_UNLOAD,
        RPC_SYSTEM_SHM_STATUS,
        RPC_SYSTEM_SHM_REGISTER,
        RPC_SYSTEM_SHM_UNREGISTER,
        RPC_CUDA_SHM_STATUS,
        RPC_CUDA_SHM_REGISTER,
        RPC_CUDA_SHM_UNREGISTER,
        RPC_TRACE_SETTING,
        RPC_LOG_SETTINGS,
        RPC_HEALTH_CHECK,
        RPC_HEALTH_WATCH,
        RPC_REFLECTION_V1,
        RPC_REFLECTION_V1ALPHA,
        N_RPCS,
};

/* The request type of a control method and the function that answers it. */
struct control_row {
        const ProtobufCMessageDescriptor *request;
        rpc_answer_fn                     answer;
        size_t model_at; /* offset of its `const char *` in the request; 0 = none */
};

#define REQUEST(type) &inference__##type##_request__descriptor
#define MODEL(type, field) offsetof(Inference__##type##Request, field)
#define NO_MODEL 0

static const struct control_row control_rows[N_RPCS] = {
        [RPC_SERVER_LIVE] = { REQUEST(server_live), rpc_server_live, NO_MODEL },
        [RPC_SERVER_READY] = { REQUEST(server_ready), rpc_server_ready, NO_MODEL },
        [RPC_MODEL_READY] = { REQUEST(model_ready), rpc_model_ready, MODEL(ModelReady, name) },
        [RPC_SERVER_METADATA] = { REQUEST(server_metadata), rpc_server_metadata, NO_MODEL },
        [RPC_MODEL_METADATA] = { REQUEST(model_metadata), rpc_model_metadata,
                                 MODEL(ModelMetadata, name) },
        [RPC_MODEL_CONFIG] = { REQUEST(model_config), rpc_model_config, MODEL(ModelConfig, name) },
        [RPC_MODEL_STATISTICS] = { REQUEST(model_statistics), rpc_model_statistics,
                                   MODEL(ModelStatistics, name) },
        [RPC_REPOSITORY_INDEX] = { REQUEST(repository_index), rpc_repository_index, NO_MODEL },
        [RPC_REPOSITORY_LOAD] = { REQUEST(repository_model_load), rpc_repository_load,
                                  MODEL(RepositoryModelLoad, model_name) },
        [RPC_REPOSITORY_UNLOAD] = { REQUEST(repository_model_unload), rpc_repository_unload,
                                    MODEL(RepositoryModelUnload, model_name) },
        [RPC_SYSTEM_SHM_STATUS] = { REQUEST(system_shared_memory_status), rpc_system_shm_status,
                                    NO_MODEL },
        [RPC_SYSTEM_SHM_REGISTER] = { REQUEST(system_shared_memory_register),
                                      rpc_system_shm_register, NO_MODEL },
        [RPC_SYSTEM_SHM_UNREGISTER] = { REQUEST(system_shared_memory_unregister),
                                        rpc_system_shm_unregister, NO_MODEL },
        [RPC_CUDA_SHM_STATUS] = { REQUEST(cuda_shared_memory_status), rpc_cuda_shm_status,
                                  NO_MODEL },
        [RPC_CUDA_SHM_REGISTER] = { REQUEST(cuda_shared_memory_register), rpc_cuda_shm_register,
                                    NO_MODEL },
        [RPC_CUDA_SHM_UNREGISTER] = { REQUEST(cuda_shared_memory_unregister),
                                      rpc_cuda_shm_unregister, NO_MODEL },
        [RPC_TRACE_SETTING] = { REQUEST(trace_setting), rpc_trace_setting,
                                MODEL(TraceSetting, model_name) },
        [RPC_LOG_SETTINGS] = { REQUEST(log_settings), rpc_log_settings, NO_MODEL },
        [RPC_HEALTH_CHECK] = { &grpc__health__v1__health_check_request__descriptor,
                               rpc_health_check, NO_MODEL },
};

static void on_control(struct grpc_call *call, struct str message, struct buf *owner);

/* Does nothing: work on another thread is not cancelled and ends the call when it is done. */
static void on_control_abort(struct grpc_call *call) {
        (void)call;
}

#define INFERENCE(name) "/inference.GRPCInferenceService/" name
#define CONTROL(name, of_group)                                                                    \
        { .path = name, .group = of_group, .on_message = on_control, .on_abort = on_control_abort }

static const struct grpc_method methods[N_RPCS] = {
        [RPC_MODEL_INFER] = { .path = INFERENCE("ModelInfer"),
                              .group = ENDPOINT_INFERENCE,
                              .is_compressible = true,
                              .on_message = rpc_infer,
                              .on_abort = rpc_infer_cancel },
        [RPC_MODEL_STREAM_INFER] = { .path = INFERENCE("ModelStreamInfer"),
                                     .group = ENDPOINT_INFERENCE,
                                     .is_client_stream = true,
                                     .is_server_stream = true,
                                     .is_compressible = true,
                                     .on_open = rpc_stream_open,
                                     .on_message = rpc_stream_read,
                                     .on_half_close = rpc_stream_half_close,
                                     .on_abort = rpc_stream_abort,
                                     .is_quiet = rpc_stream_is_quiet },

        [RPC_SERVER_LIVE] = CONTROL(INFERENCE("ServerLive"), ENDPOINT_HEALTH),
        [RPC_SERVER_READY] = CONTROL(INFERENCE("ServerReady"), ENDPOINT_HEALTH),
        [RPC_MODEL_READY] = CONTROL(INFERENCE("ModelReady"), ENDPOINT_HEALTH),
        [RPC_SERVER_METADATA] = CONTROL(INFERENCE("ServerMetadata"), ENDPOINT_METADATA),
        [RPC_MODEL_METADATA] = CONTROL(INFERENCE("ModelMetadata"), ENDPOINT_METADATA),
        [RPC_MODEL_CONFIG] = CONTROL(INFERENCE("ModelConfig"), ENDPOINT_MODEL_CONFIG),
        [RPC_MODEL_STATISTICS] = CONTROL(INFERENCE("ModelStatistics"), ENDPOINT_STATISTICS),
        [RPC_REPOSITORY_INDEX] = CONTROL(INFERENCE("RepositoryIndex"), ENDPOINT_MODEL_REPOSITORY),
        [RPC_REPOSITORY_LOAD] =
                CONTROL(INFERENCE("RepositoryModelLoad"), ENDPOINT_MODEL_REPOSITORY),
        [RPC_REPOSITORY_UNLOAD] =
                CONTROL(INFERENCE("RepositoryModelUnload"), ENDPOINT_MODEL_REPOSITORY),
        [RPC_SYSTEM_SHM_STATUS] =
                CONTROL(INFERENCE("SystemSharedMemoryStatus"), ENDPOINT_SHARED_MEMORY),
        [RPC_SYSTEM_SHM_REGISTER] =
                CONTROL(INFERENCE("SystemSharedMemoryRegister"), ENDPOINT_SHARED_MEMORY),
        [RPC_SYSTEM_SHM_UNREGISTER] =
                CONTROL(INFERENCE("SystemSharedMemoryUnregister"), ENDPOINT_SHARED_MEMORY),
        [RPC_CUDA_SHM_STATUS] =
                CONTROL(INFERENCE("CudaSharedMemoryStatus"), ENDPOINT_SHARED_MEMORY),
        [RPC_CUDA_SHM_REGISTER] =
                CONTROL(INFERENCE("CudaSharedMemoryRegister"), ENDPOINT_SHARED_MEMORY),
        [RPC_CUDA_SHM_UNREGISTER] =
                CONTROL(INFERENCE("CudaSharedMemoryUnregister"), ENDPOINT_SHARED_MEMORY),
        [RPC_TRACE_SETTING] = CONTROL(INFERENCE("TraceSetting"), ENDPOINT_TRACE),
        [RPC_LOG_SETTINGS] = CONTROL(INFERENCE("LogSettings"), ENDPOINT_LOGGING),

        [RPC_HEALTH_CHECK] = CONTROL("/grpc.health.v1.Health/Check", ENDPOINT_HEALTH),
        [RPC_HEALTH_WATCH] = { .path = "/grpc.health.v1.Health/Watch",
                               .group = ENDPOINT_HEALTH,
                               .is_server_stream = true,
                               .on_message = rpc_health_watch,
                               .on_abort = rpc_health_end_watch,
                               .is_quiet = rpc_health_watch_is_quiet },
        [RPC_REFLECTION_V1] = { .path = "/grpc.reflection.v1.ServerReflection/"
                                        "ServerReflectionInfo",
                                .group = ENDPOINT_METADATA,
                                .is_client_stream = true,
                                .is_server_stream = true,
                                .on_open = rpc_reflection_open,
                                .on_message = rpc_reflection_read,
                                .on_half_close = rpc_reflection_half_close,
                                .on_abort = rpc_reflection_abort,
                                .is_quiet = rpc_reflection_is_quiet },
        [RPC_REFLECTION_V1ALPHA] = { .path = "/grpc.reflection.v1alpha.ServerReflection/"
                                             "ServerReflectionInfo",
                                     .group = ENDPOINT_METADATA,
                                     .is_client_stream = true,
                                     .is_server_stream = true,
                                     .on_open = rpc_reflection_open,
                                     .on_message = rpc_reflection_read,
                                     .on_half_close = rpc_reflection_half_close,
                                     .on_abort = rpc_reflection_abort,
                                     .is_quiet = rpc_reflection_is_quiet },
};

/* Returns the model that the request names, "" when it names none. */
static struct str model_of(const struct control_row *row, const ProtobufCMessage *request) {
        const char *name = "";

        if (row->model_at > 0)
                memcpy(&name, (const char *)request + row->model_at, sizeof(name));
        return str_of(name);
}

static void on_control(struct grpc_call *call, struct str message, struct buf *owner) {
        const struct control_row *row = &control_rows[call->method - methods];
        ProtobufCMessage         *request, *answer = NULL;
        struct error *err = rpc_map_request(row->request, message, &call->arena, &request);
        const char   *text;

        (void)owner;
        if (err == NULL) {
                enum access_verdict verdict =
                        access_check_model(&call->access, model_of(row, request), &call->arena,
                                           &text);

                if (verdict != ACCESS_GRANTED) {
                        grpc_call_finish(call, grpc_code_of_access(verdict), text);
                        return;
                }
                err = row->answer(call, request, &answer);
        }
        if (err != NULL)
                grpc_call_fail(call, err);
        else if (answer != NULL)
                rpc_map_reply(call, answer);
}

bool rpc_table_names_model(size_t row) {
        return row == RPC_MODEL_INFER || row == RPC_MODEL_STREAM_INFER ||
               control_rows[row].model_at > 0;
}

const ProtobufCMessageDescriptor *rpc_table_request(size_t row) {
        return control_rows[row].request;
}

struct grpc_method_table rpc_table(void) {
        return (struct grpc_method_table){ methods, N_RPCS };
}
