/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the body of a generate request, for a model that has an input of each kind. What is
 * accepted must stay within the body and its own memory, and each tensor must have the bytes that
 * its shape says.
 */
#include "base/compiler.h"
#include "core_api/datatype.h"
#include "http/http_generate_json.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static struct error *find(void *owner, const char *name, struct http_generate_input *ret) {
        static const struct {
                const char           *name;
                TRITONSERVER_DataType datatype;
                uint64_t              n_dims;
                int64_t               dims[3];
                bool                  is_batched;
        } inputs[] = {
                { "text", TRITONSERVER_TYPE_BYTES, 1, { 1 }, true },
                { "texts", TRITONSERVER_TYPE_BYTES, 2, { -1, 2 }, false },
                { "i", TRITONSERVER_TYPE_INT32, 3, { 2, -1, 3 }, true },
                { "u", TRITONSERVER_TYPE_UINT8, 1, { -1 }, false },
                { "f", TRITONSERVER_TYPE_FP32, 0, { 0 }, false },
                { "d", TRITONSERVER_TYPE_FP64, 2, { -1, -1 }, false },
                { "b", TRITONSERVER_TYPE_BOOL, 1, { -1 }, false },
                { "h", TRITONSERVER_TYPE_FP16, 1, { -1 }, false },
                { "id", TRITONSERVER_TYPE_BYTES, 1, { -1 }, false },
        };

        (void)owner;
        *ret = (struct http_generate_input){ .datatype = TRITONSERVER_TYPE_INVALID };
        for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
                if (strcmp(name, inputs[i].name) == 0)
                        *ret = (struct http_generate_input){ inputs[i].datatype, inputs[i].dims,
                                                             inputs[i].n_dims,
                                                             inputs[i].is_batched };
        return NULL;
}

static void touch_input(const struct infer_input *in) {
        size_t n = 1, element_bytes = datatype_bytes(in->datatype);

        touch(in->name, strlen(in->name) + 1);
        touch(in->bytes.ptr, in->bytes.len);
        for (uint32_t i = 0; i < in->n_dims; i++) {
                assert(in->shape[i] >= 0);
                n *= (size_t)in->shape[i];
        }
        if (element_bytes > 0)
                assert(in->bytes.len == n * element_bytes);
        else
                assert(in->bytes.len >= n * sizeof(uint32_t));
}

static void touch_request(const struct infer_request *q) {
        touch(q->id, strlen(q->id) + 1);
        for (uint32_t i = 0; i < q->n_parameters; i++) {
                touch(q->parameters[i].name, strlen(q->parameters[i].name) + 1);
                if (q->parameters[i].type == TRITONSERVER_PARAMETER_STRING)
                        touch(q->parameters[i].value.text, strlen(q->parameters[i].value.text) + 1);
        }
        for (uint32_t i = 0; i < q->n_inputs; i++)
                touch_input(&q->inputs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct http_generate_source source = { .max_input_bytes = MAX_INPUT_BYTES, .find = find };
        struct infer_request        q;
        struct arena                arena;
        struct error               *err;
        char                       *body = malloc(size); /* exactly as long as the body */

        if (size > 0)
                memcpy(body, bytes, size);
        source.body = str_range(body, size);
        source.arena = &arena;
        arena_init(&arena, NULL, 0, 8u << 20);

        err = http_generate_decode(&source, &q);
        if (err == NULL) {
                touch_request(&q);
                infer_request_done(&q);
        }
        error_free(err);
        arena_done(&arena);
        free(body);
        return 0;
}
