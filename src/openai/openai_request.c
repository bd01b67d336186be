/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_request.h"

#include "base/compiler.h"
#include "call/infer_message.h"
#include "codec/json_reader.h"

#include <math.h>
#include <string.h>

struct body_reader {
        struct json_reader     json;
        struct arena          *arena;
        struct openai_request *q;
        bool                   has_stream_options;
};

struct member_rule;

/* Reads a value that is not null. After an error the rest of it need not be consumed. */
typedef struct error *(*read_fn)(struct body_reader *r, const struct member_rule *rule);

enum {
        IN_CHAT = 1 << OPENAI_CHAT,
        IN_TEXT = 1 << OPENAI_COMPLETIONS,
        IN_EMBED = 1 << OPENAI_EMBEDDINGS
};
#define IN_BOTH (IN_CHAT | IN_TEXT)
#define IN_ALL (IN_BOTH | IN_EMBED)
#define NO_SEED (-1)

struct member_rule {
        const char *name;
        unsigned    endpoints;
        read_fn     read;
        size_t      at; /* offset of the member in struct openai_request */
        double      min, max;
};

static void *member_place(struct body_reader *r, const struct member_rule *rule) {
        return (char *)r->q + rule->at;
}

/* The part of a client's text that an error quotes. */
static struct str shown(struct str text) {
        return str_range(text.ptr, MIN(text.len, (size_t)OPENAI_MAX_SHOWN));
}

/* ---- scalars ---- */

static struct error *wrong_type(const char *name, const char *expected) {
        return openai_fault(name, "'%s' must be %s", name, expected);
}

static struct error *read_number(struct body_reader *r, const struct member_rule *rule) {
        struct openai_number *to = member_place(r, rule);
        struct json_reader    before = r->json;
        struct json_number    number;
        struct str            text;

        if (json_peek(&r->json) != JSON_NUMBER)
                return wrong_type(rule->name, "a number");
        number = json_read_number(&before);
        text = json_skip(&r->json);
        if (!(number.real >= rule->min && number.real <= rule->max))
                return openai_fault(rule->name, "'%s' must be between %.10g and %.10g, not %.*s",
                                    rule->name, rule->min, rule->max, STR_ARG(shown(text)));
        *to = (struct openai_number){ .json = text, .value = number.real };
        return NULL;
}

/* Integers may be written as decimals, as some clients do: 16.0. */
static struct error *read_integer(struct body_reader *r, const struct member_rule *rule) {
        struct openai_number *to = member_place(r, rule);

        if (json_peek(&r->json) != JSON_NUMBER)
                return wrong_type(rule->name, "an integer");
        TRY(read_number(r, rule));
        if (to->value != (double)(int64_t)to->value)
                return openai_fault(rule->name, "'%s' must be an integer", rule->name);
        to->integer = (int64_t)to->value;
        return NULL;
}

/* Seeds have up to 63 bits, more than a double holds. One that is written as a decimal, 7.0, is a double. Clients
 * of vLLM and llama.cpp send -1 for none. */
static struct error *read_seed(struct body_reader *r, const struct member_rule *rule) {
        struct openai_number *to = member_place(r, rule);
        struct json_reader    before = r->json;
        struct json_number    number;

        if (json_peek(&r->json) != JSON_NUMBER)
                return wrong_type(rule->name, "an integer");
        number = json_read_number(&before);
        *to = (struct openai_number){ .json = json_skip(&r->json), .value = number.real };
        if (number.is_integer && number.magnitude <= INT64_MAX)
                to->integer =
                        number.is_negative ? -(int64_t)number.magnitude : (int64_t)number.magnitude;
        else if (!number.is_integer && fabs(number.real) < 0x1p63 &&
                 number.real == (double)(int64_t)number.real)
                to->integer = (int64_t)number.real;
        else
                return openai_fault(rule->name, "'%s' must be an integer of at most 63 bits",
                                    rule->name);
        if (to->integer == NO_SEED)
                *to = (struct openai_number){ .value = 0.0 };
        return NULL;
}

static struct error *read_flag(struct body_reader *r, const struct member_rule *rule) {
        bool *to = member_place(r, rule);

        if (json_peek(&r->json) != JSON_BOOL)
                return wrong_type(rule->name, "true or false");
        *to = json_read_bool(&r->json);
        return NULL;
}

