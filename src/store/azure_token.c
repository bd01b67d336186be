/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/azure_token.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/url.h"
#include "store/secret.h"
#include "store/token_server.h"

#define RESOURCE "https://storage.azure.com/"
#define FORM_BYTES ((size_t)16 << 10)
#define MAX_FORM_BYTES ((size_t)256 << 10)
/* Versions of the two forms of managed identity: of virtual machines, of app services. */
#define MACHINE_VERSION "2018-02-01"
#define SERVICE_VERSION "2019-08-01"

static struct error *ask_oauth(struct store_request *r, const char *place, uint64_t now_ns,
                               struct store_keys **ret, int *ret_status) {
        AUTO_STORE_ANSWER a = { 0 };

        TRY(token_server_ask(r, &a, ret_status));
        return token_read_oauth(strbuf_str(&a.body), place, now_ns, ret);
}

static struct error *get_by_workload(const struct azure_setup *s, uint64_t now_ns,
                                     struct store_keys **ret) {
        AUTO_CHARS         place = token_place(s->token_url);
        AUTO_SECRET_BUF    form;
        AUTO_SECRET        token = NULL;
        AUTO_STORE_REQUEST r = { 0 };

        secret_buf_init(&form, FORM_BYTES, MAX_FORM_BYTES);
        TRY(token_file_read("AZURE_FEDERATED_TOKEN_FILE", s->token_file, &token));
        url_put_parameter(&form, "grant_type", "client_credentials");
        url_put_parameter(&form, "client_id", s->client_id);
        url_put_parameter(&form, "scope", RESOURCE ".default");
        url_put_parameter(&form, "client_assertion_type",
                          "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        url_put_parameter(&form, "client_assertion", token);
        TRY(strbuf_check(&form, "a request for a token"));
        token_request_init(&r, "POST", s->token_url, TOKEN_SERVER_TIMEOUT_MS, s->is_cancelled);
        token_request_set_form(&r, &form);
        return ask_oauth(&r, place, now_ns, ret, NULL);
}

static struct error *ask_identity(const struct azure_setup *s, uint64_t now_ns,
                                  struct store_keys **ret, int *ret_status) {
        AUTO_CHARS         place = token_place(s->identity_url);
        bool               is_service = s->identity_header != NULL;
        AUTO_STORE_REQUEST r = { 0 };

        token_request_init(&r, "GET", s->identity_url, TOKEN_METADATA_TIMEOUT_MS, s->is_cancelled);
        token_request_put_query(&r, "api-version", is_service ? SERVICE_VERSION : MACHINE_VERSION);
        token_request_put_query(&r, "resource", RESOURCE);
        if (s->client_id != NULL)
                token_request_put_query(&r, "client_id", s->client_id);
        if (is_service)
                store_request_add(&r, "x-identity-header", s->identity_header);
        else
                store_request_add(&r, "metadata", "true");
        return ask_oauth(&r, place, now_ns, ret, ret_status);
}

static struct error *get_by_identity(const struct azure_setup *s, uint64_t now_ns,
                                     struct store_keys **ret) {
        int           status = 500;
        struct error *err = ask_identity(s, now_ns, ret, &status);

        return token_end_sources(err, status, s->is_required, ret);
}

struct error *azure_token_get(const struct azure_setup *s, uint64_t now_ns,
                              struct store_keys **ret) {
        enum store_keys_kind kind = STORE_KEYS_NONE;

        switch (s->source) {
        case AZURE_WORKLOAD: return get_by_workload(s, now_ns, ret);
        case AZURE_MANAGED: return get_by_identity(s, now_ns, ret);
        case AZURE_SHARED_KEY: kind = STORE_KEYS_AZURE_SHARED; break;
        case AZURE_SAS: kind = STORE_KEYS_AZURE_SAS; break;
        case AZURE_ANONYMOUS: break;
        }
        *ret = store_keys_new(kind, str_of(s->account), str_of(s->secret), STR_LIT(""),
                              CLOCK_NEVER);
        return NULL;
}
