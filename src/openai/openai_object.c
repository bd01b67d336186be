/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_object.h"

#include "codec/base64.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "openai/openai_error.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A number of the members of an answer or of a choice fits in the arena; texts are ranges. */
#define MAX_MEMBERS 64

struct object_members {
        struct openai_member members[MAX_MEMBERS];
        size_t               n;
        struct str           usage, error, data; /* ptr NULL = absent */
        bool                 has_choices;        /* at least one */
};

static bool is_ours(struct str key) {
        return STR_IS(key, "id") || STR_IS(key, "object") || STR_IS(key, "created") ||
               STR_IS(key, "model");
}

/* True when a delta or a message has more than a role and an empty content. */
static bool has_content(struct json_reader *r) {
        bool       found = false;
        struct str key;

        if (!json_try_enter(r, JSON_OBJECT)) {
                json_skip(r);
                return false;
        }
        while (json_next_key(r, NULL, &key)) {
                struct str value = json_skip(r);

                found = found ||
                        (!STR_IS(key, "role") && !STR_IS(value, "\"\"") && !STR_IS(value, "null"));
        }
        return found;
}

void openai_object_count_reason(struct openai_answer *a, struct str reason) {
        a->n_ended++;
        a->n_stopped += STR_IS(reason, "stop");
        a->n_cut += STR_IS(reason, "length");
        a->n_called += STR_IS(reason, "tool_calls");
}

/* Counts a choice that ends, and notices text. */
static void look_at_choice(struct openai_answer *a, struct json_reader *r) {
        struct str key, value;

        if (!json_try_enter(r, JSON_OBJECT)) {
                json_skip(r);
                return;
        }
        while (json_next_key(r, NULL, &key)) {
                if (STR_IS(key, "delta") || STR_IS(key, "message")) {
                        a->has_text = has_content(r) || a->has_text;
                        continue;
                }
                value = json_skip(r);
                if (STR_IS(key, "text"))
                        a->has_text = !STR_IS(value, "\"\"") || a->has_text;
                else if (STR_IS(key, "finish_reason") && value.len >= 2 && value.ptr[0] == '"')
                        openai_object_count_reason(a, str_range(value.ptr + 1, value.len - 2));
        }
}

/* One pass: a token of a stream has little more than this. */
static struct str look_at_choices(struct openai_answer *a, struct json_reader *r,
                                  bool *ret_has_choices) {
        const char *begin;

        if (json_peek(r) != JSON_ARRAY)
                return json_skip(r);
        begin = r->at; /* json_peek() has skipped blanks */
        json_enter_array(r);
        while (json_next_element(r)) {
                *ret_has_choices = true;
                look_at_choice(a, r);
        }
        return str_range(begin, (size_t)(r->at - begin));
}

static void read_member(struct openai_answer *a, struct json_reader *r, struct str key,
                        struct object_members *o) {
        if (STR_IS(key, "choices"))
                o->members[o->n++] =
                        (struct openai_member){ key, look_at_choices(a, r, &o->has_choices) };
        else if (STR_IS(key, "usage"))
                o->usage = json_skip(r);
        else if (STR_IS(key, "data"))
                o->data = json_skip(r);
        else if (is_ours(key))
                json_skip(r);
        else
                o->members[o->n++] = (struct openai_member){ key, json_skip(r) };
        if (STR_IS(key, "error"))
                o->error = o->members[o->n - 1].json;
}

static struct error *read_members(struct openai_answer *a, struct str text, struct arena *scratch,
                                  struct object_members *o) {
        struct json_reader r;
        struct str         key;

        o->n = 0;
        o->usage = o->error = o->data = str_range(NULL, 0);
        o->has_choices = false;
        json_reader_init(&r, text);
        if (json_try_enter(&r, JSON_OBJECT)) {
                while (json_next_key(&r, scratch, &key)) {
                        if (o->n == MAX_MEMBERS)
                                return error_new(ERR_INTERNAL,
                                                 "model '%s' answered an object with %d members or "
                                                 "more",
                                                 a->model->name, MAX_MEMBERS);
                        read_member(a, &r, key, o);
                }
                json_read_end(&r);
                if (!json_failed(&r))
                        return NULL;
        }
        return error_new(ERR_INTERNAL, "model '%s' answered a text that is no JSON object",
                         a->model->name);
}