static struct error *read_text(struct body_reader *r, const char *name, struct str *ret) {
        if (json_peek(&r->json) != JSON_STRING)
                return wrong_type(name, "a string");
        *ret = json_read_string(&r->json, r->arena);
        return NULL;
}

static struct error *read_model(struct body_reader *r, const struct member_rule *rule) {
        struct str name;

        TRY(read_text(r, rule->name, &name));
        if (json_failed(&r->json))
                return NULL;
        if (name.len == 0 || memchr(name.ptr, '\0', name.len) != NULL)
                return openai_fault(rule->name, "'model' must name a model");
        if (name.len > OPENAI_MAX_MODEL_BYTES)
                return openai_fault(rule->name, "'model' has %zu bytes, at most %d are allowed",
                                    name.len, OPENAI_MAX_MODEL_BYTES);
        r->q->model = arena_try_str(r->arena, name);
        return r->q->model != NULL ? NULL : infer_no_memory();
}

/* Members without an effect here: the user, and whether OpenAI keeps the request. */
static struct error *read_nothing(struct body_reader *r, const struct member_rule *rule) {
        (void)rule;
        json_skip(&r->json);
        return NULL;
}

static struct error *read_json(struct body_reader *r, const struct member_rule *rule) {
        *(struct str *)member_place(r, rule) = json_skip(&r->json);
        return NULL;
}

static struct error *read_string(struct body_reader *r, const struct member_rule *rule) {
        return read_text(r, rule->name, member_place(r, rule));
}

/* ---- biases ---- */

static bool is_token_id(struct str key) {
        uint64_t id;

        return str_to_u64(key, &id) && id <= INT32_MAX;
}

/* True also for a number that cannot be read: who reads on reports it. */
static bool is_bias(struct json_reader at) {
        struct json_number bias;

        if (json_peek(&at) != JSON_NUMBER)
                return false;
        bias = json_read_number(&at);
        return json_failed(&at) || (bias.real >= -100 && bias.real <= 100);
}

static struct error *check_bias(struct body_reader *r, struct str key) {
        if (!is_token_id(key))
                return openai_fault("logit_bias",
                                    "'logit_bias' has the member '%.*s', which is no token id",
                                    STR_ARG(shown(key)));
        if (!is_bias(r->json))
                return openai_fault("logit_bias", "a bias must be a number between -100 and 100");
        json_skip(&r->json);
        return NULL;
}

/* An engine may answer 500 to a wrong one, which clients send again. */
static struct error *read_biases(struct body_reader *r, const struct member_rule *rule) {
        struct json_reader before = r->json;
        struct str         key;

        if (!json_try_enter(&r->json, JSON_OBJECT))
                return wrong_type(rule->name, "an object");
        while (json_next_key(&r->json, r->arena, &key))
                TRY(check_bias(r, key));
        r->q->logit_bias = json_skip(&before);
        return NULL;
}

/* ---- lists of texts ---- */

static struct error *push_text(struct body_reader *r, struct str **list, uint32_t *n,
                               struct str text) {
        TRY(infer_array_grow(r->arena, (void **)list, *n, sizeof(**list)));
        (*list)[(*n)++] = text;
        return NULL;
}

static struct error *check_stop(struct str stop) {
        if (stop.len == 0 || stop.len > OPENAI_MAX_STOP_BYTES)
                return openai_fault("stop", "a stop word has %zu bytes, 1 to %d are allowed",
                                    stop.len, OPENAI_MAX_STOP_BYTES);
        return NULL;
}

static struct error *add_stop(struct body_reader *r) {
        struct str stop;

        TRY(read_text(r, "stop", &stop));
        if (json_failed(&r->json))
                return NULL;
        TRY(check_stop(stop));
        if (r->q->n_stops == OPENAI_MAX_STOPS)
                return openai_fault("stop", "'stop' lists more than %d words", OPENAI_MAX_STOPS);
        return push_text(r, &r->q->stops, &r->q->n_stops, stop);
}

