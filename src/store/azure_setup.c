/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/azure_setup.h"

#include "base/mem.h"
#include "codec/base64.h"
#include "store/secret.h"
#include "store/url_parts.h"

#define BLOB_DOMAIN ".blob.core.windows.net"
#define AUTHORITY "https://login.microsoftonline.com"
#define METADATA_HOST "http://169.254.169.254"
#define METADATA_PATH "/metadata/identity/oauth2/token"

static char *join_url(const char *base, const char *path) {
        size_t len = strlen(base);

        while (len > 0 && base[len - 1] == '/')
                len--;
        return mem_printf("%.*s%s", (int)len, base, path);
}

/* ---- the account and its host -------------------------------------------------------------- */

/* A host with a port, or one that is not of the public cloud, serves accounts by the first part of the
 * path: "127.0.0.1:10000", Azurite's. */
static bool has_own_host(const struct store_url *url) {
        struct str host = str_of(url->host);

        return !url->is_tls || memchr(host.ptr, ':', host.len) != NULL ||
               (memchr(host.ptr, '.', host.len) != NULL &&
                memchr(url->bucket, '/', strlen(url->bucket)));
}

static char *account_of(const struct store_url *url) {
        struct str account;

        if (has_own_host(url) && strchr(url->bucket, '/') != NULL)
                str_split(str_of(url->bucket), '/', &account);
        else
                str_split(str_of(url->host), '.', &account);
        return mem_strndup(account.ptr, account.len);
}

static bool is_account(const char *text) {
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

        return n > 0 && n <= 63 && text[n] == '\0';
}

static struct error *choose_account(const struct store_environment *e,
                                    const struct credential_entry  *entry,
                                    const struct store_url *url, struct azure_setup *s) {
        const char *given = entry != NULL ? entry->account_str
                                          : store_environment_get(e, ENV_AZURE_STORAGE_ACCOUNT);
        bool        is_given = given != NULL && given[0] != '\0';
        struct str  domain = STR_LIT(BLOB_DOMAIN), host = str_of(url->host);

        if (is_given && !is_account(given))
                return error_new(ERR_INVALID_ARG,
                                 "%s: not a name of an account: it has other characters "
                                 "than letters, digits and '-'",
                                 entry != NULL ? "account_str of TRITON_CLOUD_CREDENTIAL_PATH"
                                               : "AZURE_STORAGE_ACCOUNT");
        s->account = is_given ? mem_strdup(given) : account_of(url);
        if (has_own_host(url))
                s->origin = mem_printf("%s://%s", url->is_tls ? "https" : "http", url->host);
        else if (memchr(host.ptr, '.', host.len) == NULL || (is_given && str_ends(host, domain)))
                s->origin = mem_printf("https://%s" BLOB_DOMAIN, s->account);
        else
                s->origin = mem_printf("https://%s", url->host);
        return NULL;
}

/* ---- sources ------------------------------------------------------------------------------- */

static struct error *use_key(struct azure_setup *s, const char *key, const char *name) {
        AUTO_SECRET_BUF bytes;

        secret_buf_init(&bytes, strlen(key), 0);
        if (!base64_decode(str_of(key), &bytes) || bytes.len == 0)
                return error_new(ERR_INVALID_ARG, "%s is not base64", name);
        s->source = AZURE_SHARED_KEY;
        s->secret = mem_strdup(key);
        return NULL;
}

static struct error *use_sas(struct azure_setup *s, const char *sas) {
        if (sas[0] == '?')
                sas++;
        for (const char *c = sas; *c != '\0'; c++)
                if ((unsigned char)*c <= ' ' || *c == '#' || *c == '?' || (unsigned char)*c >= 0x7f)
                        return error_new_text(ERR_INVALID_ARG,
                                              "AZURE_STORAGE_SAS_TOKEN is not the query of a URL");
        s->source = AZURE_SAS;
        s->secret = mem_strdup(sas);
        return NULL;
}