/* ---- the model's refusal ---- */

static enum error_code code_of(struct str type) {
        if (STR_IS(type, "invalid_request_error"))
                return ERR_INVALID_ARG;
        if (STR_IS(type, "rate_limit_error") || STR_IS(type, "overloaded_error"))
                return ERR_UNAVAILABLE;
        return ERR_INTERNAL;
}

/* Some servers of models answer a text in place of the object. It has no type, so the failure is the model's. */
static struct error *refusal_of_text(struct str error, struct arena *scratch) {
        struct json_reader r = json_reader_of(error);
        struct str         message = json_read_string(&r, scratch);

        return error_new(ERR_INTERNAL, "%.*s", STR_ARG(message));
}

/* A value that is absent begins with nothing. */
static bool begins_with(struct str value, char c) {
        return value.ptr != NULL && value.ptr[0] == c;
}

static struct error *refusal_of_object(struct openai_answer *a, struct str error,
                                       struct arena *scratch) {
        struct str    code = json_find_text(error, "code", scratch);
        struct str    message = json_find_text(error, "message", scratch);
        struct str    type = json_find_text(error, "type", scratch);
        struct str    param = json_find_text(error, "param", scratch);
        struct error *err;

        if (STR_IS(code, OPENAI_CODE_TOO_LONG))
                a->code = OPENAI_CODE_TOO_LONG;
        if (message.len == 0)
                message = STR_LIT("the model refused the request");
        err = error_new(code_of(type), "%.*s", STR_ARG(message));
        return param.len > 0 ? error_at(err, "%.*s", STR_ARG(param)) : err;
}

static void count_usage(struct openai_answer *a, const struct object_members *o) {
        if (o->usage.ptr == NULL || o->usage.ptr[0] != '{')
                return;
        a->prompt_tokens = json_find_count(o->usage, "prompt_tokens");
        a->completion_tokens = json_find_count(o->usage, "completion_tokens");
        a->has_prompt_tokens = a->has_completion_tokens = true;
}

/* ---- embeddings ---- */

/* Replaces a vector of numbers by its base64, which the client asked for. */
static void put_vector(struct json_writer *w, struct str vector) {
        AUTO_STRBUF        bytes = { .max = OPENAI_MAX_TEXT_BYTES };
        struct json_reader r = json_reader_of(vector);

        json_enter_array(&r);
        while (json_next_element(&r)) {
                float value = json_peek(&r) == JSON_NUMBER ? (float)json_read_number(&r).real
                                                           : (json_skip(&r), 0.0F);

                strbuf_put(&bytes, &value, sizeof(value));
        }
        strbuf_spoil(w->out, &bytes);
        strbuf_putc(w->out, '"');
        base64_encode(strbuf_str(&bytes), w->out);
        strbuf_putc(w->out, '"');
        w->needs_comma = true; /* base64_encode() has bypassed the writer */
}

static void put_row(struct json_writer *w, struct str row, bool is_base64, struct arena *scratch) {
        struct json_reader r = json_reader_of(row);
        struct str         key;

        if (!is_base64 || !json_try_enter(&r, JSON_OBJECT)) {
                json_put_raw(w, row);
                return;
        }
        json_begin_object(w);
        while (json_next_key(&r, scratch, &key)) {
                bool       is_vector = STR_IS(key, "embedding") && json_peek(&r) == JSON_ARRAY;
                struct str json = json_skip(&r);

                json_key_str(w, key);
                if (is_vector)
                        put_vector(w, json);
                else
                        json_put_raw(w, json);
        }
        json_end_object(w);
}

