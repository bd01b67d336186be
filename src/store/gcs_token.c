/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/gcs_token.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rsa_sign.h"
#include "codec/base64.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "codec/url.h"
#include "store/secret.h"
#include "store/store_time.h"
#include "store/token_server.h"

#define SCOPE "https://www.googleapis.com/auth/devstorage.read_only"
#define SCOPE_ALL "https://www.googleapis.com/auth/cloud-platform" /* to become a service account */
#define LIFE_S 3600 /* the longest that Google accepts */
#define FORM_BYTES ((size_t)16 << 10)
#define MAX_FORM_BYTES ((size_t)256 << 10)
#define METADATA_PATH "/computeMetadata/v1/instance/service-accounts/default/token"

/* ---- the assertion of a service account ---------------------------------------------------- */

/* The alphabet of RFC 4648, section 5, without padding. */
static void put_base64url(struct str in, struct strbuf *out) {
        size_t start = out->len;

        base64_encode(in, out);
        while (out->len > start && out->ptr[out->len - 1] == '=')
                out->len--;
        for (size_t i = start; i < out->len; i++)
                if (out->ptr[i] == '+')
                        out->ptr[i] = '-';
                else if (out->ptr[i] == '/')
                        out->ptr[i] = '_';
        if (out->cap > 0)
                out->ptr[out->len] = '\0';
}

static void put_header(const struct gcs_setup *s, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_string(&w, "alg", "RS256");
        json_member_string(&w, "typ", "JWT");
        if (s->private_key_id != NULL)
                json_member_string(&w, "kid", s->private_key_id);
        json_end_object(&w);
}

static void put_claims(const struct gcs_setup *s, uint64_t now_ns, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_string(&w, "iss", s->client_email);
        json_member_string(&w, "scope", SCOPE);
        json_member_string(&w, "aud", s->token_url);
        json_member_u64(&w, "iat", now_ns / NS_PER_S);
        json_member_u64(&w, "exp", now_ns / NS_PER_S + LIFE_S);
        json_end_object(&w);
}

/* Writes the assertion of a service account (RFC 7523): a JSON Web Token, signed with its key. INVALID_ARG
 * when that is no key. */
static struct error *put_assertion(const struct gcs_setup *s, uint64_t now_ns, struct strbuf *ret) {
        AUTO_STRBUF   part = { .max = MAX_FORM_BYTES }, signature = { 0 };
        struct error *err;
        size_t        start = ret->len;

        put_header(s, &part);
        put_base64url(strbuf_str(&part), ret);
        strbuf_putc(ret, '.');
        strbuf_clear(&part);
        put_claims(s, now_ns, &part);
        put_base64url(strbuf_str(&part), ret);
        TRY(strbuf_check(&part, "an assertion"));
        TRY(strbuf_check(ret, "an assertion"));
        err = rsa_sign_sha256(str_of(s->private_key), str_range(ret->ptr + start, ret->len - start),
                              &signature);
        if (err != NULL)
                return error_wrap(err, "the 'private_key' of the file '%s'", s->path);
        strbuf_putc(ret, '.');
        put_base64url(strbuf_str(&signature), ret);
        return strbuf_check(ret, "an assertion");
}

/* ---- exchanges ----------------------------------------------------------------------------- */

/* `authorization`: the value of a header, or NULL. */
static struct error *ask_token_server(const struct gcs_setup *s, const struct strbuf *form,
                                      const char *authorization, struct store_answer *ret) {
        AUTO_STORE_REQUEST r = { 0 };

        TRY(strbuf_check(form, "a request for a token"));
        token_request_init(&r, "POST", s->token_url, TOKEN_SERVER_TIMEOUT_MS, s->is_cancelled);
        token_request_set_form(&r, form);
        if (authorization != NULL)
                store_request_add(&r, "authorization", authorization);
        return error_wrap(token_server_ask(&r, ret, NULL), "the account of '%s'", s->path);
}

static struct error *exchange(const struct gcs_setup *s, const struct strbuf *form,
                              const char *authorization, uint64_t now_ns, struct store_keys **ret) {
        AUTO_CHARS        place = token_place(s->token_url);
        AUTO_STORE_ANSWER a = { 0 };

        TRY(ask_token_server(s, form, authorization, &a));
        return token_read_oauth(strbuf_str(&a.body), place, now_ns, ret);
}

