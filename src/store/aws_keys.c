/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/aws_keys.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "codec/url.h"
#include "store/secret.h"
#include "store/sign_aws.h"
#include "store/store_time.h"
#include "store/token_server.h"
#include "store/xml_reader.h"

#define FORM_BYTES ((size_t)16 << 10)
#define MAX_FORM_BYTES ((size_t)256 << 10)
#define STS_VERSION "2011-06-15"
#define MAX_ROLE_BYTES 256

/* ---- an answer with keys ------------------------------------------------------------------- */

/* The four texts, however they came. */
struct answer_keys {
        char *id; /* owned, each; NULL: not there */
        char *secret;
        char *token;
        char *expires;
};

static void answer_keys_done(struct answer_keys *k) {
        secret_free(k->id);
        secret_free(k->secret);
        secret_free(k->token);
        secret_free(k->expires);
}

#define AUTO_ANSWER_KEYS CLEANUP(answer_keys_done) struct answer_keys

static bool is_empty(const char *text) {
        return text == NULL || text[0] == '\0';
}

static struct error *make_keys(const struct answer_keys *k, const char *place,
                               struct store_keys **ret) {
        uint64_t expires_ns = CLOCK_NEVER;

        if (is_empty(k->id) || is_empty(k->secret))
                return error_new(ERR_INVALID_ARG, "%s: the answer has no keys", place);
        if (!is_empty(k->expires) && !store_time_read(str_of(k->expires), &expires_ns))
                return error_new(ERR_INVALID_ARG, "%s: the answer has no valid time of expiry",
                                 place);
        *ret = store_keys_new(STORE_KEYS_AWS, str_of(k->id), str_of(k->secret), str_of(k->token),
                              expires_ns);
        return NULL;
}

static struct error *read_json(struct str json, const char *place, struct store_keys **ret) {
        AUTO_ERROR       err = json_check(json, JSON_OBJECT);
        AUTO_ANSWER_KEYS k = { .id = NULL };

        if (err != NULL)
                return error_new(ERR_INVALID_ARG, "%s: the answer is not a JSON object", place);
        k.id = token_json_text(json, "AccessKeyId");
        k.secret = token_json_text(json, "SecretAccessKey");
        k.token = token_json_text(json, "Token");
        k.expires = token_json_text(json, "Expiration");
        return make_keys(&k, place, ret);
}

/* "<Action>Response/<Action>Result/Credentials/AccessKeyId" */
static struct error *on_element_end(void *userp, struct str path, struct str text) {
        struct answer_keys *k = userp;
        const struct {
                const char *name;
                char      **place;
        } fields[] = {
                { "/Credentials/AccessKeyId", &k->id },
                { "/Credentials/SecretAccessKey", &k->secret },
                { "/Credentials/SessionToken", &k->token },
                { "/Credentials/Expiration", &k->expires },
        };

        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
                if (str_ends(path, str_of(fields[i].name)) && *fields[i].place == NULL)
                        *fields[i].place = mem_strndup(text.ptr, text.len);
        return NULL;
}

static struct error *read_xml(struct str xml, const char *place, struct store_keys **ret) {
        AUTO_ANSWER_KEYS         k = { .id = NULL };
        const struct xml_handler h = { .end = on_element_end, .userp = &k };
        struct error            *err = xml_read(xml, &h);

        if (err != NULL)
                return error_wrap(err, "%s", place);
        return make_keys(&k, place, ret);
}

/* ---- the token server of AWS --------------------------------------------------------------- */

