/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_map.h"

#include "base/buf.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "core_api/datatype.h"
#include "openai/openai_prompt.h"
#include "triton/core/neso.h"

#include <string.h>

/* Limit of the JSON of vLLM's sampling parameters, which holds members of the body. */
#define MAX_SAMPLING_BYTES ((size_t)16 << 20)
/* Bytes up to this size are put into the arena: a buffer of the pool is at least a page. */
#define MAX_BYTES_IN_ARENA 4096

/* ---- the split ---- */

static bool makes_choices(const struct openai_model *m) {
        return m->format == OPENAI_FORMAT_VLLM ||
               (m->format == OPENAI_FORMAT_TRTLLM && openai_model_takes(m, "num_return_sequences"));
}

static struct error *check_choices(const struct openai_request *q, uint32_t max_choices) {
        uint32_t n = openai_request_choices(q), n_prompts = openai_request_prompts(q);

        if (n > max_choices)
                return openai_fault("n",
                                    "'n' is %u, but at most %u choices are allowed "
                                    "(--openai-max-choices)",
                                    n, max_choices);
        if (n_prompts > OPENAI_MAX_CHOICES / n && q->endpoint == OPENAI_COMPLETIONS)
                return openai_fault("prompt", "%u prompts with %u choices each are more than %d",
                                    n_prompts, n, OPENAI_MAX_CHOICES);
        return NULL;
}

static struct error *check_token_ids(struct str list) {
        struct json_reader r = json_reader_of(list);
        uint64_t           id, n = 0;

        json_enter_array(&r);
        for (; json_next_element(&r); n++)
                if (!json_try_u64(&r, &id) || id > INT32_MAX)
                        return openai_fault(
                                "input", "the token ids in 'input' must be integers from 0 to %d",
                                INT32_MAX);
        return n > 0 ? NULL : openai_fault("input", "'input' has an empty list of token ids");
}

/* Before any inference begins, since those of the last texts begin late. */
static struct error *check_token_lists(const struct openai_request *q) {
        for (uint32_t i = 0; i < q->n_token_lists; i++)
                TRY(check_token_ids(q->token_lists[i]));
        return NULL;
}

static struct error *split_embeddings(const struct openai_request *q, const struct openai_model *m,
                                      struct openai_split *s) {
        uint32_t n = openai_request_prompts(q);

        if (q->has_token_ids && m->format != OPENAI_FORMAT_VLLM)
                return openai_fault("input", "model '%s' takes texts, not token ids", m->name);
        TRY(check_token_lists(q));
        if (m->format == OPENAI_FORMAT_EMBED && m->max_batch_size > 1)
                s->n_texts = MIN(m->max_batch_size, n);
        s->n_parts = (n + s->n_texts - 1) / s->n_texts;
        return NULL;
}

struct error *openai_split_make(const struct openai_request *q, const struct openai_model *m,
                                uint32_t max_choices, struct openai_split *ret) {
        uint32_t n = openai_request_choices(q);
        uint32_t n_prompts = q->endpoint == OPENAI_CHAT ? 1 : q->n_texts;

        *ret = (struct openai_split){ .n_parts = 1, .n_texts = 1, .n_choices = n, .n_copies = 1 };
        TRY(check_choices(q, max_choices));
        if (m->format == OPENAI_FORMAT_OPENAI) {
                ret->n_texts = q->n_texts;
                ret->n_choices = 0;
                return NULL;
        }
        if (q->endpoint == OPENAI_EMBEDDINGS)
                return split_embeddings(q, m, ret);
        if (q->has_token_ids)
                return openai_fault("prompt", "model '%s' takes texts, not token ids", m->name);
        if (!makes_choices(m)) {
                ret->n_copies = n;
                ret->n_choices = 1;
        }
        ret->n_parts = n_prompts * ret->n_copies;
        return NULL;
}

