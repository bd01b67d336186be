/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a message of a gRPC client. The first one chooses: 0, a ModelInferRequest; else a
 * request of another method.
 *
 * A ModelInferRequest is decoded by hand and by protobuf-c, and where both take it they must agree.
 * Then what was decoded is encoded as an answer, which protobuf-c must read back.
 */
#include "base/strbuf.h"
#include "expect.h"
#include "grpc/infer_decode.h"
#include "grpc/infer_encode.h"
#include "grpc/rpc_map.h"
#include "grpc_service.pb-c.h"
#include "health.pb-c.h"
#include "reflection.pb-c.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile unsigned char sink;

/* Reads every byte, so that the sanitizer sees what is out of bounds. */
static void touch(const void *bytes, size_t n) {
        unsigned char sum = 0;

        for (size_t i = 0; i < n; i++)
                sum = (unsigned char)(sum + ((const unsigned char *)bytes)[i]);
        sink = sum;
}

static void touch_text(const char *text) {
        if (text != NULL)
                touch(text, strlen(text) + 1);
}

static void touch_request(const struct infer_request *q) {
        touch_text(q->id);
        touch_text(q->sequence_name);
        for (uint32_t i = 0; i < q->n_parameters; i++) {
                touch_text(q->parameters[i].name);
                if (q->parameters[i].type == TRITONSERVER_PARAMETER_STRING)
                        touch_text(q->parameters[i].value.text);
        }
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                touch_text(q->inputs[i].name);
                touch_text(q->inputs[i].shared_memory.region);
                touch(q->inputs[i].shape, q->inputs[i].n_dims * sizeof(int64_t));
                touch(q->inputs[i].bytes.ptr, q->inputs[i].bytes.len);
        }
        for (uint32_t i = 0; i < q->n_outputs; i++) {
                touch_text(q->outputs[i].name);
                touch_text(q->outputs[i].shared_memory.region);
        }
}

/* ---- the same by protobuf-c ---- */

static void compare_input(const struct infer_input                             *in,
                          const Inference__ModelInferRequest__InferInputTensor *other) {
        EXPECT(strcmp(in->name, other->name) == 0);
        EXPECT(strcmp(in->datatype_name, other->datatype) == 0);
        EXPECT(in->n_dims == other->n_shape);
        for (uint32_t i = 0; i < in->n_dims; i++)
                EXPECT(in->shape[i] == other->shape[i]);
}

static void compare(const struct infer_wire *w, const Inference__ModelInferRequest *other) {
        const struct infer_request *q = &w->request;

        EXPECT(strcmp(w->model_name, other->model_name) == 0);
        EXPECT(strcmp(w->model_version, other->model_version) == 0);
        EXPECT(strcmp(q->id, other->id) == 0);
        EXPECT(q->n_inputs == other->n_inputs && q->n_outputs == other->n_outputs);
        EXPECT(q->n_parameters <= other->n_parameters);
        for (uint32_t i = 0; i < q->n_inputs; i++)
                compare_input(&q->inputs[i], other->inputs[i]);
        for (uint32_t i = 0; i < q->n_outputs; i++)
                EXPECT(strcmp(q->outputs[i].name, other->outputs[i]->name) == 0);
}

/* ---- and back ---- */

/* Inputs as outputs. */
static void encode(const struct infer_wire *w, struct arena *arena) {
        const struct infer_request *q = &w->request;
        struct infer_output *outputs = arena_alloc(arena, (q->n_inputs + 1) * sizeof(*outputs));
        struct infer_answer  a = { .model_name = w->model_name,
                                   .model_version = w->model_version,
                                   .id = q->id,
                                   .parameters = q->parameters,
                                   .outputs = outputs,
                                   .n_parameters = q->n_parameters,
                                   .n_outputs = q->n_inputs,
                                   .is_streamed = true };
        struct infer_answer_memory memory = { .arena = arena };
        struct infer_answer_parts  parts;
        AUTO_STRBUF                text = { 0 };

        for (uint32_t i = 0; i < q->n_inputs; i++)
                outputs[i] = (struct infer_output){ .name = q->inputs[i].name,
                                                    .datatype = q->inputs[i].datatype,
                                                    .n_dims = q->inputs[i].n_dims,
                                                    .shape = q->inputs[i].shape,
                                                    .bytes = q->inputs[i].bytes,
                                                    .holder = q->inputs[i].converted,
                                                    .form = INFER_OUTPUT_BINARY };
        EXPECT(infer_encode(&a, &memory, &parts) == NULL);
        strbuf_init(&text, 0);
        for (size_t i = 0; i < parts.n_parts; i++)
                strbuf_put(&text, parts.parts[i].ptr, parts.parts[i].len);
        infer_answer_parts_done(&parts);

        Inference__ModelStreamInferResponse *m =
                inference__model_stream_infer_response__unpack(NULL, text.len,
                                                               (const uint8_t *)strbuf_cstr(&text));

        EXPECT(m != NULL && m->infer_response->n_raw_output_contents == q->n_inputs);
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                ProtobufCBinaryData raw = m->infer_response->raw_output_contents[i];

                EXPECT(str_equal(str_range((char *)raw.data, raw.len), q->inputs[i].bytes));
        }
        inference__model_stream_infer_response__free_unpacked(m, NULL);
}

static void fuzz_infer(struct str message, struct arena *arena) {
        struct infer_source           source = { .message = message, .arena = arena };
        struct infer_wire             wire;
        struct error                 *err = infer_decode(&source, &wire);
        Inference__ModelInferRequest *other;

        if (err == NULL) {
                touch_request(&wire.request);
                other = inference__model_infer_request__unpack(NULL, message.len,
                                                               (const uint8_t *)message.ptr);
                if (other != NULL) {
                        compare(&wire, other);
                        inference__model_infer_request__free_unpacked(other, NULL);
                }
                encode(&wire, arena);
        }
        error_free(err);
        infer_wire_done(&wire);
}

static void fuzz_control(struct str message, size_t choice, struct arena *arena) {
        static const ProtobufCMessageDescriptor *const types[] = {
                &inference__log_settings_request__descriptor,
                &inference__repository_model_load_request__descriptor,
                &inference__repository_model_unload_request__descriptor,
                &inference__trace_setting_request__descriptor,
                &inference__model_metadata_request__descriptor,
                &inference__repository_index_request__descriptor,
                &inference__cuda_shared_memory_register_request__descriptor,
                &inference__server_live_request__descriptor,
                &grpc__health__v1__health_check_request__descriptor,
                &grpc__reflection__v1__server_reflection_request__descriptor,
        };
        const ProtobufCMessageDescriptor *type = types[choice % ARRAY_LEN(types)];
        ProtobufCMessage                 *request;
        struct error                     *err = rpc_map_request(type, message, arena, &request);

        if (err == NULL)
                sink = (unsigned char)protobuf_c_message_get_packed_size(request);
        error_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct arena arena;
        char        *message;

        if (size < 1)
                return 0;
        /* exactly as long as the message */
        message = malloc(size - 1);
        memcpy(message, bytes + 1, size - 1);
        arena_init(&arena, NULL, 0, 0);
        if (bytes[0] == 0)
                fuzz_infer(str_range(message, size - 1), &arena);
        else
                fuzz_control(str_range(message, size - 1), bytes[0] - 1u, &arena);
        arena_done(&arena);
        free(message);
        return 0;
}
