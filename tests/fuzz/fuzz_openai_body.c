/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the body of a request of the OpenAI API, for each endpoint. What is accepted must stay within
 * the body and the arena, and gives a prompt for a model that speaks the API.
 */
#include "openai/openai_prompt.h"
#include "openai/openai_request.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile unsigned char sink;

/* Reads every byte, so that the sanitizer sees what is out of bounds. */
static void touch(struct str s) {
        unsigned char sum = 0;

        for (size_t i = 0; i < s.len; i++)
                sum = (unsigned char)(sum + (unsigned char)s.ptr[i]);
        sink = sum;
}

static void touch_request(const struct openai_request *q) {
        touch(str_of(q->model));
        for (uint32_t i = 0; i < q->n_texts; i++)
                touch(q->texts[i]);
        for (uint32_t i = 0; i < q->n_stops; i++)
                touch(q->stops[i]);
        for (uint32_t i = 0; i < q->n_others; i++) {
                touch(q->others[i].key);
                touch(q->others[i].json);
        }
        touch(q->messages);
        touch(q->schema);
        touch(q->logit_bias);
        assert(openai_request_choices(q) >= 1 && openai_request_choices(q) <= OPENAI_MAX_CHOICES);
}

static void choose_tool(const struct openai_request *q, struct arena *arena) {
        struct openai_tool tool;
        struct error      *err = openai_tool_choose(q, arena, &tool);

        if (err == NULL && tool.name.ptr != NULL) {
                assert(tool.name.len > 0 && tool.schema.len <= OPENAI_MAX_SCHEMA_BYTES);
                touch(tool.name);
                touch(tool.schema);
        }
        error_free(err);
}

static void print_prompt(const struct openai_request *q) {
        size_t     max = openai_prompt_measure(q);
        char      *memory = malloc(max);
        struct str text = openai_prompt_print(q, memory);

        assert(text.len <= max);
        touch(text);
        free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        char *body = malloc(size); /* exactly as long as the body */

        if (size > 0)
                memcpy(body, bytes, size);
        for (int endpoint = OPENAI_CHAT; endpoint <= OPENAI_EMBEDDINGS; endpoint++) {
                struct openai_request q;
                struct arena          arena;
                struct error         *err;

                arena_init(&arena, NULL, 0, 8u << 20);
                err = openai_request_read((enum openai_endpoint)endpoint, str_range(body, size),
                                          &arena, &q);
                if (err == NULL) {
                        touch_request(&q);
                        choose_tool(&q, &arena);
                        err = openai_request_split_model(&q, ":", &arena);
                        assert(err == NULL && strlen(q.served) <= strlen(q.model));
                        print_prompt(&q);
                }
                error_free(err);
                arena_done(&arena);
        }
        free(body);
        return 0;
}