/* Sends the form; `signer` NULL: without a signature. */
static struct error *ask_sts(const struct aws_setup *s, const struct strbuf *form,
                             const struct aws_signer *signer, struct store_keys **ret) {
        AUTO_CHARS         place = token_place(s->sts_url);
        AUTO_CHARS         url = mem_printf("%s/", s->sts_url);
        AUTO_STORE_REQUEST r = { 0 };
        AUTO_STORE_ANSWER  a = { 0 };
        struct error      *err = NULL;

        TRY(strbuf_check(form, "a request for keys"));
        token_request_init(&r, "POST", url, TOKEN_SERVER_TIMEOUT_MS, s->is_cancelled);
        token_request_set_form(&r, form);
        if (signer != NULL)
                err = sign_aws(signer, &r);
        if (err == NULL)
                err = token_server_ask(&r, &a, NULL);
        TRY(error_wrap(err, "the role '%s'", s->role_arn));
        return read_xml(strbuf_str(&a.body), place, ret);
}

static void put_role(const struct aws_setup *s, const char *action, struct strbuf *form) {
        url_put_parameter(form, "Action", action);
        url_put_parameter(form, "Version", STS_VERSION);
        url_put_parameter(form, "RoleArn", s->role_arn);
        url_put_parameter(form, "RoleSessionName", s->role_session_name);
        if (s->duration != NULL)
                url_put_parameter(form, "DurationSeconds", s->duration);
}

static struct error *get_by_web_identity(const struct aws_setup *s, struct store_keys **ret) {
        AUTO_SECRET_BUF form;
        AUTO_SECRET     token = NULL;

        secret_buf_init(&form, FORM_BYTES, MAX_FORM_BYTES);
        TRY(token_file_read(s->web_token_from, s->web_token_file, &token));
        put_role(s, "AssumeRoleWithWebIdentity", &form);
        url_put_parameter(&form, "WebIdentityToken", token);
        return ask_sts(s, &form, NULL, ret);
}

static struct error *take_role(const struct aws_setup *s, const struct store_keys *base,
                               uint64_t now_ns, struct store_keys **ret) {
        const struct aws_signer signer = {
                .keys = base, .region = s->region, .service = "sts", .now_ns = now_ns
        };
        AUTO_STRBUF form = { .max = MAX_FORM_BYTES };

        TRY(store_keys_check(base));
        put_role(s, "AssumeRole", &form);
        if (s->external_id != NULL)
                url_put_parameter(&form, "ExternalId", s->external_id);
        return ask_sts(s, &form, &signer, ret);
}

/* ---- containers ---------------------------------------------------------------------------- */

static struct error *get_of_container(const struct aws_setup *s, struct store_keys **ret) {
        AUTO_CHARS         place = token_place(s->container_url);
        AUTO_SECRET        token = NULL;
        AUTO_STORE_REQUEST r = { 0 };
        AUTO_STORE_ANSWER  a = { 0 };