static struct error *read_stop(struct body_reader *r, const struct member_rule *rule) {
        r->q->stops = NULL;
        r->q->n_stops = 0;
        if (json_peek(&r->json) == JSON_STRING)
                return add_stop(r);
        if (!json_try_enter(&r->json, JSON_ARRAY))
                return wrong_type(rule->name, "a string or a list of strings");
        while (json_next_element(&r->json))
                TRY(add_stop(r));
        return NULL;
}

static struct error *add_text(struct body_reader *r, const char *name) {
        struct str text = json_read_string(&r->json, r->arena);

        if (json_failed(&r->json))
                return NULL;
        if (r->q->n_texts == OPENAI_MAX_TEXTS)
                return openai_fault(name, "'%s' lists more than %d texts", name, OPENAI_MAX_TEXTS);
        return push_text(r, &r->q->texts, &r->q->n_texts, text);
}

static struct error *add_token_list(struct body_reader *r, const char *name, struct str list) {
        if (r->q->n_token_lists == OPENAI_MAX_TEXTS)
                return openai_fault(name, "'%s' has more than %d lists of token ids", name,
                                    OPENAI_MAX_TEXTS);
        return push_text(r, &r->q->token_lists, &r->q->n_token_lists, list);
}

/* A token id, or a list of them. An array has elements of one of these kinds. */
static struct error *read_token_ids(struct body_reader *r, const char *name, bool is_list) {
        bool       has_lists = r->q->n_token_lists > 0;
        struct str json = json_skip(&r->json);

        if (r->q->has_token_ids && has_lists != is_list)
                return openai_fault(name, "'%s' mixes token ids and lists of them", name);
        r->q->has_token_ids = true;
        return is_list && !json_failed(&r->json) ? add_token_list(r, name, json) : NULL;
}

/* One element of "prompt" or "input": a text, a token id or a list of these. */
static struct error *read_text_element(struct body_reader *r, const char *name) {
        switch (json_peek(&r->json)) {
        case JSON_STRING: return add_text(r, name);
        case JSON_ARRAY: return read_token_ids(r, name, true);
        case JSON_NUMBER: return read_token_ids(r, name, false);
        default: return wrong_type(name, "a string, a list of strings, or token ids");
        }
}

static struct error *read_texts(struct body_reader *r, const struct member_rule *rule) {
        struct json_reader whole = r->json;

        r->q->texts = r->q->token_lists = NULL;
        r->q->n_texts = r->q->n_token_lists = 0;
        r->q->has_token_ids = false;
        if (json_peek(&r->json) == JSON_STRING)
                return add_text(r, rule->name);
        if (!json_try_enter(&r->json, JSON_ARRAY))
                return wrong_type(rule->name, "a string, a list of strings, or token ids");
        while (json_next_element(&r->json))
                TRY(read_text_element(r, rule->name));
        if (r->q->n_texts > 0 && r->q->has_token_ids)
                return openai_fault(rule->name, "'%s' mixes texts and token ids", rule->name);
        if (r->q->has_token_ids && r->q->n_token_lists == 0)
                return add_token_list(r, rule->name, json_skip(&whole));
        return NULL;
}

/* ---- messages ---- */

static bool is_role(struct str role) {
        return STR_IS(role, "system") || STR_IS(role, "developer") || STR_IS(role, "user") ||
               STR_IS(role, "assistant") || STR_IS(role, "tool");
}

static struct error *refuse_message(unsigned at, const char *member, const char *text) {
        return error_at(error_new_text(ERR_INVALID_ARG, text), "messages[%u].%s", at, member);
}

/* A part of a content: {"type":"text","text":"..."}. */
static struct error *read_part(struct body_reader *r, unsigned at) {
        bool       has_text = false;
        struct str key, type = { NULL, 0 };

        if (!json_try_enter(&r->json, JSON_OBJECT))
                return refuse_message(at, "content", "a part of a content must be an object");
        while (json_next_key(&r->json, r->arena, &key)) {
                if (STR_IS(key, "type") && json_peek(&r->json) == JSON_STRING) {
                        type = json_read_string(&r->json, r->arena);
                        continue;
                }
                has_text = has_text || (STR_IS(key, "text") && json_peek(&r->json) == JSON_STRING);
                json_skip(&r->json);
        }
        if (json_failed(&r->json) || (STR_IS(type, "text") && has_text))
                return NULL;
        return error_at(error_new(ERR_INVALID_ARG,
                                  "a content has a part of the type '%.*s': only text is supported",
                                  STR_ARG(shown(type))),
                        "messages[%u].content", at);
}

