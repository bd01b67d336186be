/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/gcs_setup.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "store/secret.h"
#include "store/token_server.h"
#include "store/url_parts.h"

#define ORIGIN "https://storage.googleapis.com"
#define TOKEN_URL "https://oauth2.googleapis.com/token"
#define METADATA_HOST "169.254.169.254" /* not the name: it needs no name server */
#define MAX_FILE_BYTES ((size_t)1 << 20)

/* ---- the file of an account ---------------------------------------------------------------- */

/* NULL for a member that is missing, empty or no text. */
static char *take_member(struct str json, const char *name) {
        char *text = token_json_text(json, name);

        if (text[0] == '\0')
                free(STEAL(text));
        return text;
}

static struct error *take_required_member(const struct gcs_setup *s, struct str json,
                                          const char *name, char **ret) {
        *ret = take_member(json, name);
        if (*ret != NULL)
                return NULL;
        return error_new(ERR_INVALID_ARG, "the file '%s' has no '%s'", s->path, name);
}

/* Keys and tokens go over TLS, or stay on the machine. */
static struct error *check_url(const struct gcs_setup *s, const char *url, const char *name) {
        struct url_parts p;

        if (url == NULL ||
            (url_parts_read(str_of(url), &p) && (p.is_tls || url_host_is_loopback(p.host))))
                return NULL;
        if (!secret_is_plain(url))
                return error_new(ERR_INVALID_ARG,
                                 "the file '%s': '%s' has a control character in it", s->path,
                                 name);
        return error_new(ERR_INVALID_ARG,
                         "the file '%s': '%s' does not begin with https:// and a host", s->path,
                         name);
}

static struct error *read_token_uri(struct gcs_setup *s, struct str json) {
        s->token_url = take_member(json, "token_uri");
        if (s->token_url == NULL)
                s->token_url = mem_strdup(TOKEN_URL);
        return check_url(s, s->token_url, "token_uri");
}

static struct error *read_service_account(struct gcs_setup *s, struct str json) {
        s->source = GCS_SERVICE_ACCOUNT;
        TRY(take_required_member(s, json, "client_email", &s->client_email));
        TRY(take_required_member(s, json, "private_key", &s->private_key));
        s->private_key_id = take_member(json, "private_key_id");
        return read_token_uri(s, json);
}

static struct error *read_user(struct gcs_setup *s, struct str json) {
        s->source = GCS_USER;
        TRY(take_required_member(s, json, "client_id", &s->client_id));
        TRY(take_required_member(s, json, "client_secret", &s->client_secret));
        TRY(take_required_member(s, json, "refresh_token", &s->refresh_token));
        return read_token_uri(s, json);
}

static struct error *read_token_format(struct gcs_setup *s, struct str json) {
        AUTO_CHARS type = token_json_text(json, "credential_source.format.type");

        if (type[0] == '\0' || strcmp(type, "text") == 0)
                return NULL;
        if (strcmp(type, "json") != 0)
                return error_new(
                        ERR_INVALID_ARG,
                        "the file '%s': the type in 'credential_source.format' is not text or json",
                        s->path);
        return take_required_member(s, json, "credential_source.format.subject_token_field_name",
                                    &s->token_field);
}

static struct error *read_external(struct gcs_setup *s, struct str json) {
        static const char *const refused[] = { "url", "executable", "environment_id",
                                               "certificate" };

        s->source = GCS_EXTERNAL;
        for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
                AUTO_CHARS path = mem_printf("credential_source.%s", refused[i]);

                if (json_find(json, path).ptr != NULL)
                        return error_new(
                                ERR_INVALID_ARG,
                                "the file '%s': '%s' is not supported; 'credential_source.file' is",
                                s->path, path);
        }
        TRY(take_required_member(s, json, "audience", &s->audience));
        TRY(take_required_member(s, json, "subject_token_type", &s->token_type));
        TRY(take_required_member(s, json, "token_url", &s->token_url));
        TRY(take_required_member(s, json, "credential_source.file", &s->token_file));
        s->client_id = take_member(json, "client_id");
        s->client_secret = take_member(json, "client_secret");
        s->impersonation_url = take_member(json, "service_account_impersonation_url");
        TRY(read_token_format(s, json));
        TRY(check_url(s, s->token_url, "token_url"));
        return check_url(s, s->impersonation_url, "service_account_impersonation_url");
}

static struct error *read_account(struct gcs_setup *s, struct str json) {
        AUTO_ERROR err = json_check(json, JSON_OBJECT);
        AUTO_CHARS type = NULL;

        if (err != NULL)
                return error_new(ERR_INVALID_ARG, "the file '%s' is not a JSON object: %s", s->path,
                                 err->message);
        type = token_json_text(json, "type");
        if (strcmp(type, "service_account") == 0)
                return read_service_account(s, json);
        if (strcmp(type, "authorized_user") == 0)
                return read_user(s, json);
        if (strcmp(type, "external_account") == 0)
                return read_external(s, json);
        return error_new(ERR_INVALID_ARG,
                         "the file '%s': its 'type' is not service_account, authorized_user or "
                         "external_account",
                         s->path);
}

