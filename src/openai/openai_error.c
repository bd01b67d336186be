/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_error.h"

#include "codec/json_writer.h"

static const char *type_of(unsigned status) {
        switch (status) {
        case 401: return "authentication_error";
        case 403: return "permission_error";
        case 429: return "rate_limit_error";
        default: return status >= 500 ? "server_error" : "invalid_request_error";
        }
}

/* Returns the code that stands for a status, NULL when there is none. */
static const char *code_of(unsigned status) {
        switch (status) {
        case 401:
        case 403: return "invalid_api_key";
        case 413: return "content_too_large";
        case 429: return "rate_limit_exceeded";
        case 503: return "overloaded";
        default: return NULL;
        }
}

static void put_text(struct json_writer *w, const char *key, const char *text) {
        json_key(w, key);
        if (text != NULL)
                json_put_string(w, text);
        else
                json_put_raw(w, STR_LIT("null"));
}

void openai_error_print(const struct openai_error *e, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_object(&w, "error");
        json_member_string(&w, "message", e->message);
        json_member_string(&w, "type", type_of(e->status));
        put_text(&w, "param", e->param);
        put_text(&w, "code", e->code != NULL ? e->code : code_of(e->status));
        json_end_object(&w);
        json_end_object(&w);
}

struct error *openai_vector_fault(const char *model, uint64_t index) {
        return error_new(ERR_INTERNAL,
                         "model '%s' gave NaN or an infinity in the vector of text %llu", model,
                         (unsigned long long)index);
}
