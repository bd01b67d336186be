/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_answer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "core_api/datatype.h"
#include "openai/openai_logprobs.h"
#include "openai/openai_object.h"

#include <string.h>

/* ---- begin and end ---- */

static bool is_chat(const struct openai_answer *a) {
        return a->q->endpoint == OPENAI_CHAT;
}

static const char *object_name(const struct openai_request *q) {
        if (q->endpoint != OPENAI_CHAT)
                return "text_completion";
        return q->is_stream ? "chat.completion.chunk" : "chat.completion";
}

/* What all events of a stream, or the one object, begin with. */
static struct error *make_head(struct openai_answer *a, struct arena *arena) {
        AUTO_STRBUF        text = { 0 };
        struct json_writer w = { .out = &text };
        char              *kept;

        if (a->q->is_stream)
                STRBUF_PUT_LIT(&text, "data: ");
        json_begin_object(&w);
        json_member_string(&w, "id", a->id);
        json_member_string(&w, "object", object_name(a->q));
        json_member_u64(&w, "created", a->created_s);
        json_member_string(&w, "model", a->q->model);
        TRY(strbuf_check(&text, "the answer"));
        kept = arena_try_str(arena, strbuf_str(&text));
        if (kept == NULL)
                return infer_no_memory();
        a->head = str_range(kept, text.len);
        return NULL;
}

static bool repeats_prompt(const struct openai_answer *a) {
        return a->q->is_stream && a->q->echoes && a->model->format == OPENAI_FORMAT_VLLM;
}

static struct error *check_echo(const struct openai_answer *a) {
        size_t bytes = 0, n_choices = openai_request_choices(a->q);

        if (!repeats_prompt(a))
                return NULL;
        for (uint32_t i = 0; i < a->q->n_texts; i++) {
                size_t of_text;

                if (!size_mul(a->q->texts[i].len, n_choices, &of_text) ||
                    !size_add(bytes, of_text, &bytes))
                        bytes = SIZE_MAX;
        }
        if (bytes <= OPENAI_MAX_ECHO_BYTES)
                return NULL;
        return openai_fault("echo",
                            "a stream would repeat %zu bytes of prompts, at most %zu are allowed",
                            bytes, OPENAI_MAX_ECHO_BYTES);
}

struct error *openai_answer_init(struct openai_answer *a, const struct openai_request *q,
                                 const struct openai_model *model, const char *id,
                                 uint32_t n_choices, struct arena *arena) {
        *a = (struct openai_answer){ .q = q,
                                     .model = model,
                                     .id = id,
                                     .created_s = clock_wall_ns() / NS_PER_S,
                                     .object.max = OPENAI_MAX_TEXT_BYTES };
        TRY(check_echo(a));
        a->choices = arena_try_alloc(arena, (n_choices + 1) * sizeof(*a->choices));
        if (a->choices == NULL)
                return infer_no_memory();
        for (uint32_t i = 0; i < n_choices; i++)
                a->choices[i] = (struct openai_choice){ .text.max = OPENAI_MAX_TEXT_BYTES,
                                                        .logprobs.max = OPENAI_MAX_TEXT_BYTES };
        a->n_choices = n_choices;
        return make_head(a, arena);
}

void openai_answer_done(struct openai_answer *a) {
        for (uint32_t i = 0; i < a->n_choices; i++) {
                strbuf_done(&a->choices[i].text);
                strbuf_done(&a->choices[i].logprobs);
        }
        strbuf_done(&a->joined);
        strbuf_done(&a->object);
        a->n_choices = 0;
}

size_t openai_answer_held_bytes(const struct openai_answer *a) {
        return a->collected_bytes + a->joined.cap + a->object.cap;
}

/* ---- outputs of a response ---- */

static struct openai_elements texts_of(const struct infer_response *r, const char *name) {
        const struct infer_output *o = infer_response_find_output(r, name);

        if (o == NULL || o->datatype != TRITONSERVER_TYPE_BYTES)
                return (struct openai_elements){ { NULL, 0 } };
        return (struct openai_elements){ o->bytes };
}