struct openai_part openai_split_part(const struct openai_request *q, const struct openai_split *s,
                                     uint32_t i) {
        uint32_t first = i / s->n_copies * s->n_texts, n = openai_request_prompts(q);

        return (struct openai_part){
                .first_text = first,
                .n_texts = n > first ? MIN(s->n_texts, n - first) : 0,
                .first_choice = i * s->n_choices,
                .n_choices = s->n_choices,
                .copy = i % s->n_copies,
        };
}

/* ---- inputs ---- */

struct part_map {
        const struct openai_map *map;
        struct infer_request    *to;
};

/* Appends an input. Each dimension is 1, except the innermost one, or the batch dimension of `n_rows`. */
static struct error *add_input(const struct part_map *p, const char *name, size_t n_elements,
                               size_t n_rows, struct infer_input **ret) {
        TRITONSERVER_DataType type;
        const int64_t        *dims;
        int64_t              *shape;
        uint64_t              n_dims;
        bool                  is_batched;
        uint32_t              n;

        TRY(core_error_take(NESO_InferenceRequestModelInput(p->map->model->request, name, &type,
                                                            &dims, &n_dims, &is_batched)));
        n = (uint32_t)n_dims + is_batched;
        shape = arena_try_alloc(p->map->arena, (n + 1) * sizeof(*shape));
        if (shape == NULL)
                return infer_no_memory();
        for (uint32_t i = 0; i < n; i++)
                shape[i] = 1;
        if (n > 0)
                shape[n - 1] = (int64_t)(n_elements / n_rows);
        if (is_batched && n_rows > 1)
                shape[0] = (int64_t)n_rows;
        TRY(infer_request_add_input(p->to, p->map->arena, ret));
        (*ret)->name = name;
        (*ret)->datatype = type;
        (*ret)->datatype_name = datatype_name(type);
        (*ret)->shape = shape;
        (*ret)->n_dims = n;
        return NULL;
}

/* Memory for the bytes of an input: in the arena or in a buffer of the input's own. */
static struct error *take_memory(const struct part_map *p, struct infer_input *in, size_t bytes,
                                 char **ret) {
        if (bytes <= MAX_BYTES_IN_ARENA) {
                *ret = arena_try_alloc(p->map->arena, bytes);
        } else {
                in->converted = buf_new(p->map->pool, bytes);
                *ret = in->converted != NULL ? in->converted->bytes : NULL;
        }
        if (*ret == NULL)
                return infer_no_memory();
        in->bytes = str_range(*ret, bytes);
        return NULL;
}

/* Appends the input of that name of the part before, which has the same bytes. */
static struct error *borrow_input(const struct part_map *p, const char *name) {
        const struct infer_request *from = p->map->before;
        struct infer_input         *in;
        uint32_t                    i = 0;

        while (strcmp(from->inputs[i].name, name) != 0)
                i++;
        TRY(infer_request_add_input(p->to, p->map->arena, &in));
        *in = from->inputs[i];
        in->converted = NULL;
        return NULL;
}

/* Texts in the form of a BYTES tensor: each after its length. */
static struct error *put_rows(const struct part_map *p, const char *name, const struct str *texts,
                              size_t n, size_t n_rows) {
        struct infer_input *in;
        size_t              bytes = 0;
        char               *at;

        for (size_t i = 0; i < n; i++)
                if (texts[i].len > UINT32_MAX || !size_add(bytes, texts[i].len, &bytes) ||
                    !size_add(bytes, sizeof(uint32_t), &bytes))
                        return infer_no_memory();
        TRY(add_input(p, name, n, n_rows, &in));
        TRY(take_memory(p, in, bytes, &at));
        for (size_t i = 0; i < n; i++) {
                uint32_t len = (uint32_t)texts[i].len;

                memcpy(at, &len, sizeof(len));
                if (len > 0)
                        memcpy(at + sizeof(len), texts[i].ptr, len);
                at += sizeof(len) + len;
        }
        return NULL;
}

