/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_table.h"

#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "grpc/rpc_stream.h"
#include "grpc_service.pb-c.h"
#include "health.pb-c.h"

#define MODEL(type, field) offsetof(Inference__##type##Request, field)
#define NO_MODEL 0

/* The control methods of the inference service, which have one answer: the name, the request's type and the
 * function that answers it; the group; the place of the model's name in the request. */
/* clang-format off */
#define CONTROL_METHODS(ROW)                                                                       \
        ROW(ServerLive, server_live, rpc_server_live, ENDPOINT_HEALTH, NO_MODEL),                  \
        ROW(ServerReady, server_ready, rpc_server_ready, ENDPOINT_HEALTH, NO_MODEL),               \
        ROW(ModelReady, model_ready, rpc_model_ready, ENDPOINT_HEALTH, MODEL(ModelReady, name)),   \
        ROW(ServerMetadata, server_metadata, rpc_server_metadata, ENDPOINT_METADATA, NO_MODEL),    \
        ROW(ModelMetadata, model_metadata, rpc_model_metadata, ENDPOINT_METADATA,                  \
            MODEL(ModelMetadata, name)),                                                           \
        ROW(ModelConfig, model_config, rpc_model_config, ENDPOINT_MODEL_CONFIG,                    \
            MODEL(ModelConfig, name)),                                                             \
        ROW(ModelStatistics, model_statistics, rpc_model_statistics, ENDPOINT_STATISTICS,          \
            MODEL(ModelStatistics, name)),                                                         \
        ROW(RepositoryIndex, repository_index, rpc_repository_index, ENDPOINT_MODEL_REPOSITORY,    \
            NO_MODEL),                                                                             \
        ROW(RepositoryModelLoad, repository_model_load, rpc_repository_load,                       \
            ENDPOINT_MODEL_REPOSITORY, MODEL(RepositoryModelLoad, model_name)),                    \
        ROW(RepositoryModelUnload, repository_model_unload, rpc_repository_unload,                 \
            ENDPOINT_MODEL_REPOSITORY, MODEL(RepositoryModelUnload, model_name)),                  \
        ROW(SystemSharedMemoryStatus, system_shared_memory_status, rpc_system_shm_status,          \
            ENDPOINT_SHARED_MEMORY, NO_MODEL),                                                     \
        ROW(SystemSharedMemoryRegister, system_shared_memory_register, rpc_system_shm_register,    \
            ENDPOINT_SHARED_MEMORY, NO_MODEL),                                                     \
        ROW(SystemSharedMemoryUnregister, system_shared_memory_unregister,                         \
            rpc_system_shm_unregister, ENDPOINT_SHARED_MEMORY, NO_MODEL),                          \
        ROW(CudaSharedMemoryStatus, cuda_shared_memory_status, rpc_cuda_shm_status,                \
            ENDPOINT_SHARED_MEMORY, NO_MODEL),                                                     \
        ROW(CudaSharedMemoryRegister, cuda_shared_memory_register, rpc_cuda_shm_register,          \
            ENDPOINT_SHARED_MEMORY, NO_MODEL),                                                     \
        ROW(CudaSharedMemoryUnregister, cuda_shared_memory_unregister, rpc_cuda_shm_unregister,    \
            ENDPOINT_SHARED_MEMORY, NO_MODEL),                                                     \
        ROW(TraceSetting, trace_setting, rpc_trace_setting, ENDPOINT_TRACE, MODEL(TraceSetting,    \
            model_name)),                                                                          \
        ROW(LogSettings, log_settings, rpc_log_settings, ENDPOINT_LOGGING, NO_MODEL)
/* clang-format on */

#define CONTROL_ID(name, request, answer, group, model_at) RPC_##request

enum rpc {
        RPC_MODEL_INFER, /* first, so that a search from the front finds it at once */
        RPC_MODEL_STREAM_INFER,
        CONTROL_METHODS(CONTROL_ID),
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

#define CONTROL_ROW(name, request, answer, group, model_at)                                        \
        [RPC_##request] = { &inference__##request##_request__descriptor, answer, model_at }

static const struct control_row control_rows[N_RPCS] = {
        CONTROL_METHODS(CONTROL_ROW),
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
#define CONTROL_METHOD(name, request, answer, group, model_at)                                     \
        [RPC_##request] = CONTROL(INFERENCE(#name), group)
#define REFLECTION(version)                                                                        \
        {                                                                                          \
                .path = "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo",      \
                .group = ENDPOINT_METADATA, .is_client_stream = true, .is_server_stream = true,    \
                .on_open = rpc_reflection_open, .on_message = rpc_reflection_read,                 \
                .on_half_close = rpc_reflection_half_close, .on_abort = rpc_reflection_abort,      \
                .is_quiet = rpc_reflection_is_quiet                                                \
        }

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

        CONTROL_METHODS(CONTROL_METHOD),
        [RPC_HEALTH_CHECK] = CONTROL("/grpc.health.v1.Health/Check", ENDPOINT_HEALTH),
        [RPC_HEALTH_WATCH] = { .path = "/grpc.health.v1.Health/Watch",
                               .group = ENDPOINT_HEALTH,
                               .is_server_stream = true,
                               .on_message = rpc_health_watch,
                               .on_abort = rpc_health_end_watch,
                               .is_quiet = rpc_health_watch_is_quiet },
        [RPC_REFLECTION_V1] = REFLECTION("v1"),
        [RPC_REFLECTION_V1ALPHA] = REFLECTION("v1alpha"),
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