static struct error *read_content(struct body_reader *r, unsigned at) {
        enum json_type type = json_peek(&r->json);

        if (type == JSON_STRING || type == JSON_NULL) {
                json_skip(&r->json);
                return NULL;
        }
        if (!json_try_enter(&r->json, JSON_ARRAY))
                return refuse_message(at, "content",
                                      "a content must be a string, null or a list of parts");
        while (json_next_element(&r->json))
                TRY(read_part(r, at));
        return NULL;
}

static struct error *read_role(struct body_reader *r, unsigned at, bool *ret_has_role) {
        struct str role;

        if (json_peek(&r->json) != JSON_STRING)
                return refuse_message(at, "role", "a role must be a string");
        role = json_read_string(&r->json, r->arena);
        *ret_has_role = true;
        if (json_failed(&r->json) || is_role(role))
                return NULL;
        return error_at(error_new(ERR_INVALID_ARG,
                                  "the role '%.*s' is unknown: system, developer, user, assistant "
                                  "and tool are known",
                                  STR_ARG(shown(role))),
                        "messages[%u].role", at);
}

static struct error *read_message(struct body_reader *r, unsigned at) {
        bool       has_role = false;
        struct str key;

        if (!json_try_enter(&r->json, JSON_OBJECT))
                return error_at(error_new_text(ERR_INVALID_ARG, "a message must be an object"),
                                "messages[%u]", at);
        while (json_next_key(&r->json, r->arena, &key)) {
                if (STR_IS(key, "role"))
                        TRY(read_role(r, at, &has_role));
                else if (STR_IS(key, "content"))
                        TRY(read_content(r, at));
                else
                        json_skip(&r->json);
        }
        return has_role ? NULL : refuse_message(at, "role", "a message needs a role");
}

static struct error *read_messages(struct body_reader *r, const struct member_rule *rule) {
        struct json_reader before = r->json;
        unsigned           n = 0;

        if (!json_try_enter(&r->json, JSON_ARRAY))
                return wrong_type(rule->name, "a list of messages");
        for (; json_next_element(&r->json); n++) {
                if (n == OPENAI_MAX_MESSAGES)
                        return openai_fault(rule->name, "'messages' lists more than %d messages",
                                            OPENAI_MAX_MESSAGES);
                TRY(read_message(r, n));
        }
        if (n == 0)
                return openai_fault(rule->name, "'messages' must not be empty");
        r->q->messages = json_skip(&before);
        return NULL;
}

/* ---- tools and forms of the answer ---- */

struct error *openai_schema_check(struct str schema, const char *param) {
        bool     is_text = false;
        unsigned depth = 0;

        if (schema.len > OPENAI_MAX_SCHEMA_BYTES)
                return openai_fault(param, "the JSON schema has %zu bytes, at most %zu are allowed",
                                    schema.len, OPENAI_MAX_SCHEMA_BYTES);
        for (size_t i = 0; i < schema.len; i++) {
                char c = schema.ptr[i];

                if (c == '"')
                        is_text = !is_text;
                else if (is_text)
                        i += c == '\\';
                else if (c == '{' || c == '[')
                        depth++;
                else if (c == '}' || c == ']')
                        depth--;
                if (depth > OPENAI_MAX_SCHEMA_DEPTH)
                        return openai_fault(param, "the JSON schema has more than %d levels",
                                            OPENAI_MAX_SCHEMA_DEPTH);
        }
        return NULL;
}

/* The member "schema" of an object; ptr NULL when it has none. */
static struct str find_schema(struct body_reader *r) {
        struct str schema = { NULL, 0 }, key;

        if (!json_try_enter(&r->json, JSON_OBJECT)) {
                json_skip(&r->json);
                return schema;
        }
        while (json_next_key(&r->json, r->arena, &key)) {
                bool       is_schema = STR_IS(key, "schema") && json_peek(&r->json) == JSON_OBJECT;
                struct str value = json_skip(&r->json);

                if (is_schema)
                        schema = value;
        }
        return schema;
}