static struct error *put_texts(const struct part_map *p, const char *name, const struct str *texts,
                               size_t n) {
        return put_rows(p, name, texts, n, 1);
}

static struct error *put_text(const struct part_map *p, const char *name, struct str text) {
        return put_texts(p, name, &text, 1);
}

union scalar {
        float    f32;
        double   f64;
        int32_t  i32;
        uint32_t u32;
        int64_t  i64;
        uint8_t  flag;
};

static bool make_scalar(TRITONSERVER_DataType type, double value, int64_t integer,
                        union scalar *ret) {
        switch (type) {
        case TRITONSERVER_TYPE_FP32: ret->f32 = (float)value; return true;
        case TRITONSERVER_TYPE_FP64: ret->f64 = value; return true;
        case TRITONSERVER_TYPE_INT32: ret->i32 = (int32_t)integer; return true;
        case TRITONSERVER_TYPE_UINT32: ret->u32 = (uint32_t)integer; return true;
        case TRITONSERVER_TYPE_INT64:
        case TRITONSERVER_TYPE_UINT64: ret->i64 = integer; return true;
        case TRITONSERVER_TYPE_BOOL: ret->flag = integer != 0; return true;
        default: return false;
        }
}

static bool fits(TRITONSERVER_DataType type, int64_t integer) {
        switch (type) {
        case TRITONSERVER_TYPE_INT32: return integer >= INT32_MIN && integer <= INT32_MAX;
        case TRITONSERVER_TYPE_UINT32: return integer >= 0 && integer <= UINT32_MAX;
        default: return true;
        }
}

/* A scalar in the type that the model has, of the body's member. */
static struct error *put_scalar(const struct part_map *p, const char *member, const char *name,
                                double value, int64_t integer) {
        struct infer_input *in;
        union scalar        scalar = { 0 };
        char               *at;

        TRY(add_input(p, name, 1, 1, &in));
        if (!make_scalar(in->datatype, value, integer, &scalar))
                return error_new(ERR_UNSUPPORTED,
                                 "input '%s' of model '%s' has the type %s, which no number of the "
                                 "OpenAI API has",
                                 name, p->map->model->name, in->datatype_name);
        if (!fits(in->datatype, integer))
                return openai_fault(member,
                                    "'%s' of model '%s' must fit into the type %s of its input "
                                    "'%s', not %lld",
                                    member, p->map->model->name, in->datatype_name, name,
                                    (long long)integer);
        TRY(take_memory(p, in, datatype_bytes(in->datatype), &at));
        memcpy(at, &scalar, datatype_bytes(in->datatype));
        return NULL;
}

/* A flag that the server sets for its own purposes: not for models without that input. */
static struct error *put_flag(const struct part_map *p, const char *name, bool flag) {
        if (!openai_model_takes(p->map->model, name))
                return NULL;
        return put_scalar(p, name, name, flag, flag);
}

static struct error *refuse_member(const struct part_map *p, const char *member) {
        return openai_fault(member, "model '%s' does not take '%s'", p->map->model->name, member);
}

/* A number of the body; refused when the model has no input for it. */
static struct error *put_number(const struct part_map *p, const char *member, const char *name,
                                const struct openai_number *number) {
        if (number->json.ptr == NULL)
                return NULL;
        if (!openai_model_takes(p->map->model, name))
                return refuse_member(p, member);
        return put_scalar(p, member, name, number->value, number->integer);
}

/* ---- what all text formats share ---- */

static uint64_t max_tokens_of(const struct part_map *p) {
        uint64_t wanted = openai_request_max_tokens(p->map->q);

        return wanted > 0 ? wanted : p->map->model->max_tokens;
}

static const char *max_tokens_member(const struct openai_request *q) {
        return q->max_completion_tokens.json.ptr != NULL ? "max_completion_tokens" : "max_tokens";
}