static bool is_integer(TRITONSERVER_DataType type) {
        return type == TRITONSERVER_TYPE_INT32 || type == TRITONSERVER_TYPE_UINT32 ||
               type == TRITONSERVER_TYPE_INT64 || type == TRITONSERVER_TYPE_UINT64;
}

/* The bits of a float are no count, and a negative number is none. */
bool openai_answer_read_count(const struct infer_response *r, const char *name, uint64_t *ret) {
        const struct infer_output *o = infer_response_find_output(r, name);
        uint64_t                   sum = 0;
        size_t                     bytes;
        uint64_t                   sign;

        if (o == NULL || !is_integer(o->datatype))
                return false;
        bytes = datatype_bytes(o->datatype);
        sign = o->datatype == TRITONSERVER_TYPE_INT32   ? UINT64_C(1) << 31
               : o->datatype == TRITONSERVER_TYPE_INT64 ? UINT64_C(1) << 63
                                                        : 0;
        for (size_t at = 0; at + bytes <= o->bytes.len; at += bytes) {
                uint64_t value = 0; /* all hosts that Neso builds for are little-endian */

                memcpy(&value, o->bytes.ptr + at, bytes);
                if ((value & sign) != 0)
                        return false;
                sum += value;
        }
        *ret = sum;
        return o->bytes.len >= bytes;
}

static void count_tokens(struct openai_answer *a, struct openai_part_state *part,
                         const struct infer_response *r) {
        uint64_t n;

        if (!part->has_response && part->part.copy == 0 &&
            openai_answer_read_count(r, "num_input_tokens", &n)) {
                a->prompt_tokens += n;
                a->has_prompt_tokens = true;
        }
        if (openai_answer_read_count(r, "num_output_tokens", &n)) {
                a->completion_tokens += n;
                part->completion_tokens += n;
                a->has_completion_tokens = true;
        }
}

/* ---- the end of a choice ---- */

static bool is_reason(struct str reason) {
        return reason.len > 0 && reason.len < OPENAI_MAX_REASON && str_is_plain(reason) &&
               !str_equal_nocase(reason, STR_LIT("none")) &&
               !str_equal_nocase(reason, STR_LIT("null"));
}

static bool calls_tool(const struct openai_answer *a) {
        return a->q->tool.name.ptr != NULL;
}

static void end_choice(struct openai_answer *a, struct openai_choice *c, struct str reason) {
        if (calls_tool(a) && STR_IS(reason, "stop"))
                reason = STR_LIT("tool_calls");
        memcpy(c->reason, reason.ptr, reason.len);
        c->reason[reason.len] = '\0';
        c->has_ended = true;
        openai_object_count_reason(a, reason);
}

/* The model reported no reason. */
static struct str guess_reason(const struct openai_answer     *a,
                               const struct openai_part_state *part) {
        uint64_t max = openai_request_max_tokens(a->q);

        if (max == 0)
                max = a->model->max_tokens;
        return max > 0 && part->completion_tokens >= max && part->part.n_choices == 1
                       ? STR_LIT("length")
                       : STR_LIT("stop");
}

/* ---- events ---- */

static void put_index(struct strbuf *out, uint32_t index) {
        if (index < 10)
                strbuf_putc(out, (char)('0' + index));
        else
                strbuf_printf(out, "%u", index);
}

static void open_event(const struct openai_answer *a, uint32_t index, struct strbuf *out) {
        strbuf_put(out, a->head.ptr, a->head.len);
        STRBUF_PUT_LIT(out, ",\"choices\":[{\"index\":");
        put_index(out, index);
}

static void close_event(const struct openai_answer *a, const struct openai_choice *c,
                        bool shows_end, struct strbuf *out) {
        if (shows_end) {
                STRBUF_PUT_LIT(out, ",\"finish_reason\":");
                json_quote(out, str_of(c->reason));
        } else {
                STRBUF_PUT_LIT(out, ",\"finish_reason\":null");
        }
        STRBUF_PUT_LIT(out, "}]");
        if (a->q->includes_usage)
                STRBUF_PUT_LIT(out, ",\"usage\":null");
        STRBUF_PUT_LIT(out, "}\n\n");
}