static struct error *read_response_format(struct body_reader *r, const struct member_rule *rule) {
        struct json_reader before = r->json;
        struct str         type = { NULL, 0 }, schema = { NULL, 0 }, key;

        r->q->response_format = r->q->schema = schema; /* of a member that is given again */
        r->q->wants_any_object = false;
        if (!json_try_enter(&r->json, JSON_OBJECT))
                return wrong_type(rule->name, "an object");
        while (json_next_key(&r->json, r->arena, &key)) {
                if (STR_IS(key, "type") && json_peek(&r->json) == JSON_STRING)
                        type = json_read_string(&r->json, r->arena);
                else if (STR_IS(key, "json_schema"))
                        schema = find_schema(r);
                else
                        json_skip(&r->json);
        }
        if (json_failed(&r->json) || STR_IS(type, "text"))
                return NULL;
        r->q->response_format = json_skip(&before);
        if (STR_IS(type, "json_object")) {
                r->q->wants_any_object = true;
                return NULL;
        }
        if (!STR_IS(type, "json_schema"))
                return openai_fault(rule->name,
                                    "'response_format' has the type '%.*s': text, json_object and "
                                    "json_schema are supported",
                                    STR_ARG(shown(type)));
        if (schema.ptr == NULL)
                return openai_fault(rule->name, "'response_format' of the type json_schema needs "
                                                "json_schema.schema, an object");
        r->q->schema = schema;
        return openai_schema_check(schema, rule->name);
}

static struct error *read_tools(struct body_reader *r, const struct member_rule *rule) {
        struct json_reader before = r->json;
        unsigned           n = 0;

        if (!json_try_enter(&r->json, JSON_ARRAY))
                return wrong_type(rule->name, "a list of tools");
        for (; json_next_element(&r->json); n++) {
                if (json_peek(&r->json) != JSON_OBJECT)
                        return openai_fault(rule->name, "a tool must be an object");
                json_skip(&r->json);
        }
        if (n > OPENAI_MAX_TOOLS)
                return openai_fault(rule->name, "'tools' lists %u tools, at most %d are allowed", n,
                                    OPENAI_MAX_TOOLS);
        r->q->tools = n > 0 ? json_skip(&before) : str_range(NULL, 0);
        return NULL;
}

static struct error *read_stream_options(struct body_reader *r, const struct member_rule *rule) {
        struct str key;

        r->has_stream_options = true;
        if (!json_try_enter(&r->json, JSON_OBJECT))
                return wrong_type(rule->name, "an object");
        while (json_next_key(&r->json, r->arena, &key)) {
                if (!STR_IS(key, "include_usage") || json_peek(&r->json) == JSON_NULL)
                        json_skip(&r->json);
                else if (json_peek(&r->json) == JSON_BOOL)
                        r->q->includes_usage = json_read_bool(&r->json);
                else
                        return wrong_type("stream_options.include_usage", "true or false");
        }
        return NULL;
}

static struct error *read_encoding(struct body_reader *r, const struct member_rule *rule) {
        struct str form;

        TRY(read_text(r, rule->name, &form));
        r->q->is_base64 = STR_IS(form, "base64");
        if (r->q->is_base64 || STR_IS(form, "float") || json_failed(&r->json))
                return NULL;
        return openai_fault(rule->name, "'encoding_format' must be 'float' or 'base64'");
}

/* "logprobs" of completions is a number, that of chat a flag. */
static struct error *read_text_logprobs(struct body_reader *r, const struct member_rule *rule) {
        TRY(read_integer(r, rule));
        r->q->wants_logprobs = true;
        return NULL;
}

/* ---- the table of members ---- */

#define AT(member) offsetof(struct openai_request, member)
#define MAX_TOKENS 1e9 /* more than any context, and an INT32 holds it */