static struct error *put_max_tokens(const struct part_map *p, const char *name) {
        uint64_t max = max_tokens_of(p);

        if (max == 0 && openai_model_needs(p->map->model, name))
                return openai_fault("max_tokens",
                                    "model '%s' needs 'max_tokens', or the parameter "
                                    "'openai_max_tokens' in its configuration",
                                    p->map->model->name);
        if (max == 0)
                return NULL;
        if (!openai_model_takes(p->map->model, name))
                return refuse_member(p, max_tokens_member(p->map->q));
        return put_scalar(p, max_tokens_member(p->map->q), name, (double)max, (int64_t)max);
}

static struct error *put_prompt(const struct part_map *p, const struct openai_part *part) {
        if (part->copy > 0)
                return borrow_input(p, "text_input");
        return put_text(p, "text_input", p->map->q->texts[part->first_text]);
}

/* The counts and the reason come back when the model offers them. */
static struct error *ask_for_counts(const struct part_map *p) {
        TRY(put_flag(p, "return_finish_reason", true));
        TRY(put_flag(p, "return_num_input_tokens", true));
        return put_flag(p, "return_num_output_tokens", true);
}

/* True when the format has a place for a JSON schema of the answer. */
static bool can_constrain(const struct part_map *p) {
        return p->map->model->format == OPENAI_FORMAT_VLLM ||
               openai_model_takes(p->map->model, "guided_decoding_guide_type");
}

/* Calls of tools come as text of the model's own form, which only the format openai reads, unless one must be
 * called: then its schema constrains the text. */
static struct error *check_tools(const struct part_map *p) {
        const struct openai_request *q = p->map->q;

        if (q->tools.ptr == NULL || STR_IS(q->tool_choice, "\"none\""))
                return NULL;
        if (q->tool.name.ptr != NULL)
                return can_constrain(p) ? NULL : refuse_member(p, "tools");
        return openai_fault("tools",
                            "model '%s' cannot choose tools: that takes a model of the format "
                            "'openai', this one has '%s'",
                            p->map->model->name, openai_format_name(p->map->model->format));
}

/* The schema of the answer; ptr NULL when it has none. */
static struct str schema_of(const struct openai_request *q) {
        return q->tool.name.ptr != NULL ? q->tool.schema : q->schema;
}

/* The seeds of several requests for one prompt differ. */
static struct openai_number seed_of(const struct part_map *p, const struct openai_part *part) {
        struct openai_number seed = p->map->q->seed;

        seed.integer = (int64_t)((uint64_t)seed.integer + part->copy);
        seed.value += part->copy;
        return seed;
}

/* A text that is made of members of the body. */
static struct error *check_made(const struct strbuf *text, const char *what) {
        if (text->overflowed && !text->no_memory)
                return error_new(ERR_INVALID_ARG, "%s of the request are longer than %zu bytes",
                                 what, text->max);
        return strbuf_check(text, what);
}

/* ---- vllm ---- */

static void put_json_number(struct json_writer *w, const char *key,
                            const struct openai_number *number) {
        if (number->json.ptr == NULL)
                return;
        json_member_raw(w, key, number->json);
}

static void put_json_stops(struct json_writer *w, const struct openai_request *q) {
        if (q->n_stops == 0)
                return;
        json_member_array(w, "stop");
        for (uint32_t i = 0; i < q->n_stops; i++)
                json_put_str(w, q->stops[i]);
        json_end_array(w);
}

/* vLLM takes the constraint as a text that holds JSON. */
static void put_json_constraint(struct json_writer *w, const struct openai_request *q) {
        AUTO_STRBUF        text = { .max = MAX_SAMPLING_BYTES };
        struct json_writer inner = { .out = &text };
        struct str         schema = schema_of(q);

        if (schema.ptr == NULL && !q->wants_any_object)
                return;
        json_begin_object(&inner);
        if (schema.ptr != NULL) {
                json_member_raw(&inner, "json", schema);
        } else {
                json_member_bool(&inner, "json_object", true);
        }
        json_end_object(&inner);
        strbuf_spoil(w->out, &text);
        json_member_str(w, "structured_outputs", strbuf_str(&text));
}

