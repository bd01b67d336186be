/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/grpc_message.h"

#include "base/mem.h"
#include "codec/json_find.h"
#include "codec/pb_json.h"
#include "grpc_service.pb-c.h"
#include "load/wire.h"

static const struct {
        const char                       *method;
        const ProtobufCMessageDescriptor *answer;
} questions[] = {
        [CONTROL_METADATA] = { "ModelMetadata", &inference__model_metadata_response__descriptor },
        [CONTROL_CONFIG] = { "ModelConfig", &inference__model_config_response__descriptor },
        [CONTROL_STATISTICS] = { "ModelStatistics",
                                 &inference__model_statistics_response__descriptor },
        [CONTROL_REGISTER] = { "SystemSharedMemoryRegister",
                               &inference__system_shared_memory_register_response__descriptor },
        [CONTROL_UNREGISTER] = { "SystemSharedMemoryUnregister",
                                 &inference__system_shared_memory_unregister_response__descriptor },
        [CONTROL_REGISTER_CUDA] = { "CudaSharedMemoryRegister",
                                    &inference__cuda_shared_memory_register_response__descriptor },
        [CONTROL_UNREGISTER_CUDA] = { "CudaSharedMemoryUnregister",
                                      &inference__cuda_shared_memory_unregister_response__descriptor },
        [CONTROL_LOAD] = { "RepositoryModelLoad",
                           &inference__repository_model_load_response__descriptor },
};

/* The fields after the name of the region. */
static void put_region(enum control_question q, const struct control_subject *s,
                       struct strbuf *out) {
        AUTO_CHARS key = mem_printf("/%s", s->region);

        if (q == CONTROL_REGISTER)
                wire_put_bytes_field(out, 2, str_of(key));
        if (q == CONTROL_REGISTER_CUDA) {
                wire_put_bytes_field(out, 2, s->handle);
                wire_put_number_field(out, 3, (uint64_t)s->device);
        }
        if (q == CONTROL_REGISTER || q == CONTROL_REGISTER_CUDA)
                wire_put_number_field(out, 4, s->region_bytes);
}

struct error *grpc_message_make(const struct target *t, enum control_question q,
                                const struct control_subject *s, struct strbuf *ret_head,
                                struct strbuf *ret_message) {
        const char *name = s->region != NULL ? s->region : s->model;

        wire_put_grpc_head(t, questions[q].method, ret_head);
        if (q == CONTROL_LOAD) { /* its first field is the repository */
                wire_put_bytes_field(ret_message, 2, str_of(name));
                wire_put_text_parameter(ret_message, 3, "config", s->config);
                return strbuf_check(ret_message, "a question");
        }
        if (name != NULL)
                wire_put_bytes_field(ret_message, 1, str_of(name));
        if (s->region != NULL)
                put_region(q, s, ret_message);
        else if (s->version != NULL)
                wire_put_bytes_field(ret_message, 2, str_of(s->version));
        return strbuf_check(ret_message, "a question");
}

static bool as_number(const ProtobufCMessageDescriptor *type,
                      const ProtobufCFieldDescriptor   *field) {
        (void)type;
        (void)field;
        return true;
}

struct error *grpc_message_print(enum control_question q, struct str message, struct strbuf *ret) {
        struct pb_json_options options = { .int64_as_number = as_number };
        ProtobufCMessage      *m = protobuf_c_message_unpack(questions[q].answer, NULL, message.len,
                                                             (const uint8_t *)message.ptr);
        AUTO_STRBUF            text = { 0 };
        struct str             json;

        if (m == NULL)
                return error_new(ERR_UNAVAILABLE, "the answer of %s cannot be decoded",
                                 questions[q].method);
        pb_json_print(m, &options, &text);
        protobuf_c_message_free_unpacked(m, NULL);
        json = strbuf_str(&text);
        if (q == CONTROL_CONFIG) /* HTTP answers with the configuration alone */
                json = json_find(json, "config");
        strbuf_put(ret, json.ptr, json.len);
        return strbuf_check(ret, "an answer");
}