static const struct member_rule rules[] = {
        { "model", IN_ALL, read_model, 0, 0, 0 },
        { "messages", IN_CHAT, read_messages, 0, 0, 0 },
        { "prompt", IN_TEXT, read_texts, 0, 0, 0 },
        { "input", IN_EMBED, read_texts, 0, 0, 0 },
        { "stream", IN_BOTH, read_flag, AT(is_stream), 0, 0 },
        { "stream_options", IN_BOTH, read_stream_options, 0, 0, 0 },
        { "max_tokens", IN_BOTH, read_integer, AT(max_tokens), 1, MAX_TOKENS },
        { "max_completion_tokens", IN_CHAT, read_integer, AT(max_completion_tokens), 1,
          MAX_TOKENS },
        { "temperature", IN_BOTH, read_number, AT(temperature), 0, 2 },
        { "top_p", IN_BOTH, read_number, AT(top_p), 0, 1 },
        { "frequency_penalty", IN_BOTH, read_number, AT(frequency_penalty), -2, 2 },
        { "presence_penalty", IN_BOTH, read_number, AT(presence_penalty), -2, 2 },
        { "seed", IN_BOTH, read_seed, AT(seed), 0, 0 },
        { "stop", IN_BOTH, read_stop, 0, 0, 0 },
        { "n", IN_BOTH, read_integer, AT(n), 1, OPENAI_MAX_CHOICES },
        { "best_of", IN_TEXT, read_integer, AT(best_of), 1, OPENAI_MAX_CHOICES },
        { "echo", IN_TEXT, read_flag, AT(echoes), 0, 0 },
        { "logprobs", IN_TEXT, read_text_logprobs, AT(n_logprobs), 0, 5 },
        { "logprobs", IN_CHAT, read_flag, AT(wants_logprobs), 0, 0 },
        { "top_logprobs", IN_CHAT, read_integer, AT(n_logprobs), 0, OPENAI_MAX_TOP },
        { "logit_bias", IN_BOTH, read_biases, 0, 0, 0 },
        { "response_format", IN_BOTH, read_response_format, 0, 0, 0 },
        { "tools", IN_CHAT, read_tools, 0, 0, 0 },
        { "tool_choice", IN_CHAT, read_json, AT(tool_choice), 0, 0 },
        { "suffix", IN_TEXT, read_string, AT(suffix), 0, 0 },
        { "modalities", IN_CHAT, read_json, AT(modalities), 0, 0 },
        { "audio", IN_CHAT, read_json, AT(audio), 0, 0 },
        { "encoding_format", IN_EMBED, read_encoding, 0, 0, 0 },
        { "dimensions", IN_EMBED, read_integer, AT(dimensions), 1, 1 << 20 },
        { "user", IN_ALL, read_nothing, 0, 0, 0 },
        { "store", IN_BOTH, read_nothing, 0, 0, 0 },
        { "metadata", IN_BOTH, read_nothing, 0, 0, 0 },
        { "service_tier", IN_BOTH, read_nothing, 0, 0, 0 },
        { "parallel_tool_calls", IN_CHAT, read_nothing, 0, 0, 0 },
        { "prompt_cache_key", IN_BOTH, read_nothing, 0, 0, 0 },
        { "safety_identifier", IN_ALL, read_nothing, 0, 0, 0 },
};

static const struct member_rule *find_rule(struct str key, enum openai_endpoint endpoint) {
        for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if ((rules[i].endpoints & 1u << endpoint) != 0 && str_is(key, rules[i].name))
                        return &rules[i];
        return NULL;
}

static struct error *keep_other(struct body_reader *r, struct str key) {
        struct openai_request *q = r->q;
        struct str             json = json_skip(&r->json);

        if (json_failed(&r->json))
                return NULL;
        if (q->n_others == OPENAI_MAX_OTHERS)
                return error_new(ERR_INVALID_ARG, "the body has more than %d unknown members",
                                 OPENAI_MAX_OTHERS);
        TRY(infer_array_grow(r->arena, (void **)&q->others, q->n_others, sizeof(*q->others)));
        q->others[q->n_others++] = (struct openai_member){ key, json };
        return NULL;
}

static struct error *read_value(struct body_reader *r, struct str key) {
        const struct member_rule *rule = find_rule(key, r->q->endpoint);

        if (json_peek(&r->json) == JSON_NULL) {
                json_skip(&r->json);
                return NULL;
        }
        return rule != NULL ? rule->read(r, rule) : keep_other(r, key);
}

/* Consumes the value in any case: an error of syntax behind a wrong value comes first, and the name of the
 * model is wanted. */
static struct error *read_member(struct body_reader *r, struct str key) {
        struct json_reader value = r->json;
        struct error      *err = read_value(r, key);