/* Members for the chat template are no parameters of sampling. */
static bool is_for_template(struct str key) {
        return STR_IS(key, "chat_template_kwargs") || STR_IS(key, "reasoning_effort") ||
               STR_IS(key, "add_generation_prompt") || STR_IS(key, "documents");
}

static void print_sampling(const struct part_map *p, const struct openai_part *part,
                           struct json_writer *w) {
        const struct openai_request *q = p->map->q;
        uint64_t                     max = max_tokens_of(p);

        json_begin_object(w);
        if (max > 0)
                json_member_u64(w, "max_tokens", max);
        put_json_number(w, "temperature", &q->temperature);
        put_json_number(w, "top_p", &q->top_p);
        put_json_number(w, "frequency_penalty", &q->frequency_penalty);
        put_json_number(w, "presence_penalty", &q->presence_penalty);
        if (q->seed.json.ptr != NULL)
                json_member_i64(w, "seed", q->seed.integer);
        if (part->n_choices > 1)
                json_member_u64(w, "n", part->n_choices);
        if (q->wants_logprobs)
                json_member_u64(w, "logprobs", (uint64_t)q->n_logprobs.integer);
        if (q->lora.ptr != NULL)
                json_member_str(w, "lora_name", q->lora);
        put_json_stops(w, q);
        put_json_constraint(w, q);
        if (q->logit_bias.ptr != NULL) {
                json_member_raw(w, "logit_bias", q->logit_bias);
        }
        for (uint32_t i = 0; i < q->n_others; i++) {
                if (is_for_template(q->others[i].key))
                        continue;
                json_key_str(w, q->others[i].key);
                json_put_raw(w, q->others[i].json);
        }
        json_end_object(w);
}

static struct error *put_sampling(const struct part_map *p, const struct openai_part *part) {
        AUTO_STRBUF        text = { .max = MAX_SAMPLING_BYTES };
        struct json_writer w = { .out = &text };

        if (p->map->before != NULL) /* all parts have the same number of choices */
                return borrow_input(p, "sampling_parameters");
        print_sampling(p, part, &w);
        TRY(check_made(&text, "the sampling parameters"));
        return put_text(p, "sampling_parameters", strbuf_str(&text));
}

static struct error *fill_vllm(const struct part_map *p, const struct openai_part *part) {
        const struct openai_request *q = p->map->q;

        TRY(check_tools(p));
        TRY(put_prompt(p, part));
        TRY(put_flag(p, "stream", q->is_stream));
        TRY(put_sampling(p, part));
        /* The backend does not repeat the prompt in a stream; openai_answer does. */
        TRY(put_flag(p, "exclude_input_in_output", !q->echoes || q->is_stream));
        if (q->wants_logprobs && !openai_model_takes(p->map->model, "return_logprobs"))
                return refuse_member(p, "logprobs");
        if (q->wants_logprobs)
                TRY(put_flag(p, "return_logprobs", true));
        return ask_for_counts(p);
}

static void put_json_input(const struct openai_request *q, uint32_t i, struct json_writer *w) {
        if (q->has_token_ids)
                json_member_raw(w, "input", q->token_lists[i]);
        else
                json_member_str(w, "input", q->texts[i]);
}

/* {"input":"text","pooling_params":{"dimensions":[256]}}; the input text_input is left out. */
static struct error *fill_vllm_embedding(const struct part_map *p, const struct openai_part *part) {
        const struct openai_request *q = p->map->q;
        AUTO_STRBUF                  text = { .max = MAX_SAMPLING_BYTES };
        struct json_writer           w = { .out = &text };