/* NaN and Infinity, which Python's json.dumps() writes, are no JSON. */
static bool is_finite(struct str vector, double most) {
        struct json_reader r = json_reader_of(vector);
        bool               all = true;

        if (!json_try_enter(&r, JSON_ARRAY))
                return true;
        while (json_next_element(&r)) {
                if (json_peek(&r) == JSON_NUMBER)
                        all = fabs(json_read_number(&r).real) <= most && all;
                else
                        json_skip(&r);
        }
        return all;
}

static struct error *check_rows(const struct openai_answer *a, struct str rows) {
        double   most = a->q->is_base64 ? (double)FLT_MAX : DBL_MAX;
        uint64_t index = 0;

        if (!begins_with(rows, '['))
                return error_new(ERR_INTERNAL, "model '%s' answered 'data' that is no array",
                                 a->model->name);
        /* Numbers that are passed on as texts are read only when there may be such a word. */
        if (!a->q->is_base64 && memchr(rows.ptr, 'N', rows.len) == NULL &&
            memchr(rows.ptr, 'I', rows.len) == NULL)
                return NULL;
        JSON_FOR_EACH(rows, row) {
                if (!is_finite(json_find(row, "embedding"), most))
                        return openai_vector_fault(a->model->name, index);
                index++;
        }
        return NULL;
}

static void put_rows(const struct openai_answer *a, struct json_writer *w, struct str rows,
                     struct arena *scratch) {
        json_member_array(w, "data");
        JSON_FOR_EACH(rows, row)
                put_row(w, row, a->q->is_base64, scratch);
        json_end_array(w);
}

/* ---- numbers that JSON does not have ---- */

/* What JSON readers of the model's language take for a number; 0: none is here. */
static size_t word_len(struct str rest) {
        static const char *const words[] = { "NaN", "Infinity", "Inf" };

        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (str_starts(rest, str_of(words[i])))
                        return strlen(words[i]);
        return 0;
}

static bool has(struct str json, const char *word) {
        return json.len > 0 && memmem(json.ptr, json.len, word, strlen(word)) != NULL;
}

/* Cheap, since it is asked for each token: a whole pair of surrogates counts as well. */
static bool may_need_mending(struct str json) {
        return has(json, "NaN") || has(json, "Inf") || has(json, "\\ud") || has(json, "\\uD");
}

/* Value of the escape \uXXXX at the beginning; -1 when there is none. */
static int32_t unit_of(struct str rest) {
        if (rest.len < 2 || rest.ptr[0] != '\\' || rest.ptr[1] != 'u')
                return -1;
        return json_hex4(rest.ptr + 2, rest.ptr + rest.len);
}

/* Length of the escape at the beginning, or of a pair of surrogates. */
static size_t escape_len(struct str rest, bool *ret_is_half) {
        int32_t unit = unit_of(rest), low;

        *ret_is_half = false;
        if (unit < 0xd800 || unit > 0xdfff)
                return 2;
        low = unit_of(str_skip(rest, 6));
        if (unit <= 0xdbff && low >= 0xdc00 && low <= 0xdfff)
                return 12;
        *ret_is_half = true;
        return 6;
}

/* Copies a string, from the quote at its beginning. Returns what follows it. Half a pair of surrogates becomes
 * U+FFFD, as bytes that are no UTF-8 do: a model may give a character in two responses. */
static struct str put_text(struct str rest, struct strbuf *out) {
        size_t n = 1, n_copied = 0;

        while (n < rest.len && rest.ptr[n] != '"') {
                bool   is_half = false;
                size_t len = rest.ptr[n] == '\\' ? escape_len(str_skip(rest, n), &is_half) : 1;

                if (is_half) {
                        strbuf_put(out, rest.ptr + n_copied, n - n_copied);
                        STRBUF_PUT_LIT(out, "\\ufffd");
                        n_copied = n + len;
                }
                n += len;
        }
        n = MIN(n + 1, rest.len);
        strbuf_put(out, rest.ptr + n_copied, n - n_copied);
        return str_skip(rest, n);
}

/* Copies JSON with the words as JSON has them. A client of most languages could read nothing of an answer with
 * such a word. The API has -9999.0 for a token with a probability of 0; the others become null. */