static struct error *open_account(struct gcs_setup *s) {
        AUTO_SECRET_BUF text = { .ptr = NULL };

        TRY(file_read(s->path, MAX_FILE_BYTES, &text));
        return read_account(s, strbuf_str(&text));
}

/* ---- which file ---------------------------------------------------------------------------- */

/* Returns the path of gcloud's file, or NULL. */
static char *own_file(const struct store_environment *e) {
        const char *folder = store_environment_get(e, ENV_CLOUDSDK_CONFIG);
        const char *home = store_environment_get(e, ENV_HOME);
        char       *path;

        if (folder != NULL)
                path = path_join(folder, "application_default_credentials.json");
        else if (home != NULL)
                path = mem_printf("%s/.config/gcloud/application_default_credentials.json", home);
        else
                return NULL;
        if (!file_exists(path))
                free(STEAL(path));
        return path;
}

/* Sets the path when there is a file; returns what names it. */
static const char *choose_file(const struct store_environment *e,
                               const struct credential_entry *entry, struct gcs_setup *s) {
        const char *named = store_environment_get(e, ENV_GOOGLE_APPLICATION_CREDENTIALS);

        if (entry != NULL && entry->path[0] != '\0') {
                s->path = mem_strdup(entry->path);
                return "TRITON_CLOUD_CREDENTIAL_PATH";
        }
        if (entry == NULL && named != NULL) {
                s->path = mem_strdup(named);
                return "GOOGLE_APPLICATION_CREDENTIALS";
        }
        s->path = own_file(e);
        return "the credentials of gcloud";
}

static char *emulator_origin(const char *host) {
        bool  has_scheme = strncmp(host, "http://", 7) == 0 || strncmp(host, "https://", 8) == 0;
        char *origin = mem_printf("%s%s", has_scheme ? "" : "http://", host);

        for (size_t len = strlen(origin); len > 0 && origin[len - 1] == '/'; len--)
                origin[len - 1] = '\0';
        return origin;
}

static struct error *use_emulator(struct gcs_setup *s, const char *host) {
        struct url_parts p;

        s->source = GCS_ANONYMOUS;
        s->origin = emulator_origin(host);
        if (url_parts_read(str_of(s->origin), &p) && p.path.len == 0 && p.query.len == 0)
                return NULL;
        return error_new_text(ERR_INVALID_ARG,
                              "STORAGE_EMULATOR_HOST is not host:port or http://host:port");
}

static struct error *use_metadata(const struct store_environment *e, struct gcs_setup *s) {
        const char      *host = store_environment_get(e, ENV_GCE_METADATA_HOST);
        struct url_parts p;

        s->source = GCS_METADATA;
        s->is_required = host != NULL;
        s->metadata_url = mem_printf("http://%s", host != NULL ? host : METADATA_HOST);
        if (url_parts_read(str_of(s->metadata_url), &p) && p.path.len == 0 && p.query.len == 0)
                return NULL;
        return error_new_text(ERR_INVALID_ARG, "GCE_METADATA_HOST is not a host or host:port");
}

static struct error *read_setup(const struct store_environment *e,
                                const struct credential_entry *entry, struct gcs_setup *s) {
        const char *emulator = store_environment_get(e, ENV_STORAGE_EMULATOR_HOST);
        const char *from;

        if (emulator != NULL)
                return use_emulator(s, emulator);
        s->origin = mem_strdup(ORIGIN);
        from = choose_file(e, entry, s);
        if (s->path == NULL)
                return use_metadata(e, s);
        return error_recode(error_wrap(open_account(s), "%s", from), ERR_INVALID_ARG);
}

struct error *gcs_setup_read(const struct store_environment *e,
                             const struct credential_entry *entry, struct gcs_setup *ret) {
        struct gcs_setup s = { .source = GCS_ANONYMOUS };
        struct error    *err = read_setup(e, entry, &s);

        if (err != NULL) {
                gcs_setup_done(&s);
                return err;
        }
        *ret = s;
        return NULL;
}

void gcs_setup_done(struct gcs_setup *s) {
        char **texts[] = {
                &s->path,
                &s->token_url,
                &s->client_email,
                &s->private_key,
                &s->private_key_id,
                &s->client_id,
                &s->client_secret,
                &s->refresh_token,
                &s->audience,
                &s->token_type,
                &s->token_file,
                &s->token_field,
                &s->impersonation_url,
                &s->metadata_url,
                &s->origin,
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                secret_free(*texts[i]);
        *s = (struct gcs_setup){ .source = GCS_ANONYMOUS };
}
