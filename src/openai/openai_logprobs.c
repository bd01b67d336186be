/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_logprobs.h"

#include "base/compiler.h"
#include "codec/json_writer.h"
#include "openai/openai_text.h"

#include <math.h>

/* The least number that is printed: JSON has no infinity, and vLLM's own server uses the same. */
#define LEAST -9999.0

struct candidate {
        struct str token;
        double     logprob;
};

/* One token: the candidates of it that are printed, the chosen one first. */
struct token {
        struct candidate candidates[OPENAI_MAX_TOP +
                                    1]; /* the chosen token may be none of the most likely ones */
        uint32_t         n;
};

struct walk {
        struct arena      *scratch;
        uint32_t           max_top;
        size_t             offset;
        struct json_writer w;
};

typedef void (*token_fn)(struct walk *k, const struct token *t);

static double clamp(double logprob) {
        return isfinite(logprob) && logprob > LEAST ? logprob : LEAST;
}

/* False for what has no number. A token without a text is "", such as the one that ends a text. */
static bool read_candidate(struct json_reader *r, struct arena *scratch, struct candidate *ret) {
        struct str key;
        bool       has_logprob = false;

        *ret = (struct candidate){ .token = STR_LIT("") };
        if (!json_try_enter(r, JSON_OBJECT)) {
                json_skip(r);
                return false;
        }
        while (json_next_key(r, NULL, &key)) {
                if (STR_IS(key, "logprob") && json_peek(r) == JSON_NUMBER) {
                        ret->logprob = clamp(json_read_number(r).real);
                        has_logprob = true;
                } else if (STR_IS(key, "decoded_token") && json_peek(r) == JSON_STRING) {
                        ret->token = json_read_string(r, scratch);
                } else {
                        json_skip(r);
                }
        }
        return has_logprob;
}

static void visit_token(struct walk *k, struct json_reader *r, token_fn visit) {
        uint32_t     max = k->max_top + 1;
        struct token t = { .n = 0 };
        bool         is_first = true, has_chosen = false;
        struct str   key;

        if (!json_try_enter(r, JSON_OBJECT)) {
                json_skip(r);
                return;
        }
        while (json_next_key(r, NULL, &key)) {
                struct candidate c;
                bool             is_right = read_candidate(r, k->scratch, &c);

                has_chosen = has_chosen || (is_first && is_right);
                is_first = false;
                if (is_right && t.n < max)
                        t.candidates[t.n++] = c;
        }
        if (has_chosen)
                visit(k, &t);
}

static void visit_list(struct walk *k, struct json_reader *r, token_fn visit) {
        if (!json_try_enter(r, JSON_ARRAY)) {
                json_skip(r);
                return;
        }
        while (json_next_element(r))
                visit_token(k, r, visit);
}

static void visit_all(struct walk *k, struct str lists, token_fn visit) {
        struct json_reader r = json_reader_of(lists);

        if (!json_try_enter(&r, JSON_ARRAY))
                return;
        while (json_next_element(&r))
                visit_list(k, &r, visit);
}

/* ---- chat ---- */

static void put_candidate(struct walk *k, const struct candidate *c) {
        struct json_writer *w = &k->w;

        json_member_str(w, "token", c->token);
        json_member_f64(w, "logprob", c->logprob);
        json_member_array(w, "bytes");
        for (size_t i = 0; i < c->token.len; i++)
                json_put_u64(w, (unsigned char)c->token.ptr[i]);
        json_end_array(w);
}

static uint32_t top_of(const struct walk *k, const struct token *t) {
        return t->n < k->max_top ? t->n : k->max_top;
}

static void put_chat_token(struct walk *k, const struct token *t) {
        struct json_writer *w = &k->w;

        json_begin_object(w);
        put_candidate(k, &t->candidates[0]);
        json_member_array(w, "top_logprobs");
        for (uint32_t i = 0; i < top_of(k, t); i++) {
                json_begin_object(w);
                put_candidate(k, &t->candidates[i]);
                json_end_object(w);
        }
        json_end_array(w);
        json_end_object(w);
}

static void put_chat(struct walk *k, struct str lists) {
        json_member_array(&k->w, "content");
        visit_all(k, lists, put_chat_token);
        json_end_array(&k->w);
}

/* ---- completions ---- */

static void put_text(struct walk *k, const struct token *t) {
        json_put_str(&k->w, t->candidates[0].token);
}

static void put_logprob(struct walk *k, const struct token *t) {
        json_put_f64(&k->w, t->candidates[0].logprob);
}

static void put_top(struct walk *k, const struct token *t) {
        json_begin_object(&k->w);
        for (uint32_t i = 0; i < top_of(k, t); i++) {
                json_key_str(&k->w, t->candidates[i].token);
                json_put_f64(&k->w, t->candidates[i].logprob);
        }
        json_end_object(&k->w);
}

static void put_offset(struct walk *k, const struct token *t) {
        json_put_u64(&k->w, k->offset);
        k->offset += openai_text_characters(t->candidates[0].token);
}

static void put_column(struct walk *k, const char *name, struct str lists, token_fn visit) {
        json_member_array(&k->w, name);
        visit_all(k, lists, visit);
        json_end_array(&k->w);
}

static void put_columns(struct walk *k, struct str lists) {
        put_column(k, "tokens", lists, put_text);
        put_column(k, "token_logprobs", lists, put_logprob);
        put_column(k, "top_logprobs", lists, put_top);
        put_column(k, "text_offset", lists, put_offset);
}

void openai_logprobs_print(enum openai_endpoint endpoint, struct str lists, uint32_t max_top,
                           struct arena *scratch, size_t *offset, struct strbuf *out) {
        struct walk k = { .scratch = scratch,
                          .max_top = MIN(max_top, OPENAI_MAX_TOP),
                          .offset = *offset };

        json_writer_init(&k.w, out);
        json_begin_object(&k.w);
        if (endpoint == OPENAI_CHAT)
                put_chat(&k, lists);
        else
                put_columns(&k, lists);
        json_end_object(&k.w);
        *offset = k.offset;
}
