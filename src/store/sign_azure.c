/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/sign_azure.h"

#include "base/digest.h"
#include "base/mem.h"
#include "codec/base64.h"
#include "store/secret.h"
#include "store/store_time.h"
#include "store/url_parts.h"

#define MAX_TEXT_BYTES (1u << 20)

static void put_header(const struct store_request *r, const char *name, struct strbuf *out) {
        const char *value = store_header_find(r->headers, r->n_headers, name);

        strbuf_printf(out, "%s\n", value != NULL ? value : "");
}

/* The headers that the signature has by position. "date" is empty, since x-ms-date stands for it. */
static void put_plain_headers(const struct store_request *r, struct strbuf *out) {
        static const char *const before[] = { "content-encoding", "content-language" };
        static const char *const after[] = { "content-md5",         "content-type", "date",
                                             "if-modified-since",   "if-match",     "if-none-match",
                                             "if-unmodified-since", "range" };

        strbuf_printf(out, "%s\n", r->method);
        for (size_t i = 0; i < ARRAY_LEN(before); i++)
                put_header(r, before[i], out);
        if (r->body.len > 0)
                strbuf_printf(out, "%zu", r->body.len);
        strbuf_putc(out, '\n');
        for (size_t i = 0; i < ARRAY_LEN(after); i++)
                put_header(r, after[i], out);
}

static void put_own_headers(struct store_request *r, struct strbuf *out) {
        store_request_sort_headers(r);
        for (size_t i = 0; i < r->n_headers; i++) {
                struct str value = str_trim(str_of(r->headers[i].value));

                if (strncmp(r->headers[i].name, "x-ms-", 5) == 0)
                        strbuf_printf(out, "%s:%.*s\n", r->headers[i].name, STR_ARG(value));
        }
}

/* Parameters with the same name make one line, with their values in order. */
static struct error *put_resource(const struct store_keys *keys, const struct url_parts *url,
                                  struct arena *arena, struct strbuf *out) {
        struct url_parameter p[URL_MAX_PARAMETERS];
        size_t               n;

        TRY(url_parameters_read(url->query, arena, p, &n));
        for (size_t i = 0; i < n; i++)
                str_lower(p[i].name);
        url_parameters_sort(p, n);
        strbuf_printf(out, "/%s", keys->id);
        strbuf_put(out, url->path.len > 0 ? url->path.ptr : "/", MAX(url->path.len, (size_t)1));
        for (size_t i = 0; i < n; i++)
                if (i > 0 && strcmp(p[i].name, p[i - 1].name) == 0)
                        strbuf_printf(out, ",%s", p[i].value);
                else
                        strbuf_printf(out, "\n%s:%s", p[i].name, p[i].value);
        return NULL;
}

static struct error *add_signature(const struct store_keys *keys, struct str text,
                                   struct store_request *r) {
        AUTO_SECRET_BUF key;
        AUTO_STRBUF     signature = { 0 };
        AUTO_CHARS      value = NULL;
        unsigned char   hmac[DIGEST_SHA256_BYTES];

        secret_buf_init(&key, strlen(keys->secret), 0);
        if (!base64_decode(str_of(keys->secret), &key))
                return error_new(ERR_INVALID_ARG,
                                 "the key of the storage account '%s' is not base64", keys->id);
        TRY(digest_hmac_sha256(strbuf_str(&key), text, hmac));
        base64_encode(str_range((const char *)hmac, sizeof(hmac)), &signature);
        value = mem_printf("SharedKey %s:%s", keys->id, strbuf_cstr(&signature));
        store_request_set(r, "authorization", value);
        return NULL;
}

struct error *sign_azure(const struct store_keys *keys, uint64_t now_ns, struct store_request *r) {
        char             date[STORE_TIME_HTTP_BYTES];
        struct url_parts url;
        AUTO_ARENA       arena = arena_of(0);
        AUTO_STRBUF      text = { .max = MAX_TEXT_BYTES };

        if (!url_parts_read(strbuf_str(&r->url), &url))
                return error_new_text(ERR_INVALID_ARG,
                                      "the URL of a request is not http:// or https://");
        store_time_print_http(now_ns, date);
        store_request_set(r, "x-ms-date", date);
        store_request_set(r, "x-ms-version", AZURE_VERSION);
        put_plain_headers(r, &text);
        put_own_headers(r, &text);
        TRY(put_resource(keys, &url, &arena, &text));
        TRY(strbuf_check(&text, "a request to be signed"));
        return add_signature(keys, strbuf_str(&text), r);
}