        json_begin_object(&w);
        put_json_input(q, part->first_text, &w);
        if (q->dimensions.json.ptr != NULL && !p->map->model->truncates) {
                json_member_object(&w, "pooling_params");
                json_member_array(&w, "dimensions");
                json_put_i64(&w, q->dimensions.integer);
                json_end_array(&w);
                json_end_object(&w);
        }
        json_end_object(&w);
        TRY(check_made(&text, "the texts"));
        TRY(put_text(p, "embedding_request", strbuf_str(&text)));
        TRY(put_flag(p, "return_num_input_tokens", true));
        return put_flag(p, "return_num_output_tokens", true);
}

/* ---- trtllm, llmapi ---- */

static struct error *refuse_logprobs_and_bias(const struct part_map *p) {
        const struct openai_request *q = p->map->q;

        if (q->wants_logprobs)
                return refuse_member(p, "logprobs");
        return q->logit_bias.ptr != NULL ? refuse_member(p, "logit_bias") : NULL;
}

/* A model without that input has its own rule, which may be not to repeat the prompt. */
static struct error *put_echo(const struct part_map *p, const char *name) {
        if (p->map->q->echoes && !openai_model_takes(p->map->model, name))
                return refuse_member(p, "echo");
        return put_flag(p, name, !p->map->q->echoes);
}

static struct error *put_stops(const struct part_map *p, const char *name) {
        const struct openai_request *q = p->map->q;

        if (q->n_stops == 0)
                return NULL;
        if (!openai_model_takes(p->map->model, name))
                return refuse_member(p, "stop");
        return put_texts(p, name, q->stops, q->n_stops);
}

static struct error *put_guide(const struct part_map *p) {
        const struct openai_request *q = p->map->q;

        if (q->response_format.ptr == NULL && q->tool.name.ptr == NULL)
                return NULL;
        if (!can_constrain(p))
                return refuse_member(p, "response_format");
        if (q->wants_any_object)
                return put_text(p, "guided_decoding_guide_type", STR_LIT("json"));
        TRY(put_text(p, "guided_decoding_guide_type", STR_LIT("json_schema")));
        return put_text(p, "guided_decoding_guide", schema_of(q));
}

/* An option that some members name differently in a format. */
struct number_row {
        const char *member;
        const char *input;
        size_t      at;
};

