/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the body of an infer request. The first two are the length of the JSON part
 * (little-endian, cut to what there is), the rest the body. What is accepted must stay within the
 * body and its own memory.
 */
#include "../unit/http/request_text.h"
#include "base/mem.h"
#include "http/http_infer_decode.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUT_BYTES (64u * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct http_infer_source source = { .model_name = "m", .max_input_bytes = MAX_INPUT_BYTES };
        struct infer_request     q;
        struct arena             arena;
        struct strbuf            text;
        struct error            *err;

        if (size < 2)
                return 0;
        source.json_bytes = (size_t)bytes[0] | (size_t)bytes[1] << 8;
        source.json_bytes = MIN(source.json_bytes, size - 2);
        AUTO_CHARS body = mem_alloc(MAX(size - 2, 1)); /* exactly as long */
        memcpy(body, bytes + 2, size - 2);
        source.body = str_range(body, size - 2);
        arena_init(&arena, NULL, 0, 8u << 20);
        source.arena = &arena;
        strbuf_init(&text, 0);
        err = http_infer_decode(&source, &q);
        if (err == NULL) {
                request_text_print(&text, source.body, &q);
                infer_request_done(&q);
        }
        error_free(err);
        free(strbuf_take(&text));
        arena_done(&arena);
        return 0;
}
