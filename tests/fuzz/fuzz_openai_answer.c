/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as what a model answers, in pieces: the first byte chooses the form, and each further piece
 * begins with its length. Every event must be one line of valid UTF-8 that holds one JSON object.
 */
#include "codec/json_find.h"
#include "openai/openai_answer.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define MAX_PIECES 32

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const int64_t one = 1;

static void check_events(struct str text) {
        while (text.len > 0) {
                const char   *end = memmem(text.ptr, text.len, "\n\n", 2);
                struct str    event;
                struct error *err;

                assert(end != NULL && str_starts(text, STR_LIT("data: ")));
                event = str_range(text.ptr + 6, (size_t)(end - text.ptr) - 6);
                assert(memchr(event.ptr, '\n', event.len) == NULL);
                if (!str_is(event, "[DONE]")) {
                        err = json_check(event, JSON_OBJECT);
                        assert(err == NULL);
                }
                text = str_range(end + 2, text.len - (size_t)(end + 2 - text.ptr));
        }
}

static struct infer_output output(const char *name, struct str bytes) {
        return (struct infer_output){ .name = name,
                                      .datatype = TRITONSERVER_TYPE_BYTES,
                                      .n_dims = 1,
                                      .shape = &one,
                                      .bytes = bytes };
}

static void answer(struct openai_answer *a, struct openai_part_state *part, struct str text,
                   struct str left, struct strbuf *out) {
        char                  memory[300];
        uint32_t              len = (uint32_t)text.len;
        struct arena          scratch;
        struct error         *err;
        struct infer_output   outputs[3];
        struct infer_response r = { .outputs = outputs, .n_outputs = 3 };

        memcpy(memory, &len, sizeof(len));
        memcpy(memory + sizeof(len), text.ptr, text.len);
        outputs[0] =
                output(a->model->format == OPENAI_FORMAT_OPENAI ? "openai_response" : "text_output",
                       str_range(memory, sizeof(len) + text.len));
        outputs[1] = output("logprobs", outputs[0].bytes);
        outputs[2] = output("finish_reason", left); /* any bytes, also with wrong lengths */
        arena_init(&scratch, NULL, 0, 1u << 20);
        strbuf_clear(out);
        err = openai_answer_add(a, part, &r, &scratch, out);
        if (err == NULL)
                check_events(strbuf_str(out));
        error_free(err);
        arena_done(&scratch);
}

static void end(struct openai_answer *a, const struct openai_part_state *part, struct strbuf *out) {
        strbuf_clear(out);
        openai_answer_end_part(a, part, out);
        openai_answer_end_stream(a, out);
        check_events(strbuf_str(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        uint8_t                  form = size > 0 ? bytes[0] : 0;
        struct openai_request    q = { .endpoint = form & 1 ? OPENAI_CHAT : OPENAI_COMPLETIONS,
                                       .model = "m",
                                       .is_stream = true,
                                       .includes_usage = (form & 2) != 0,
                                       .wants_logprobs = (form & 8) != 0 };
        const struct openai_tool tool = { STR_LIT("f\"x"), STR_LIT("{}") };
        struct openai_model      model = { .name = "m",
                                           .format = form & 4 ? OPENAI_FORMAT_OPENAI
                                                              : OPENAI_FORMAT_VLLM };
        struct openai_part_state part = { .part = { .n_choices = form & 4 ? 0 : 1 } };
        struct str               left = { (const char *)bytes + (size > 0), size - (size > 0) };
        struct openai_answer     a;
        struct arena             arena;
        struct strbuf            out;

        if ((form & 17) == 17)
                q.tool = tool;
        arena_init(&arena, NULL, 0, 0);
        strbuf_init(&out, 0);
        if (openai_answer_init(&a, &q, &model, "id", part.part.n_choices, &arena) == NULL) {
                for (int i = 0; i < MAX_PIECES && left.len > 0; i++) {
                        size_t len = (unsigned char)left.ptr[0];

                        len = len < left.len - 1 ? len : left.len - 1;
                        answer(&a, &part, str_range(left.ptr + 1, len), left, &out);
                        left = str_range(left.ptr + 1 + len, left.len - 1 - len);
                }
                end(&a, &part, &out);
        }
        openai_answer_done(&a);
        strbuf_done(&out);
        arena_done(&arena);
        return 0;
}
