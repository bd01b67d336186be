/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the body of an infer request. The first two are the length of the JSON part
 * (little-endian, cut to what there is), the rest the body. What is accepted must stay within the
 * body and its own memory, and be the same when it is remembered.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/http/request_text.h"
#include "base/mem.h"
#include "http/http_infer_memo.h"

#define MAX_INPUT_BYTES (64u * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The request, or its fault; `m` NULL: without a memo. Body and arena are gone afterwards, and what
 * was kept must not miss them. */
static char *decode(struct http_infer_memo *m, struct http_infer_source source) {
        struct http_infer_kept *kept = NULL;
        struct infer_request    q;
        struct arena            arena;
        struct strbuf           text;
        struct error           *err;
        char                   *body = malloc(source.body.len); /* exactly as long */

        memcpy(body, source.body.ptr, source.body.len);
        source.body.ptr = body;
        source.arena = &arena;
        arena_init(&arena, NULL, 0, 8u << 20);
        strbuf_init(&text, 0);
        if (m)
                err = http_infer_memo_decode(m, &source, &q, &kept);
        else
                err = http_infer_decode(&source, &q);
        if (err) {
                strbuf_puts(&text, err->message);
        } else {
                request_text_print(&text, source.body, &q);
                infer_request_done(&q);
        }
        http_infer_kept_unref(kept);
        error_free(err);
        arena_done(&arena);
        free(body);
        return strbuf_take(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct http_infer_source source = { .model_name = "m", .max_input_bytes = MAX_INPUT_BYTES };
        struct http_infer_memo  *m;

        if (size < 2)
                return 0;
        source.json_bytes = (size_t)bytes[0] | (size_t)bytes[1] << 8;
        source.json_bytes = MIN(source.json_bytes, size - 2);
        source.body = str_range((const char *)bytes + 2, size - 2);

        AUTO_CHARS expected = decode(NULL, source);

        /* seen, kept, found */
        m = http_infer_memo_new();
        for (int i = 0; i < 3; i++) {
                AUTO_CHARS got = decode(m, source);

                if (strcmp(got, expected) != 0)
                        abort();
        }
        http_infer_memo_free(m);
        return 0;
}