static void put_without_words(struct str json, struct strbuf *out) {
        struct str rest = json;

        while (rest.len > 0) {
                size_t n = word_len(rest);
                bool   is_negative = n > 0 && out->len > 0 && out->ptr[out->len - 1] == '-';

                if (*rest.ptr == '"') {
                        rest = put_text(rest, out);
                        continue;
                }
                if (is_negative)
                        out->len--;
                if (n == 0)
                        strbuf_putc(out, *rest.ptr);
                else
                        strbuf_puts(out, is_negative && *rest.ptr == 'I' ? "-9999.0" : "null");
                rest = str_skip(rest, MAX(n, 1));
        }
}

/* ---- printing ---- */

/* A line break would end the event; outside of strings it is a blank, and inside no JSON has one. */
static void join_lines(struct strbuf *out, size_t begin) {
        char *at = out->ptr + begin, *end = out->ptr + out->len;

        for (char *next = at; (next = memchr(next, '\n', (size_t)(end - next))) != NULL;)
                *next = ' ';
        while ((at = memchr(at, '\r', (size_t)(end - at))) != NULL)
                *at = ' ';
}

static void put_members(const struct openai_answer *a, const struct object_members *o,
                        struct arena *scratch, struct json_writer *w) {
        for (size_t i = 0; i < o->n; i++) {
                json_key_str(w, o->members[i].key);
                json_put_raw(w, o->members[i].json);
        }
        if (o->data.ptr != NULL)
                put_rows(a, w, o->data, scratch);
        if (o->usage.ptr != NULL && (!a->q->is_stream || a->q->includes_usage)) {
                json_member_raw(w, "usage", o->usage);
        }
}

static void print_object(const struct openai_answer *a, const struct object_members *o,
                         struct arena *scratch, struct strbuf *out) {
        struct json_writer w = { .out = out };

        if (a->q->endpoint == OPENAI_EMBEDDINGS) {
                json_begin_object(&w);
                json_member_string(&w, "object", "list");
                json_member_string(&w, "model", a->q->model);
        } else {
                strbuf_put(out, a->head.ptr, a->head.len);
                w.needs_comma = true;
        }
        put_members(a, o, scratch, &w);
        json_end_object(&w);
}

static struct error *add_object(struct openai_answer *a, struct str object, struct arena *scratch,
                                struct strbuf *out) {
        struct object_members o;
        size_t                begin = out->len;

        TRY(read_members(a, object, scratch, &o));
        if (begins_with(o.error, '"'))
                return refusal_of_text(o.error, scratch);
        if (begins_with(o.error, '{'))
                return refusal_of_object(a, o.error, scratch);
        a->has_object = true;
        if (a->q->endpoint == OPENAI_EMBEDDINGS && o.data.ptr != NULL)
                TRY(check_rows(a, o.data));
        count_usage(a, &o);
        if (!a->q->is_stream) {
                if (a->object.len > 0)
                        return error_new(ERR_INTERNAL,
                                         "model '%s' answered several objects to a request that is "
                                         "not streamed",
                                         a->model->name);
                print_object(a, &o, scratch, &a->object);
                return strbuf_check(&a->object, "the answer");
        }
        /* A chunk with nothing but the usage, which this client did not ask for. */
        if (!a->q->includes_usage && o.usage.ptr != NULL && !o.has_choices)
                return NULL;
        print_object(a, &o, scratch, out);
        join_lines(out, begin);
        STRBUF_PUT_LIT(out, "\n\n");
        return NULL;
}

/* A vector with such a number is refused instead: check_rows(). */
struct error *openai_object_add(struct openai_answer *a, struct str object, struct arena *scratch,
                                struct strbuf *out) {
        AUTO_STRBUF copy = { .max = OPENAI_MAX_TEXT_BYTES };

        if (a->q->endpoint == OPENAI_EMBEDDINGS || !may_need_mending(object))
                return add_object(a, object, scratch, out);
        put_without_words(object, &copy);
        TRY(strbuf_check(&copy, "the answer"));
        return add_object(a, strbuf_str(&copy), scratch, out);
}
