/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/language.h"

#include "base/compiler.h"
#include "codec/json_reader.h"

static const struct {
        const char *name;
        const char *path;
} endpoints[N_LANGUAGE_ENDPOINTS] = {
        [LANGUAGE_NONE] = { "", NULL },
        [LANGUAGE_CHAT] = { "chat", "/v1/chat/completions" },
        [LANGUAGE_COMPLETIONS] = { "completions", "/v1/completions" },
        [LANGUAGE_EMBEDDINGS] = { "embeddings", "/v1/embeddings" },
        [LANGUAGE_GENERATE] = { "generate", NULL },
};

enum language_endpoint language_endpoint_find(struct str word) {
        struct str path = word;

        if (path.len > 0 && path.ptr[0] == '/')
                path = str_skip(path, 1);
        for (int i = LANGUAGE_NONE + 1; i < N_LANGUAGE_ENDPOINTS; i++)
                if (str_is(word, endpoints[i].name) ||
                    (endpoints[i].path != NULL && str_is(path, endpoints[i].path + 1)))
                        return (enum language_endpoint)i;
        return LANGUAGE_NONE;
}

const char *language_endpoint_name(enum language_endpoint endpoint) {
        return endpoints[endpoint].name;
}

const char *language_endpoint_path(enum language_endpoint endpoint) {
        return endpoints[endpoint].path;
}

/* ---- texts ------------------------------------------------------------------------------------- */

/* True for a string that is not empty. Consumes the value, as all of these do. */
static bool read_string(struct json_reader *r) {
        bool is_string = json_peek(r) == JSON_STRING;

        return json_skip(r).len > 2 && is_string;
}

/* Also a list of strings, as outputs with several elements are. */
static bool read_text(struct json_reader *r) {
        bool has_text = false;

        if (json_peek(r) != JSON_ARRAY)
                return read_string(r);
        json_enter_array(r);
        while (json_next_element(r))
                has_text = read_string(r) || has_text;
        return has_text;
}

/* A call of a tool is text, too: the model makes tokens of it. */
static bool is_text_key(struct str key) {
        return STR_IS(key, "content") || STR_IS(key, "text") || STR_IS(key, "reasoning_content") ||
               STR_IS(key, "reasoning");
}

/* The members of a choice or of its delta or message. */
static bool read_choice(struct json_reader *r) {
        bool       has_text = false;
        struct str key;

        if (!json_try_enter(r, JSON_OBJECT)) {
                json_skip(r);
                return false;
        }
        while (json_next_key(r, NULL, &key)) {
                if (STR_IS(key, "delta") || STR_IS(key, "message"))
                        has_text = read_choice(r) || has_text;
                else if (STR_IS(key, "tool_calls"))
                        has_text = json_skip(r).len > 4 || has_text; /* neither [] nor null */
                else if (is_text_key(key))
                        has_text = read_text(r) || has_text;
                else
                        json_skip(r);
        }
        return has_text;
}

static bool read_choices(struct json_reader *r) {
        bool has_text = false;

        if (!json_try_enter(r, JSON_ARRAY)) {
                json_skip(r);
                return false;
        }
        while (json_next_element(r))
                has_text = read_choice(r) || has_text;
        return has_text;
}

/* ---- tokens ------------------------------------------------------------------------------------ */

static bool read_count(struct json_reader *r, uint64_t *ret) {
        if (json_peek(r) != JSON_NUMBER) {
                json_skip(r);
                return false;
        }
        *ret = json_read_number(r).magnitude;
        return true;
}

static void read_usage(struct json_reader *r, struct language_answer *a) {
        struct str key;

        if (!json_try_enter(r, JSON_OBJECT)) {
                json_skip(r);
                return;
        }
        while (json_next_key(r, NULL, &key)) {
                if (STR_IS(key, "prompt_tokens"))
                        a->is_counted = read_count(r, &a->n_prompt_tokens) || a->is_counted;
                else if (STR_IS(key, "completion_tokens"))
                        read_count(r, &a->n_output_tokens);
                else
                        json_skip(r);
        }
}

/* A number, or a list of numbers, of one response. */
static bool read_sum(struct json_reader *r, uint64_t *sum) {
        uint64_t n = 0;
        bool     is_counted;

        if (json_peek(r) != JSON_ARRAY) {
                is_counted = read_count(r, &n);
                *sum += n;
                return is_counted;
        }
        is_counted = false;
        json_enter_array(r);
        while (json_next_element(r)) {
                n = 0;
                is_counted = read_count(r, &n) || is_counted;
                *sum += n;
        }
        return is_counted;
}

/* ---- pieces ------------------------------------------------------------------------------------ */

static void read_openai_member(struct language_answer *a, struct json_reader *r, struct str key) {
        if (STR_IS(key, "choices"))
                a->has_text = read_choices(r);
        else if (STR_IS(key, "usage"))
                read_usage(r, a);
        else
                json_skip(r);
}

static void read_generate_member(struct language_answer *a, struct json_reader *r, struct str key) {
        uint64_t prompt = 0;

        if (STR_IS(key, "text_output")) {
                a->has_text = read_text(r);
        } else if (STR_IS(key, "num_output_tokens")) {
                a->is_counted = read_sum(r, &a->n_output_tokens) || a->is_counted;
        } else if (STR_IS(key, "num_input_tokens")) {
                if (read_sum(r, &prompt)) /* each response has that of the request */
                        a->n_prompt_tokens = prompt;
        } else {
                json_skip(r);
        }
}

void language_answer_add(struct language_answer *a, enum language_endpoint endpoint,
                         struct str json) {
        struct json_reader r;
        struct str         key;

        a->has_text = false;
        a->n_pieces++;
        json_reader_init(&r, json);
        if (!json_try_enter(&r, JSON_OBJECT))
                return;
        while (json_next_key(&r, NULL, &key)) {
                if (endpoint == LANGUAGE_GENERATE)
                        read_generate_member(a, &r, key);
                else
                        read_openai_member(a, &r, key);
        }
        a->n_texts += a->has_text;
}

uint64_t language_answer_tokens(const struct language_answer *a) {
        return a->is_counted ? a->n_output_tokens : a->n_texts;
}