#define ROW(member, input)                                                                         \
        { #member, input, offsetof(struct openai_request, member) }

static struct error *put_numbers(const struct part_map *p, const struct number_row *rows,
                                 size_t n_rows) {
        for (size_t i = 0; i < n_rows; i++)
                TRY(put_number(p, rows[i].member, rows[i].input,
                               (const struct openai_number *)((const char *)p->map->q +
                                                              rows[i].at)));
        return NULL;
}

static struct error *fill_trtllm(const struct part_map *p, const struct openai_part *part) {
        static const struct number_row rows[] = {
                ROW(temperature, "temperature"),
                ROW(top_p, "top_p"),
                ROW(frequency_penalty, "frequency_penalty"),
                ROW(presence_penalty, "presence_penalty"),
        };
        const struct openai_request *q = p->map->q;
        const struct openai_number   seed = seed_of(p, part);

        TRY(check_tools(p));
        TRY(refuse_logprobs_and_bias(p));
        TRY(put_prompt(p, part));
        TRY(put_flag(p, "stream", q->is_stream));
        TRY(put_max_tokens(p, "max_tokens"));
        TRY(put_numbers(p, rows, ARRAY_LEN(rows)));
        TRY(put_number(p, "seed", "seed", &seed));
        TRY(put_stops(p, "stop_words"));
        if (part->n_choices > 1)
                TRY(put_scalar(p, "n", "num_return_sequences", part->n_choices, part->n_choices));
        TRY(put_echo(p, "exclude_input_in_output"));
        TRY(put_guide(p));
        return ask_for_counts(p);
}

static struct error *fill_llmapi(const struct part_map *p, const struct openai_part *part) {
        static const struct number_row rows[] = {
                ROW(temperature, "sampling_param_temperature"),
                ROW(top_p, "sampling_param_top_p"),
                ROW(frequency_penalty, "sampling_param_frequency_penalty"),
                ROW(presence_penalty, "sampling_param_presence_penalty"),
        };
        const struct openai_request *q = p->map->q;
        const struct openai_number   seed = seed_of(p, part);

        TRY(check_tools(p));
        TRY(refuse_logprobs_and_bias(p));
        if (q->response_format.ptr != NULL)
                return refuse_member(p, "response_format");
        TRY(put_prompt(p, part));
        TRY(put_flag(p, "streaming", q->is_stream));
        TRY(put_max_tokens(p, "sampling_param_max_tokens"));
        TRY(put_numbers(p, rows, ARRAY_LEN(rows)));
        TRY(put_number(p, "seed", "sampling_param_seed", &seed));
        TRY(put_stops(p, "sampling_param_stop"));
        TRY(put_echo(p, "sampling_param_exclude_input_from_output"));
        return ask_for_counts(p);
}

/* ---- openai, embed ---- */

static struct error *fill_openai(const struct part_map *p) {
        struct infer_input *in;
        struct str          text;
        size_t              bytes;
        uint32_t            len;
        char               *at;

        TRY(add_input(p, "openai_request", 1, 1, &in));
        bytes = openai_prompt_measure(p->map->q);
        if (bytes > UINT32_MAX)
                return infer_no_memory();
        TRY(take_memory(p, in, sizeof(len) + bytes, &at));
        text = openai_prompt_print(p->map->q, at + sizeof(len));
        len = (uint32_t)text.len;
        memcpy(at, &len, sizeof(len));
        in->bytes.len = sizeof(len) + len;
        return NULL;
}

static struct error *fill_embed(const struct part_map *p, const struct openai_part *part) {
        const struct openai_request *q = p->map->q;
        const struct openai_model   *m = p->map->model;

        TRY(put_rows(p, m->input, &q->texts[part->first_text], part->n_texts, part->n_texts));
        if (q->dimensions.json.ptr == NULL || m->truncates)
                return NULL;
        return put_number(p, "dimensions", "dimensions", &q->dimensions);
}

/* Only vLLM's model knows adapters by their names; one that speaks the API reads the name of the model. */
static struct error *check_lora(const struct part_map *p) {
        const struct openai_request *q = p->map->q;

        if (q->lora.ptr == NULL || p->map->model->format == OPENAI_FORMAT_OPENAI ||
            (p->map->model->format == OPENAI_FORMAT_VLLM && q->endpoint != OPENAI_EMBEDDINGS))
                return NULL;
        return openai_fault("model", "model '%s' takes no LoRA adapter such as '%.*s'",
                            p->map->model->name, STR_ARG(q->lora));
}

static struct error *fill_inputs(const struct part_map *p, const struct openai_part *part) {
        TRY(check_lora(p));
        switch (p->map->model->format) {
        case OPENAI_FORMAT_VLLM:
                return p->map->q->endpoint == OPENAI_EMBEDDINGS ? fill_vllm_embedding(p, part)
                                                                : fill_vllm(p, part);
        case OPENAI_FORMAT_TRTLLM: return fill_trtllm(p, part);
        case OPENAI_FORMAT_LLMAPI: return fill_llmapi(p, part);
        case OPENAI_FORMAT_EMBED: return fill_embed(p, part);
        default: return fill_openai(p);
        }
}

struct error *openai_map_fill(const struct openai_map *map, const struct openai_part *part,
                              struct infer_request *ret) {
        const struct part_map p = { map, ret };
        struct error         *err;

        infer_request_init(ret);
        err = fill_inputs(&p, part);
        if (err != NULL)
                infer_request_done(ret);
        return err;
}