/* The call of a tool: its members after the opening bracket, and the closing one. */
static void put_call(const struct openai_answer *a, uint32_t index, struct str arguments,
                     struct strbuf *out) {
        const char *number = strchr(a->id, '-');

        strbuf_printf(out, "\"id\":\"call%s%u\",\"type\":\"function\",\"function\":{\"name\":",
                      number != NULL ? number : "", index);
        json_quote(out, a->q->tool.name);
        STRBUF_PUT_LIT(out, ",\"arguments\":");
        json_quote(out, arguments);
        STRBUF_PUT_LIT(out, "}}");
}

static void put_role(const struct openai_answer *a, uint32_t index, struct strbuf *out) {
        open_event(a, index, out);
        if (calls_tool(a)) {
                STRBUF_PUT_LIT(out, ",\"delta\":{\"role\":\"assistant\",\"content\":null,"
                                    "\"tool_calls\":[{\"index\":0,");
                put_call(a, index, STR_LIT(""), out);
                STRBUF_PUT_LIT(out, "]},\"logprobs\":null");
        } else {
                STRBUF_PUT_LIT(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                                    "\"logprobs\":null");
        }
        close_event(a, &a->choices[index], false, out);
}

static void put_logprobs(struct openai_answer *a, struct openai_choice *c, struct str lists,
                         struct arena *scratch, struct strbuf *out) {
        STRBUF_PUT_LIT(out, ",\"logprobs\":");
        if (lists.len == 0)
                STRBUF_PUT_LIT(out, "null");
        else
                openai_logprobs_print(a->q->endpoint, lists, (uint32_t)a->q->n_logprobs.integer,
                                      scratch, &c->offset, out);
}

static void put_delta(const struct openai_answer *a, struct str text, struct strbuf *out) {
        if (!is_chat(a)) {
                STRBUF_PUT_LIT(out, ",\"text\":");
                json_quote(out, text);
        } else if (text.len > 0 && calls_tool(a)) {
                STRBUF_PUT_LIT(out, ",\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"
                                    "\"arguments\":");
                json_quote(out, text);
                STRBUF_PUT_LIT(out, "}}]}");
        } else if (text.len > 0) {
                STRBUF_PUT_LIT(out, ",\"delta\":{\"content\":");
                json_quote(out, text);
                STRBUF_PUT_LIT(out, "}");
        } else {
                STRBUF_PUT_LIT(out, ",\"delta\":{}");
        }
}

/* The piece of one choice in one response. */
struct piece {
        uint32_t   index;
        struct str text;
        struct str logprobs; /* a JSON array of lists; empty when there are none */
};

static void put_piece(struct openai_answer *a, const struct piece *p, struct arena *scratch,
                      struct strbuf *out) {
        struct openai_choice *c = &a->choices[p->index];

        if (is_chat(a) && !c->has_begun)
                put_role(a, p->index, out);
        c->has_begun = true;
        if (p->text.len == 0 && !c->has_ended && p->logprobs.len == 0)
                return;
        open_event(a, p->index, out);
        put_delta(a, p->text, out);
        put_logprobs(a, c, p->logprobs, scratch, out);
        close_event(a, c, c->has_ended, out);
}

/* ---- a response ---- */

static bool is_list(struct str json) {
        return json.len > 1 && json.ptr[0] == '[';
}

static struct error *wrap_list(struct str list, struct arena *scratch, struct str *ret) {
        char *text;

        *ret = str_range(NULL, 0);
        if (!is_list(list))
                return NULL;
        text = arena_try_alloc(scratch, list.len + 2);
        if (text == NULL)
                return infer_no_memory();
        text[0] = '[';
        memcpy(text + 1, list.ptr, list.len);
        text[list.len + 1] = ']';
        *ret = str_range(text, list.len + 2);
        return NULL;
}

