/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/request_language.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "load/request_private.h"
#include "load/wire.h"

#include <stdlib.h>

struct maker {
        const struct language_request_options *o;
        struct request_parameter              *parameters; /* owned */
        struct request_set                    *set;
};

/* ---- the OpenAI API ---------------------------------------------------------------------------- */

static void put_messages(struct json_writer *w, struct str prompt) {
        json_member_array(w, "messages");
        json_begin_object(w);
        json_member_string(w, "role", "user");
        json_member_str(w, "content", prompt);
        json_end_object(w);
        json_end_array(w);
}

/* Texts from the `first` on, in turn. */
static void put_input(const struct maker *k, struct json_writer *w, size_t first) {
        const struct prompt_set *s = k->o->prompts;

        if (k->o->batch == 1) {
                json_member_str(w, "input", s->items[first]);
                return;
        }
        json_member_array(w, "input");
        for (uint64_t i = 0; i < k->o->batch; i++)
                json_put_str(w, s->items[(first + i) % s->n]);
        json_end_array(w);
}

static void put_stream(const struct maker *k, struct json_writer *w) {
        if (!k->o->is_whole) {
                json_member_bool(w, "stream", true);
                json_member_object(w, "stream_options");
                json_member_bool(w, "include_usage", true);
                json_end_object(w);
        }
        if (k->o->max_tokens > 0)
                json_member_u64(w, "max_tokens", k->o->max_tokens);
}

static void put_openai(const struct maker *k, struct json_writer *w, size_t first) {
        json_member_string(w, "model", k->o->model->name);
        switch (k->o->endpoint) {
        case LANGUAGE_CHAT: put_messages(w, k->o->prompts->items[first]); break;
        case LANGUAGE_COMPLETIONS: json_member_str(w, "prompt", k->o->prompts->items[first]); break;
        default: put_input(k, w, first); return;
        }
        put_stream(k, w);
}

/* ---- generate_stream --------------------------------------------------------------------------- */

static bool takes(const struct maker *k, struct str input) {
        return load_model_input(k->o->model, input) != NULL;
}

static void put_flag(const struct maker *k, struct json_writer *w, const char *input) {
        if (takes(k, str_of(input)))
                json_member_bool(w, input, true);
}

/* The limit has another place in each form of models (docs/language_models.md). */
static struct error *put_max_tokens(const struct maker *k, struct json_writer *w) {
        static const char *const inputs[] = { "max_tokens", "sampling_param_max_tokens" };
        AUTO_CHARS               sampling = NULL;

        if (k->o->max_tokens == 0)
                return NULL;
        for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
                if (takes(k, str_of(inputs[i]))) {
                        json_member_u64(w, inputs[i], k->o->max_tokens);
                        return NULL;
                }
        if (!takes(k, STR_LIT("sampling_parameters")))
                return error_new(ERR_INVALID_ARG,
                                 "--output-tokens: model '%s' has no input for a limit of tokens",
                                 k->o->model->name);
        sampling = mem_printf("{\"max_tokens\":%llu}", (unsigned long long)k->o->max_tokens);
        json_member_string(w, "sampling_parameters", sampling);
        return NULL;
}

static struct error *put_generate(const struct maker *k, struct json_writer *w, size_t first) {
        if (!takes(k, STR_LIT("text_input")))
                return error_new(ERR_INVALID_ARG,
                                 "--endpoint generate: model '%s' has no input 'text_input'; "
                                 "--language takes models of any inputs",
                                 k->o->model->name);
        json_member_str(w, "text_input", k->o->prompts->items[first]);
        put_flag(k, w, "stream");
        put_flag(k, w, "streaming");
        put_flag(k, w, "return_num_input_tokens");
        put_flag(k, w, "return_num_output_tokens");
        return put_max_tokens(k, w);
}

/* ---- a request --------------------------------------------------------------------------------- */

static struct error *put_body(const struct maker *k, size_t first, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        if (k->o->endpoint == LANGUAGE_GENERATE)
                TRY(put_generate(k, &w, first));
        else
                put_openai(k, &w, first);
        for (size_t i = 0; i < k->o->n_parameters; i++)
                request_parameter_put(&w, &k->parameters[i]);
        json_end_object(&w);
        return strbuf_check(out, "a request");
}

static void put_path(const struct maker *k, struct strbuf *out) {
        const char *path = language_endpoint_path(k->o->endpoint);

        if (path != NULL) {
                strbuf_puts(out, path);
                return;
        }
        wire_put_model_path(k->o->model->name, k->o->model->version, out);
        strbuf_puts(out, "/generate_stream");
}

static struct error *make_one(struct maker *k, size_t first) {
        struct request_set *s = k->set;
        struct strbuf      *bytes = &s->texts[2 * s->n];
        AUTO_STRBUF         body = { 0 }, path = { 0 };

        s->entries[s->n] = first;
        s->n++;
        TRY(put_body(k, first, &body));
        put_path(k, &path);
        wire_put_post(k->o->target, strbuf_str(&path), strbuf_str(&body), bytes);
        s->messages[s->n - 1] = (struct wire_message){
                .before = strbuf_str(bytes),
                .is_events = !k->o->is_whole && k->o->endpoint != LANGUAGE_EMBEDDINGS,
        };
        return strbuf_check(bytes, "a request");
}

/* ---- all requests ------------------------------------------------------------------------------ */

static struct error *make_all(struct maker *k, size_t n) {
        size_t total = 0;

        for (size_t i = 0; i < k->o->n_parameters; i++)
                TRY(request_parameter_read(k->o->parameters[i], &k->parameters[i]));
        for (size_t i = 0; i < n; i++) {
                TRY(make_one(k, (size_t)(i * k->o->batch % k->o->prompts->n)));
                total += k->set->texts[2 * i].len;
                if (total > REQUEST_SET_MAX_BYTES)
                        return error_new_text(ERR_INVALID_ARG,
                                              "the requests have more than 4 GiB: fewer or shorter "
                                              "prompts");
        }
        return NULL;
}

struct error *request_set_make_language(const struct language_request_options *o,
                                        struct request_set                    *ret) {
        struct maker  k = { .o = o, .set = ret };
        size_t        n = o->prompts->n;
        struct error *err;

        *ret = (struct request_set){ .protocol = TARGET_HTTP };
        ret->messages = mem_zalloc(n * sizeof(*ret->messages));
        ret->entries = mem_zalloc(n * sizeof(*ret->entries));
        ret->texts = mem_zalloc(2 * n * sizeof(*ret->texts));
        k.parameters = mem_zalloc((o->n_parameters + 1) * sizeof(*k.parameters));
        err = make_all(&k, n);
        free(k.parameters);
        if (err != NULL)
                request_set_done(ret);
        return err;
}