static struct error *use_workload(const struct store_environment *e, struct azure_setup *s,
                                  const char *file) {
        const char *client = store_environment_get(e, ENV_AZURE_CLIENT_ID);
        const char *tenant = store_environment_get(e, ENV_AZURE_TENANT_ID);
        const char *authority = store_environment_get(e, ENV_AZURE_AUTHORITY_HOST);
        AUTO_CHARS  path = NULL;

        if (client == NULL || tenant == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "AZURE_FEDERATED_TOKEN_FILE is set, but %s is not",
                                 client == NULL ? "AZURE_CLIENT_ID" : "AZURE_TENANT_ID");
        if (strspn(tenant, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") !=
            strlen(tenant))
                return error_new_text(ERR_INVALID_ARG,
                                      "AZURE_TENANT_ID is not the id or domain of a tenant");
        s->source = AZURE_WORKLOAD;
        s->token_file = mem_strdup(file);
        s->client_id = mem_strdup(client);
        path = mem_printf("/%s/oauth2/v2.0/token", tenant);
        s->token_url = join_url(authority != NULL ? authority : AUTHORITY, path);
        return url_check(s->token_url, "AZURE_AUTHORITY_HOST");
}

static struct error *use_managed(const struct store_environment *e, struct azure_setup *s) {
        const char *endpoint = store_environment_get(e, ENV_IDENTITY_ENDPOINT);
        const char *host = store_environment_get(e, ENV_AZURE_POD_IDENTITY_AUTHORITY_HOST);

        s->source = AZURE_MANAGED;
        s->client_id = secret_copy(store_environment_get(e, ENV_AZURE_CLIENT_ID));
        s->identity_header = secret_copy(store_environment_get(e, ENV_IDENTITY_HEADER));
        s->is_required = endpoint != NULL || host != NULL;
        if (endpoint != NULL && s->identity_header == NULL)
                return error_new_text(ERR_INVALID_ARG,
                                      "IDENTITY_ENDPOINT is set, but IDENTITY_HEADER is not");
        if (endpoint != NULL && !secret_is_plain(s->identity_header))
                return error_new_text(ERR_INVALID_ARG,
                                      "IDENTITY_HEADER has a control character in it, such as the "
                                      "end of a line");
        if (endpoint != NULL) {
                s->identity_url = mem_strdup(endpoint);
                return url_check(s->identity_url, "IDENTITY_ENDPOINT");
        }
        free(STEAL(s->identity_header));
        s->identity_url = join_url(host != NULL ? host : METADATA_HOST, METADATA_PATH);
        return url_check(s->identity_url, "AZURE_POD_IDENTITY_AUTHORITY_HOST");
}

static struct error *choose_source(const struct store_environment *e,
                                   const struct credential_entry *entry, struct azure_setup *s) {
        const char *key = store_environment_get(e, ENV_AZURE_STORAGE_KEY);
        const char *sas = store_environment_get(e, ENV_AZURE_STORAGE_SAS_TOKEN);
        const char *file = store_environment_get(e, ENV_AZURE_FEDERATED_TOKEN_FILE);

        if (entry != NULL && entry->account_key[0] != '\0')
                return use_key(s, entry->account_key,
                               "account_key of TRITON_CLOUD_CREDENTIAL_PATH");
        if (entry == NULL && key != NULL)
                return use_key(s, key, "AZURE_STORAGE_KEY");
        if (entry == NULL && sas != NULL)
                return use_sas(s, sas);
        return file != NULL ? use_workload(e, s, file) : use_managed(e, s);
}

struct error *azure_setup_read(const struct store_environment *e,
                               const struct credential_entry *entry, const struct store_url *url,
                               struct azure_setup *ret) {
        struct azure_setup s = { .source = AZURE_ANONYMOUS };
        struct error      *err = choose_account(e, entry, url, &s);

        if (err == NULL)
                err = choose_source(e, entry, &s);
        if (err != NULL) {
                azure_setup_done(&s);
                return err;
        }
        *ret = s;
        return NULL;
}

void azure_setup_done(struct azure_setup *s) {
        char **texts[] = {
                &s->account,   &s->secret,       &s->token_file,      &s->token_url,
                &s->client_id, &s->identity_url, &s->identity_header, &s->origin,
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                secret_free(*texts[i]);
        *s = (struct azure_setup){ .source = AZURE_ANONYMOUS };
}