static struct error *collect_choice(struct openai_answer *a, struct openai_choice *c,
                                    struct str text, struct str logprobs) {
        size_t before = c->text.cap + c->logprobs.cap;

        strbuf_put(&c->text, text.ptr, text.len);
        if (is_list(logprobs)) {
                strbuf_putc(&c->logprobs, c->logprobs.len == 0 ? '[' : ',');
                strbuf_put(&c->logprobs, logprobs.ptr, logprobs.len);
        }
        a->collected_bytes += c->text.cap + c->logprobs.cap - before;
        TRY(strbuf_check(&c->logprobs, "the answer"));
        return strbuf_check(&c->text, "the answer");
}

struct response_texts {
        struct openai_elements texts, reasons, logprobs;
};

static struct error *add_choice(struct openai_answer *a, uint32_t index, struct response_texts *t,
                                struct arena *scratch, struct strbuf *out) {
        struct openai_choice *c = &a->choices[index];
        struct str            text = { NULL, 0 }, reason = { NULL, 0 }, logprobs = { NULL, 0 };
        struct piece          p = { .index = index };

        openai_elements_next(&t->texts, &text);
        openai_elements_next(&t->reasons, &reason);
        openai_elements_next(&t->logprobs, &logprobs);
        a->has_text = a->has_text || text.len > 0;
        if (c->has_ended)
                return NULL;
        if (is_reason(reason))
                end_choice(a, c, reason);
        if (!a->q->is_stream)
                return collect_choice(a, c, text,
                                      a->q->wants_logprobs ? logprobs : str_range(NULL, 0));
        p.text = openai_hold_pass(&c->hold, text, c->has_ended, &a->joined);
        if (a->q->wants_logprobs)
                TRY(wrap_list(logprobs, scratch, &p.logprobs));
        put_piece(a, &p, scratch, out);
        return strbuf_check(&a->joined, "the answer");
}

/* The offsets of log-probabilities count the prompt that the text begins with. */
static void begin_after_prompt(struct openai_answer *a, const struct openai_part *part) {
        size_t n = openai_text_characters(a->q->texts[part->first_text]);

        for (uint32_t i = part->first_choice; i < part->first_choice + part->n_choices; i++)
                a->choices[i].offset = n;
}

/* The vLLM backend refuses to repeat the prompt in a stream. */
static void put_prompts(struct openai_answer *a, const struct openai_part *part,
                        struct strbuf *out) {
        for (uint32_t i = part->first_choice; i < part->first_choice + part->n_choices; i++) {
                open_event(a, i, out);
                put_delta(a, a->q->texts[part->first_text], out);
                STRBUF_PUT_LIT(out, ",\"logprobs\":null");
                close_event(a, &a->choices[i], false, out);
        }
}

struct error *openai_answer_add(struct openai_answer *a, struct openai_part_state *part,
                                const struct infer_response *r, struct arena *scratch,
                                struct strbuf *out) {
        struct response_texts t;

        a->has_text = false;
        if (a->model->format == OPENAI_FORMAT_OPENAI) {
                struct openai_elements objects = texts_of(r, "openai_response");
                struct str             object;

                while (openai_elements_next(&objects, &object))
                        TRY(openai_object_add(a, object, scratch, out));
                return strbuf_check(out, "the answer");
        }
        count_tokens(a, part, r);
        if (!part->has_response && a->q->echoes)
                begin_after_prompt(a, &part->part);
        if (!part->has_response && repeats_prompt(a))
                put_prompts(a, &part->part, out);
        part->has_response = true;
        t.texts = texts_of(r, "text_output");
        t.reasons = texts_of(r, "finish_reason");
        t.logprobs = texts_of(r, "logprobs");
        for (uint32_t i = 0; i < part->part.n_choices; i++)
                TRY(add_choice(a, part->part.first_choice + i, &t, scratch, out));
        return strbuf_check(out, "the answer");
}

void openai_answer_end_part(struct openai_answer *a, const struct openai_part_state *part,
                            struct strbuf *out) {
        for (uint32_t i = 0; i < part->part.n_choices; i++) {
                struct piece          p = { .index = part->part.first_choice + i };
                struct openai_choice *c = &a->choices[p.index];

                if (c->has_ended)
                        continue;
                end_choice(a, c, guess_reason(a, part));
                if (!a->q->is_stream)
                        continue;
                p.text = openai_hold_pass(&c->hold, STR_LIT(""), true, &a->joined);
                put_piece(a, &p, NULL, out);
        }
}