        if (err != NULL && !json_failed(&r->json)) {
                r->json = value;
                json_skip(&r->json);
        }
        return err;
}

/* ---- rules about several members ---- */

static bool names_audio(struct str modalities) {
        return modalities.ptr != NULL &&
               memmem(modalities.ptr, modalities.len, "\"audio\"", strlen("\"audio\"")) != NULL;
}

static struct error *check_missing(const struct body_reader *r) {
        const struct openai_request *q = r->q;
        const char                  *texts = q->endpoint == OPENAI_EMBEDDINGS ? "input" : "prompt";

        if (q->model == NULL)
                return openai_fault("model", "'model' is missing");
        if (q->endpoint == OPENAI_CHAT && q->messages.ptr == NULL)
                return openai_fault("messages", "'messages' is missing");
        if (q->endpoint != OPENAI_CHAT && q->n_texts == 0 && !q->has_token_ids)
                return openai_fault(texts, "'%s' is missing or empty", texts);
        return NULL;
}

static struct error *check_together(const struct body_reader *r) {
        const struct openai_request *q = r->q;

        TRY(check_missing(r));
        if (r->has_stream_options && !q->is_stream)
                return openai_fault("stream_options", "'stream_options' needs \"stream\": true");
        if (q->endpoint == OPENAI_CHAT && q->n_logprobs.json.ptr != NULL && !q->wants_logprobs)
                return openai_fault("top_logprobs", "'top_logprobs' needs \"logprobs\": true");
        if (q->best_of.integer > 1)
                return openai_fault("best_of", "'best_of' above 1 is not supported");
        if (q->suffix.len > 0)
                return openai_fault("suffix", "'suffix' is not supported");
        if (names_audio(q->modalities))
                return openai_fault("modalities", "audio is not supported");
        if (q->audio.ptr != NULL)
                return openai_fault("audio", "audio is not supported");
        return NULL;
}

static struct error *read_document(struct body_reader *r) {
        struct error *first = NULL;
        struct str    key;

        if (!json_try_enter(&r->json, JSON_OBJECT)) {
                json_skip(&r->json);
                json_read_end(&r->json);
                return error_new_text(ERR_INVALID_ARG, "the body must be a JSON object");
        }
        while (json_next_key(&r->json, r->arena, &key)) {
                if (first != NULL && !STR_IS(key, "model"))
                        json_skip(&r->json);
                else
                        error_keep_first(&first, read_member(r, key));
        }
        json_read_end(&r->json);
        return first != NULL ? first : check_together(r);
}

struct error *openai_request_read(enum openai_endpoint endpoint, struct str body,
                                  struct arena *arena, struct openai_request *ret) {
        struct body_reader r = { .arena = arena, .q = ret };
        struct error      *err;
        size_t             max;

        *ret = (struct openai_request){ .endpoint = endpoint, .body = body };
        json_reader_init(&r.json, body);
        infer_arena_limit(arena, body.len, &max);
        err = read_document(&r);
        infer_arena_release(arena, max);
        if (json_failed(&r.json)) {
                error_free(err);
                err = json_syntax_error(&r.json);
        }
        return err;
}

struct error *openai_request_split_model(struct openai_request *q, const char *separator,
                                         struct arena *arena) {
        size_t      n = strlen(separator);
        const char *at = n > 0 ? strstr(q->model, separator) : NULL;
        char       *served;

        q->served = q->model;
        if (at == NULL || at == q->model || at[n] == '\0' || strstr(at + n, separator) != NULL)
                return NULL;
        served = arena_try_str(arena, str_range(q->model, (size_t)(at - q->model)));
        if (served == NULL)
                return infer_no_memory();
        q->served = served;
        q->lora = str_of(at + n);
        return NULL;
}

uint64_t openai_request_max_tokens(const struct openai_request *q) {
        if (q->max_completion_tokens.json.ptr != NULL)
                return (uint64_t)q->max_completion_tokens.integer;
        return (uint64_t)q->max_tokens.integer;
}

uint32_t openai_request_choices(const struct openai_request *q) {
        return q->n.json.ptr != NULL ? (uint32_t)q->n.integer : 1;
}

uint32_t openai_request_prompts(const struct openai_request *q) {
        return MAX(q->n_texts, q->n_token_lists);
}
