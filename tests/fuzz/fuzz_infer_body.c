/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the body of an infer request. The first two are the length of the JSON part
 * (little-endian, cut to what there is), the rest the body. What is accepted must stay within the
 * body and its own memory.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/http_infer_decode.h"

#define MAX_INPUT_BYTES (64u * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile unsigned char sink;

/* Reads every byte, so that the sanitizer sees what is out of bounds. */
static void touch(const void *bytes, size_t n) {
        unsigned char sum = 0;

        for (size_t i = 0; i < n; i++)
                sum = (unsigned char)(sum + ((const unsigned char *)bytes)[i]);
        sink = sum;
}

static void touch_request(const struct infer_request *q) {
        touch(q->id, strlen(q->id) + 1);
        touch(q->raw.ptr, q->raw.len);
        if (q->sequence_name)
                touch(q->sequence_name, strlen(q->sequence_name) + 1);
        for (uint32_t i = 0; i < q->n_parameters; i++) {
                touch(q->parameters[i].name, strlen(q->parameters[i].name) + 1);
                if (q->parameters[i].type == TRITONSERVER_PARAMETER_STRING)
                        touch(q->parameters[i].value.text, strlen(q->parameters[i].value.text) + 1);
        }
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                touch(in->name, strlen(in->name) + 1);
                touch(in->shape, in->n_dims * sizeof(*in->shape));
                touch(in->bytes.ptr, in->bytes.len);
        }
        for (uint32_t i = 0; i < q->n_outputs; i++)
                touch(q->outputs[i].name, strlen(q->outputs[i].name) + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct http_infer_source source = { .model_name = "m", .max_input_bytes = MAX_INPUT_BYTES };
        struct infer_request     q;
        struct arena             arena;
        struct error            *err;
        char                    *body;

        if (size < 2)
                return 0;
        source.json_bytes = (size_t)bytes[0] | (size_t)bytes[1] << 8;
        source.json_bytes = MIN(source.json_bytes, size - 2);
        /* exactly as long as the body */
        body = malloc(size - 2);
        memcpy(body, bytes + 2, size - 2);
        source.body = str_range(body, size - 2);
        source.arena = &arena;
        arena_init(&arena, NULL, 0, 8u << 20);

        err = http_infer_decode(&source, &q);
        if (!err) {
                touch_request(&q);
                infer_request_done(&q);
        }
        error_free(err);
        arena_done(&arena);
        free(body);
        return 0;
}