/* ---- the end of the answer ---- */

static void put_usage(const struct openai_answer *a, struct json_writer *w) {
        json_key(w, "usage");
        if (!a->has_prompt_tokens && !a->has_completion_tokens) {
                json_put_raw(w, STR_LIT("null"));
                return;
        }
        json_begin_object(w);
        json_member_u64(w, "prompt_tokens", a->prompt_tokens);
        json_member_u64(w, "completion_tokens", a->completion_tokens);
        json_member_u64(w, "total_tokens", a->prompt_tokens + a->completion_tokens);
        json_end_object(w);
}

struct error *openai_answer_check(const struct openai_answer *a) {
        if (a->model->format != OPENAI_FORMAT_OPENAI || a->has_object)
                return NULL;
        return error_new(ERR_INTERNAL, "model '%s' gave no answer", a->model->name);
}

#define DONE "data: [DONE]\n\n"

void openai_answer_end_stream(const struct openai_answer *a, struct strbuf *out) {
        struct json_writer w = { .out = out };

        if (a->q->includes_usage && a->model->format != OPENAI_FORMAT_OPENAI) {
                strbuf_put(out, a->head.ptr, a->head.len);
                STRBUF_PUT_LIT(out, ",\"choices\":[]");
                w.needs_comma = true;
                put_usage(a, &w);
                STRBUF_PUT_LIT(out, "}\n\n");
        }
        STRBUF_PUT_LIT(out, DONE);
}

void openai_answer_put_failure(const struct openai_error *e, struct strbuf *out) {
        STRBUF_PUT_LIT(out, "data: ");
        openai_error_print(e, out);
        STRBUF_PUT_LIT(out, "\n\n" DONE);
}

static void put_whole_choice(struct openai_answer *a, uint32_t index, struct arena *scratch,
                             struct strbuf *out) {
        struct openai_choice *c = &a->choices[index];

        if (c->logprobs.len > 0)
                strbuf_putc(&c->logprobs, ']');
        STRBUF_PUT_LIT(out, "{\"index\":");
        put_index(out, index);
        if (calls_tool(a)) {
                STRBUF_PUT_LIT(out, ",\"message\":{\"role\":\"assistant\",\"content\":null,"
                                    "\"refusal\":null,\"tool_calls\":[{");
                put_call(a, index, strbuf_str(&c->text), out);
                STRBUF_PUT_LIT(out, "]}");
        } else if (is_chat(a)) {
                STRBUF_PUT_LIT(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
                json_quote(out, strbuf_str(&c->text));
                STRBUF_PUT_LIT(out, ",\"refusal\":null}");
        } else {
                STRBUF_PUT_LIT(out, ",\"text\":");
                json_quote(out, strbuf_str(&c->text));
        }
        put_logprobs(a, c, strbuf_str(&c->logprobs), scratch, out);
        STRBUF_PUT_LIT(out, ",\"finish_reason\":");
        json_quote(out, str_of(c->reason));
        STRBUF_PUT_LIT(out, "}");
}

struct error *openai_answer_print(struct openai_answer *a, struct arena *scratch,
                                  struct strbuf *out) {
        struct json_writer w = { .out = out };

        if (a->model->format == OPENAI_FORMAT_OPENAI) {
                TRY(openai_answer_check(a));
                strbuf_put(out, a->object.ptr, a->object.len);
                return strbuf_check(out, "the answer");
        }
        strbuf_put(out, a->head.ptr, a->head.len);
        STRBUF_PUT_LIT(out, ",\"choices\":[");
        for (uint32_t i = 0; i < a->n_choices; i++) {
                if (i > 0)
                        STRBUF_PUT_LIT(out, ",");
                put_whole_choice(a, i, scratch, out);
        }
        STRBUF_PUT_LIT(out, "]");
        w.needs_comma = true;
        put_usage(a, &w);
        STRBUF_PUT_LIT(out, "}");
        return strbuf_check(out, "the answer");
}