        if (s->container_token_file != NULL)
                TRY(token_file_read("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                    s->container_token_file, &token));
        else if (s->container_token != NULL)
                token = mem_strdup(s->container_token);
        if (token != NULL && !secret_is_plain(token))
                return error_new_text(ERR_INVALID_ARG,
                                      "the authorization token of the container has a control "
                                      "character in it, such as the end of a line");
        token_request_init(&r, "GET", s->container_url, TOKEN_METADATA_TIMEOUT_MS, s->is_cancelled);
        if (token != NULL)
                store_request_add(&r, "authorization", token);
        TRY(token_server_ask(&r, &a, NULL));
        return read_json(strbuf_str(&a.body), place, ret);
}

/* ---- the metadata service of an instance, version 2 ---------------------------------------- */

static struct error *ask_instance(const struct aws_setup *s, const char *method, const char *url,
                                  const char *header, const char *value, struct store_answer *ret,
                                  int *ret_status) {
        AUTO_STORE_REQUEST r = { 0 };

        token_request_init(&r, method, url, TOKEN_METADATA_TIMEOUT_MS, s->is_cancelled);
        store_request_add(&r, header, value);
        return token_server_ask(&r, ret, ret_status);
}

/* The first line of a text without control characters; NULL when there is none. */
static char *first_line(struct str text) {
        struct str line;

        str_split(text, '\n', &line);
        line = str_trim(line);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
                line.len--;
        for (size_t i = 0; i < line.len; i++)
                if ((unsigned char)line.ptr[i] <= ' ' || line.ptr[i] == 0x7f)
                        return NULL;
        return line.len > 0 ? mem_strndup(line.ptr, line.len) : NULL;
}

static struct error *get_role(const struct aws_setup *s, const char *url, const char *token,
                              char **ret, int *ret_status) {
        AUTO_STORE_ANSWER a = { 0 };

        TRY(ask_instance(s, "GET", url, "x-aws-ec2-metadata-token", token, &a, ret_status));
        *ret = first_line(strbuf_str(&a.body));
        if (*ret != NULL && strlen(*ret) <= MAX_ROLE_BYTES)
                return NULL;
        free(STEAL(*ret));
        *ret_status = 404;
        return error_new(ERR_INVALID_ARG, "%s: the instance has no role", url);
}

static struct error *get_with_token(const struct aws_setup *s, const char *token,
                                    struct store_keys **ret, int *ret_status) {
        AUTO_CHARS list =
                mem_printf("%s/latest/meta-data/iam/security-credentials/", s->instance_url);
        AUTO_CHARS        role = NULL;
        AUTO_STRBUF       url = { 0 };
        AUTO_STORE_ANSWER a = { 0 };
        int               status; /* beyond the name of the role, each failure counts */

        TRY(get_role(s, list, token, &role, ret_status));
        strbuf_puts(&url, list);
        url_encode(str_of(role), false, &url);
        TRY(ask_instance(s, "GET", strbuf_cstr(&url), "x-aws-ec2-metadata-token", token, &a,
                         &status));
        return read_json(strbuf_str(&a.body), strbuf_cstr(&url), ret);
}

static struct error *ask_all(const struct aws_setup *s, struct store_keys **ret, int *ret_status) {
        AUTO_CHARS        url = mem_printf("%s/latest/api/token", s->instance_url);
        AUTO_SECRET       token = NULL;
        AUTO_STORE_ANSWER a = { 0 };

        TRY(ask_instance(s, "PUT", url, "x-aws-ec2-metadata-token-ttl-seconds", "300", &a,
                         ret_status));
        token = first_line(strbuf_str(&a.body));
        if (token == NULL) {
                *ret_status = 404; /* some other server has this address */
                return error_new(ERR_INVALID_ARG, "%s: the answer is not a token", url);
        }
        return get_with_token(s, token, ret, ret_status);
}

static struct error *get_of_instance(const struct aws_setup *s, struct store_keys **ret) {
        int           status = 500;
        struct error *err = ask_all(s, ret, &status);

        return token_end_sources(err, status, s->is_required, ret);
}

/* ---- all sources --------------------------------------------------------------------------- */

static struct error *get_of_source(const struct aws_setup *s, struct store_keys **ret) {
        switch (s->source) {
        case AWS_STATIC:
                *ret = store_keys_new(STORE_KEYS_AWS, str_of(s->key_id), str_of(s->secret),
                                      str_of(s->token), CLOCK_NEVER);
                return NULL;
        case AWS_WEB_IDENTITY: return get_by_web_identity(s, ret);
        case AWS_CONTAINER: return get_of_container(s, ret);
        case AWS_INSTANCE: return get_of_instance(s, ret);
        case AWS_ANONYMOUS: break;
        }
        *ret = store_keys_anonymous();
        return NULL;
}

struct error *aws_keys_get(const struct aws_setup *s, uint64_t now_ns, struct store_keys **ret) {
        struct store_keys *base;
        struct error      *err;

        TRY(get_of_source(s, &base));
        if (!s->is_role || base->kind == STORE_KEYS_NONE) {
                *ret = base;
                return NULL;
        }
        err = take_role(s, base, now_ns, ret);
        store_keys_unref(base);
        return err;
}