static struct error *get_of_service_account(const struct gcs_setup *s, uint64_t now_ns,
                                            struct store_keys **ret) {
        AUTO_SECRET_BUF form, assertion;

        secret_buf_init(&form, FORM_BYTES, MAX_FORM_BYTES);
        secret_buf_init(&assertion, FORM_BYTES, MAX_FORM_BYTES);
        TRY(put_assertion(s, now_ns, &assertion));
        url_put_parameter(&form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        url_put_parameter(&form, "assertion", strbuf_cstr(&assertion));
        return exchange(s, &form, NULL, now_ns, ret);
}

static struct error *get_of_user(const struct gcs_setup *s, uint64_t now_ns,
                                 struct store_keys **ret) {
        AUTO_SECRET_BUF form;

        secret_buf_init(&form, FORM_BYTES, MAX_FORM_BYTES);
        url_put_parameter(&form, "grant_type", "refresh_token");
        url_put_parameter(&form, "client_id", s->client_id);
        url_put_parameter(&form, "client_secret", s->client_secret);
        url_put_parameter(&form, "refresh_token", s->refresh_token);
        return exchange(s, &form, NULL, now_ns, ret);
}

/* ---- tokens of other issuers --------------------------------------------------------------- */

static struct error *read_subject(const struct gcs_setup *s, char **ret) {
        AUTO_CHARS  from = mem_printf("'credential_source.file' of '%s'", s->path);
        AUTO_SECRET text = NULL;
        AUTO_ERROR  err = NULL;

        TRY(token_file_read(from, s->token_file, &text));
        if (s->token_field == NULL) {
                *ret = STEAL(text);
                return NULL;
        }
        err = json_check(str_of(text), JSON_OBJECT);
        if (err == NULL)
                *ret = token_json_text(str_of(text), s->token_field);
        if (err == NULL && (*ret)[0] != '\0')
                return NULL;
        if (err == NULL)
                free(STEAL(*ret));
        return error_new(ERR_INVALID_ARG, "%s: the file '%s' has no '%s'", from, s->token_file,
                         s->token_field);
}

/* "Basic <base64 of id:secret>", or NULL: workforce pools give a client to each program. */
static char *basic_authorization(const struct gcs_setup *s) {
        AUTO_SECRET     pair = NULL;
        AUTO_SECRET_BUF encoded = { .ptr = NULL };

        if (s->client_id == NULL || s->client_secret == NULL)
                return NULL;
        pair = mem_printf("%s:%s", s->client_id, s->client_secret);
        secret_buf_init(&encoded, 2 * strlen(pair) + 16, 0);
        base64_encode(str_of(pair), &encoded);
        return mem_printf("Basic %s", strbuf_cstr(&encoded));
}

static struct error *read_impersonated(struct str json, const char *place,
                                       struct store_keys **ret) {
        AUTO_ERROR  err = json_check(json, JSON_OBJECT);
        AUTO_SECRET token = NULL;
        AUTO_CHARS  expires = NULL;
        uint64_t    expires_ns;

        if (err != NULL)
                return error_new(ERR_INVALID_ARG, "%s: the answer is not a JSON object", place);
        token = token_json_text(json, "accessToken");
        expires = token_json_text(json, "expireTime");
        if (token[0] == '\0')
                return error_new(ERR_INVALID_ARG, "%s: the answer has no accessToken", place);
        if (!store_time_read(str_of(expires), &expires_ns))
                return error_new(ERR_INVALID_ARG, "%s: the answer has no valid time of expiry",
                                 place);
        *ret = store_keys_new(STORE_KEYS_BEARER, STR_LIT(""), str_of(token), STR_LIT(""),
                              expires_ns);
        return NULL;
}

static struct error *impersonate(const struct gcs_setup *s, const struct store_keys *federated,
                                 struct store_keys **ret) {
        AUTO_CHARS         place = token_place(s->impersonation_url);
        AUTO_SECRET        bearer = mem_printf("Bearer %s", federated->secret);
        AUTO_STORE_REQUEST r = { 0 };
        AUTO_STORE_ANSWER  a = { 0 };

        token_request_init(&r, "POST", s->impersonation_url, TOKEN_SERVER_TIMEOUT_MS,
                           s->is_cancelled);
        store_request_add(&r, "authorization", bearer);
        store_request_add(&r, "content-type", "application/json");
        r.body = STR_LIT("{\"scope\":[\"" SCOPE "\"],\"lifetime\":\"3600s\"}");
        TRY(error_wrap(token_server_ask(&r, &a, NULL), "the account of '%s'", s->path));
        return read_impersonated(strbuf_str(&a.body), place, ret);
}

static struct error *exchange_subject(const struct gcs_setup *s, uint64_t now_ns,
                                      struct store_keys **ret) {
        AUTO_SECRET_BUF form;
        AUTO_SECRET     subject = NULL;
        AUTO_SECRET     basic = NULL;

        secret_buf_init(&form, FORM_BYTES, MAX_FORM_BYTES);
        TRY(read_subject(s, &subject));
        basic = basic_authorization(s);
        url_put_parameter(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        url_put_parameter(&form, "requested_token_type",
                          "urn:ietf:params:oauth:token-type:access_token");
        url_put_parameter(&form, "audience", s->audience);
        url_put_parameter(&form, "scope", s->impersonation_url != NULL ? SCOPE_ALL : SCOPE);
        url_put_parameter(&form, "subject_token_type", s->token_type);
        url_put_parameter(&form, "subject_token", subject);
        return exchange(s, &form, basic, now_ns, ret);
}

static struct error *get_of_external(const struct gcs_setup *s, uint64_t now_ns,
                                     struct store_keys **ret) {
        struct store_keys *federated;
        struct error      *err;

        TRY(exchange_subject(s, now_ns, &federated));
        if (s->impersonation_url == NULL) {
                *ret = federated;
                return NULL;
        }
        if (secret_is_plain(federated->secret))
                err = impersonate(s, federated, ret);
        else
                err = error_new_text(ERR_INVALID_ARG, "a token has a control character in it");
        store_keys_unref(federated);
        return err;
}

/* ---- the metadata service ------------------------------------------------------------------ */

/* Other clouds have services at the same address: only Google's sends this header. */
static struct error *ask_metadata(const struct gcs_setup *s, uint64_t now_ns,
                                  struct store_keys **ret, int *ret_status) {
        AUTO_CHARS         url = mem_printf("%s" METADATA_PATH, s->metadata_url);
        AUTO_STORE_REQUEST r = { 0 };
        AUTO_STORE_ANSWER  a = { 0 };

        token_request_init(&r, "GET", url, TOKEN_METADATA_TIMEOUT_MS, s->is_cancelled);
        store_request_add(&r, "metadata-flavor", "Google");
        TRY(token_server_ask(&r, &a, ret_status));
        if (strcmp(store_answer_header(&a, "metadata-flavor"), "Google") == 0)
                return token_read_oauth(strbuf_str(&a.body), url, now_ns, ret);
        *ret_status = 404;
        return error_new(ERR_INVALID_ARG, "%s: the answer is not of Google's metadata service",
                         url);
}

static struct error *get_of_metadata(const struct gcs_setup *s, uint64_t now_ns,
                                     struct store_keys **ret) {
        int           status = 500;
        struct error *err = ask_metadata(s, now_ns, ret, &status);

        return token_end_sources(err, status, s->is_required, ret);
}

struct error *gcs_token_get(const struct gcs_setup *s, uint64_t now_ns, struct store_keys **ret) {
        switch (s->source) {
        case GCS_SERVICE_ACCOUNT: return get_of_service_account(s, now_ns, ret);
        case GCS_USER: return get_of_user(s, now_ns, ret);
        case GCS_EXTERNAL: return get_of_external(s, now_ns, ret);
        case GCS_METADATA: return get_of_metadata(s, now_ns, ret);
        case GCS_ANONYMOUS: break;
        }
        *ret = store_keys_anonymous();
        return NULL;
}
