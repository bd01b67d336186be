/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/sign_aws.h"

#include "base/digest.h"
#include "base/mem.h"
#include "codec/url.h"
#include "store/secret.h"
#include "store/store_time.h"
#include "store/url_parts.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define HEX_BYTES (2 * DIGEST_SHA256_BYTES + 1)
#define DATE_BYTES 8              /* "20130524" of the time */
#define MAX_TEXT_BYTES (1u << 20) /* of a canonical request; a URL has a few KiB */

/* What is signed, as it grows. */
struct signing {
        const struct aws_signer *signer;
        struct store_request    *request;
        struct url_parts         url;
        char                     time[STORE_TIME_AWS_BYTES];
        char                     body_hash[HEX_BYTES];
        struct strbuf            names;     /* of the signed headers, "host;x-amz-date" */
        struct strbuf            canonical; /* the canonical request */
};

static struct error *hash_text(struct str text, char ret[HEX_BYTES]) {
        unsigned char digest[DIGEST_SHA256_BYTES];

        TRY(digest_of(DIGEST_SHA256, text, digest));
        digest_print_hex(digest, sizeof(digest), ret);
        return NULL;
}

/* ---- the canonical request ----------------------------------------------------------------- */

/* Decoded and encoded again, so that any writer's escapes give what the service makes of them. */
static struct error *put_path(struct signing *s) {
        AUTO_STRBUF path = { .max = MAX_TEXT_BYTES };

        if (!url_decode(s->url.path, &path))
                return error_new_text(ERR_INVALID_ARG,
                                      "the path of a request has a malformed escape");
        if (path.len == 0)
                strbuf_putc(&path, '/');
        url_encode(strbuf_str(&path), true, &s->canonical);
        return strbuf_check(&path, "the path of a request");
}

static char *encode_canonical(const char *text, struct arena *arena) {
        AUTO_STRBUF out = { 0 };

        url_encode(str_of(text), false, &out);
        return arena_strdup(arena, strbuf_cstr(&out));
}

/* The canonical order is that of the encoded names. */
static struct error *put_query(struct signing *s, struct arena *arena) {
        struct url_parameter p[URL_MAX_PARAMETERS];
        size_t               n;

        TRY(url_parameters_read(s->url.query, arena, p, &n));
        for (size_t i = 0; i < n; i++) {
                p[i].name = encode_canonical(p[i].name, arena);
                p[i].value = encode_canonical(p[i].value, arena);
        }
        url_parameters_sort(p, n);
        for (size_t i = 0; i < n; i++)
                strbuf_printf(&s->canonical, "%s%s=%s", i > 0 ? "&" : "", p[i].name, p[i].value);
        return NULL;
}

/* Without blanks at both ends, and with one for several within (a documented rule of the canonical form). */
static void put_value(struct strbuf *out, const char *value) {
        struct str text = str_trim(str_of(value));

        for (size_t i = 0; i < text.len; i++)
                if (text.ptr[i] != ' ' || text.ptr[i - 1] != ' ')
                        strbuf_putc(out, text.ptr[i]);
}

/* Puts the headers, sorted, and collects their names. Their order in the request does not matter. */
static void put_headers(struct signing *s) {
        struct store_request *r = s->request;

        store_request_sort_headers(r);
        for (size_t i = 0; i < r->n_headers; i++) {
                strbuf_printf(&s->canonical, "%s:", r->headers[i].name);
                put_value(&s->canonical, r->headers[i].value);
                strbuf_putc(&s->canonical, '\n');
                strbuf_printf(&s->names, "%s%s", i > 0 ? ";" : "", r->headers[i].name);
        }
}

static void add_headers(struct signing *s) {
        const struct store_keys *k = s->signer->keys;
        AUTO_CHARS               host = mem_strndup(s->url.host.ptr, s->url.host.len);

        if (store_header_find(s->request->headers, s->request->n_headers, "host") == NULL)
                store_request_add(s->request, "host", host);
        store_request_set(s->request, "x-amz-date", s->time);
        if (strcmp(s->signer->service, "s3") == 0)
                store_request_set(s->request, "x-amz-content-sha256", s->body_hash);
        if (k->token[0] != '\0')
                store_request_set(s->request, "x-amz-security-token", k->token);
}

static struct error *put_request(struct signing *s, struct arena *arena) {
        strbuf_printf(&s->canonical, "%s\n", s->request->method);
        TRY(put_path(s));
        strbuf_putc(&s->canonical, '\n');
        TRY(put_query(s, arena));
        strbuf_putc(&s->canonical, '\n');
        put_headers(s);
        strbuf_printf(&s->canonical, "\n%s\n%s", strbuf_cstr(&s->names), s->body_hash);
        TRY(strbuf_check(&s->names, "the list of headers"));
        return strbuf_check(&s->canonical, "a request to be signed");
}

/* ---- the signature ------------------------------------------------------------------------- */

static struct error *chain(unsigned char key[DIGEST_SHA256_BYTES], struct str text) {
        return digest_hmac_sha256(str_range((const char *)key, DIGEST_SHA256_BYTES), text, key);
}

static struct error *derive(const struct aws_signer *s, const char *time, struct str text,
                            unsigned char key[DIGEST_SHA256_BYTES]) {
        AUTO_SECRET first = mem_printf("AWS4%s", s->keys->secret);

        TRY(digest_hmac_sha256(str_of(first), str_range(time, DATE_BYTES), key));
        TRY(chain(key, str_of(s->region)));
        TRY(chain(key, str_of(s->service)));
        TRY(chain(key, STR_LIT("aws4_request")));
        return chain(key, text);
}

static struct error *add_signature(struct signing *s) {
        const struct aws_signer *signer = s->signer;
        unsigned char            key[DIGEST_SHA256_BYTES];
        char                     hash[HEX_BYTES], signature[HEX_BYTES];
        struct error            *err;
        AUTO_CHARS               scope = NULL;
        AUTO_CHARS               text = NULL;
        AUTO_CHARS               value = NULL;

        TRY(hash_text(strbuf_str(&s->canonical), hash));
        scope = mem_printf("%.*s/%s/%s/aws4_request", DATE_BYTES, s->time, signer->region,
                           signer->service);
        text = mem_printf(ALGORITHM "\n%s\n%s\n%s", s->time, scope, hash);
        err = derive(signer, s->time, str_of(text), key);
        digest_print_hex(key, sizeof(key), signature);
        explicit_bzero(key, sizeof(key));
        if (err != NULL)
                return err;
        value = mem_printf(ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                           signer->keys->id, scope, strbuf_cstr(&s->names), signature);
        store_request_set(s->request, "authorization", value);
        return NULL;
}

struct error *sign_aws(const struct aws_signer *signer, struct store_request *r) {
        struct signing s = { .signer = signer,
                             .request = r,
                             .names.max = MAX_TEXT_BYTES,
                             .canonical.max = MAX_TEXT_BYTES };
        AUTO_ARENA     arena = arena_of(0);
        struct error  *err;

        if (!url_parts_read(strbuf_str(&r->url), &s.url))
                return error_new_text(ERR_INVALID_ARG,
                                      "the URL of a request is not http:// or https://");
        TRY(hash_text(r->body, s.body_hash));
        store_time_print_aws(signer->now_ns, s.time);
        add_headers(&s);
        err = put_request(&s, &arena);
        if (err == NULL)
                err = add_signature(&s);
        strbuf_done(&s.names);
        secret_buf_done(&s.canonical); /* the token of a session is in it */
        return err;
}
