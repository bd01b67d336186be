/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/aws_setup.h"

#include "base/mem.h"
#include "store/aws_files.h"
#include "store/secret.h"
#include "store/url_parts.h"

#define CONTAINER_HOST "http://169.254.170.2"
#define INSTANCE_HOST "http://169.254.169.254"
#define DEFAULT_REGION "us-east-1"
#define DEFAULT_SESSION_NAME "neso"

/* State while the sources are tried. */
struct search {
        const struct store_environment *environment;
        const struct credential_entry  *entry; /* NULL: none */
        bool                            has_host;
        struct aws_files                files;
        struct aws_setup                setup;
        bool                            is_found;
};

static const char *get(const struct search *s, enum store_variable v) {
        return store_environment_get(s->environment, v);
}

static char *copy_value(const struct aws_value *v) {
        return mem_strndup(v->text.ptr, v->text.len);
}

static struct error *missing(enum store_variable there, enum store_variable lacking) {
        return error_new(ERR_INVALID_ARG, "%s is set, but %s is not", store_variable_name(there),
                         store_variable_name(lacking));
}

/* ---- keys in variables and files ------------------------------------------------------------ */

static struct error *try_entry(struct search *s) {
        const struct credential_entry *e = s->entry;

        if (e->region[0] != '\0')
                s->setup.region = secret_copy(e->region);
        if (e->key_id[0] == '\0' && e->secret_key[0] == '\0')
                return NULL;
        if (e->key_id[0] == '\0' || e->secret_key[0] == '\0')
                return error_new(
                        ERR_INVALID_ARG,
                        "TRITON_CLOUD_CREDENTIAL_PATH: the credentials have '%s' without '%s'",
                        e->key_id[0] != '\0' ? "key_id" : "secret_key",
                        e->key_id[0] != '\0' ? "secret_key" : "key_id");
        s->setup.source = AWS_STATIC;
        s->setup.key_id = secret_copy(e->key_id);
        s->setup.secret = secret_copy(e->secret_key);
        s->setup.token = secret_copy(e->session_token);
        s->is_found = true;
        return NULL;
}

static struct error *try_variables(struct search *s) {
        const char *id = get(s, ENV_AWS_ACCESS_KEY_ID), *secret = get(s, ENV_AWS_SECRET_ACCESS_KEY);

        if (id == NULL && secret == NULL)
                return NULL;
        if (secret == NULL)
                return missing(ENV_AWS_ACCESS_KEY_ID, ENV_AWS_SECRET_ACCESS_KEY);
        if (id == NULL)
                return missing(ENV_AWS_SECRET_ACCESS_KEY, ENV_AWS_ACCESS_KEY_ID);
        s->setup.source = AWS_STATIC;
        s->setup.key_id = secret_copy(id);
        s->setup.secret = secret_copy(secret);
        s->setup.token = secret_copy(get(s, ENV_AWS_SESSION_TOKEN));
        s->is_found = true;
        return NULL;
}

/* ---- profiles ------------------------------------------------------------------------------ */

static bool find_setting(const struct search *s, const char *profile, const char *key,
                         struct aws_value *ret) {
        return aws_files_find(&s->files, profile, key, ret);
}

/* A copy, or NULL. */
static char *take_setting(const struct search *s, const char *profile, const char *key) {
        struct aws_value v;

        return find_setting(s, profile, key, &v) ? copy_value(&v) : NULL;
}

static struct error *refuse_setting(const struct search *s, const char *profile, const char *key,
                                    const char *why) {
        struct aws_value v;

        if (!find_setting(s, profile, key, &v))
                return NULL;
        return error_new(ERR_INVALID_ARG, "%s:%u: '%s' of the profile '%s' %s", v.path, v.line, key,
                         profile, why);
}

static struct error *refuse_other_ways(const struct search *s, const char *profile) {
        static const char *const keys[] = { "sso_session", "sso_start_url", "sso_account_id" };

        TRY(refuse_setting(s, profile, "credential_process",
                           "is not supported: programs are not run for keys"));
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                TRY(refuse_setting(s, profile, keys[i],
                                   "is not supported: single sign-on needs a person"));
        return NULL;
}

static struct error *take_static(struct search *s, const char *profile) {
        struct aws_value id, secret;
        bool             has_id = find_setting(s, profile, "aws_access_key_id", &id);
        bool             has_secret = find_setting(s, profile, "aws_secret_access_key", &secret);

        if (!has_id && !has_secret)
                return NULL;
        if (!has_id || !has_secret)
                return error_new(ERR_INVALID_ARG, "%s:%u: the profile '%s' has no '%s'",
                                 has_id ? id.path : secret.path, has_id ? id.line : secret.line,
                                 profile, has_id ? "aws_secret_access_key" : "aws_access_key_id");
        s->setup.source = AWS_STATIC;
        s->setup.key_id = copy_value(&id);
        s->setup.secret = copy_value(&secret);
        s->setup.token = take_setting(s, profile, "aws_session_token");
        s->is_found = true;
        return NULL;
}

static struct error *try_container(struct search *s);

/* The keys that take the role: those of another profile. */
static struct error *take_source_profile(struct search *s, const char *profile,
                                         const struct aws_value *v) {
        AUTO_CHARS source = copy_value(v);

        if (!aws_files_has_profile(&s->files, source))
                return error_new(ERR_INVALID_ARG,
                                 "%s:%u: the source_profile '%s' of the profile '%s' does "
                                 "not exist",
                                 v->path, v->line, source, profile);
        if (strcmp(source, profile) != 0)
                TRY(refuse_setting(
                        s, source, "role_arn",
                        "is not supported in a source_profile: one role is taken, not several"));
        TRY(take_static(s, source));
        if (s->is_found)
                return NULL;
        TRY(refuse_other_ways(s, source));
        return error_new(ERR_INVALID_ARG,
                         "%s:%u: the source_profile '%s' of the profile '%s' has no keys", v->path,
                         v->line, source, profile);
}

static struct error *take_credential_source(struct search *s, const char *profile,
                                            const struct aws_value *v) {
        if (str_is(v->text, "Environment"))
                TRY(try_variables(s));
        else if (str_is(v->text, "EcsContainer"))
                TRY(try_container(s));
        else if (str_is(v->text, "Ec2InstanceMetadata")) {
                s->setup.source = AWS_INSTANCE;
                s->setup.is_required = s->is_found = true;
        } else {
                return error_new(ERR_INVALID_ARG,
                                 "%s:%u: the credential_source of the profile '%s' is not "
                                 "Environment, EcsContainer or Ec2InstanceMetadata",
                                 v->path, v->line, profile);
        }
        if (s->is_found)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "%s:%u: the variables of the credential_source of the profile "
                         "'%s' are not set",
                         v->path, v->line, profile);
}

static struct error *take_duration(struct search *s, const char *profile) {
        struct aws_value v;
        uint64_t         n;

        if (!find_setting(s, profile, "duration_seconds", &v))
                return NULL;
        if (!str_to_u64(v.text, &n) || n < 900 || n > 43200)
                return error_new(
                        ERR_INVALID_ARG,
                        "%s:%u: duration_seconds of the profile '%s' is not between 900 and 43200",
                        v.path, v.line, profile);
        s->setup.duration = copy_value(&v);
        return NULL;
}

static struct error *take_role(struct search *s, const char *profile,
                               const struct aws_value *role) {
        struct aws_value v;

        TRY(refuse_setting(s, profile, "mfa_serial",
                           "is not supported: a server has no code to type in"));
        TRY(take_duration(s, profile));
        s->setup.role_arn = copy_value(role);
        s->setup.role_session_name = take_setting(s, profile, "role_session_name");
        s->setup.external_id = take_setting(s, profile, "external_id");
        if (find_setting(s, profile, "web_identity_token_file", &v)) {
                s->setup.source = AWS_WEB_IDENTITY;
                s->setup.web_token_file = copy_value(&v);
                s->setup.web_token_from =
                        mem_printf("%s:%u: web_identity_token_file", v.path, v.line);
                s->is_found = true;
                return NULL;
        }
        s->setup.is_role = true;
        if (find_setting(s, profile, "source_profile", &v))
                return take_source_profile(s, profile, &v);
        if (find_setting(s, profile, "credential_source", &v))
                return take_credential_source(s, profile, &v);
        return error_new(ERR_INVALID_ARG,
                         "%s:%u: the profile '%s' has a role_arn, but neither "
                         "source_profile, credential_source nor web_identity_token_file",
                         role->path, role->line, profile);
}

static struct error *use_profile(struct search *s, const char *profile) {
        struct aws_value role;

        if (s->setup.s3_url == NULL && !s->has_host)
                TRY(refuse_setting(s, profile, "services",
                                   "is not supported; set AWS_ENDPOINT_URL_S3 instead"));
        if (s->setup.region == NULL)
                s->setup.region = take_setting(s, profile, "region");
        if (s->setup.s3_url == NULL)
                s->setup.s3_url = take_setting(s, profile, "endpoint_url");
        if (s->setup.sts_url == NULL)
                s->setup.sts_url = take_setting(s, profile, "endpoint_url");
        if (s->is_found)
                return NULL;
        if (find_setting(s, profile, "role_arn", &role))
                return take_role(s, profile, &role);
        TRY(take_static(s, profile));
        return s->is_found ? NULL : refuse_other_ways(s, profile);
}

/* Also when keys are found already: the profile may have the region. */
static struct error *try_profile(struct search *s) {
        const char *named = s->entry != NULL ? s->entry->profile : get(s, ENV_AWS_PROFILE);
        bool        is_named = named != NULL && named[0] != '\0';
        const char *profile = is_named ? named : "default";

        if (aws_files_has_profile(&s->files, profile))
                return use_profile(s, profile);
        if (!is_named || s->is_found)
                return NULL;
        return error_new(ERR_INVALID_ARG, "%s: there is no profile '%s' in '%s' or '%s'",
                         s->entry != NULL ? "TRITON_CLOUD_CREDENTIAL_PATH" : "AWS_PROFILE", profile,
                         s->files.credentials.path != NULL ? s->files.credentials.path
                                                           : "~/.aws/credentials",
                         s->files.config.path != NULL ? s->files.config.path : "~/.aws/config");
}

/* ---- services of the machine --------------------------------------------------------------- */

static struct error *try_web_identity(struct search *s) {
        const char *file = get(s, ENV_AWS_WEB_IDENTITY_TOKEN_FILE),
                   *role = get(s, ENV_AWS_ROLE_ARN);

        if (file == NULL)
                return NULL;
        if (role == NULL)
                return missing(ENV_AWS_WEB_IDENTITY_TOKEN_FILE, ENV_AWS_ROLE_ARN);
        s->setup.source = AWS_WEB_IDENTITY;
        s->setup.web_token_file = secret_copy(file);
        s->setup.web_token_from = secret_copy("AWS_WEB_IDENTITY_TOKEN_FILE");
        s->setup.role_arn = secret_copy(role);
        s->setup.role_session_name = secret_copy(get(s, ENV_AWS_ROLE_SESSION_NAME));
        s->is_found = true;
        return NULL;
}

/* Without TLS a token goes to the machine itself and to the services of its host only, which are the
 * agents of ECS and of EKS. */
static bool is_container_host(const struct url_parts *p) {
        static const char *const hosts[] = { "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };

        for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
                if (str_is(p->host, hosts[i]))
                        return true;
        return p->is_tls || url_host_is_loopback(p->host);
}

static struct error *try_container(struct search *s) {
        const char      *relative = get(s, ENV_AWS_CONTAINER_CREDENTIALS_RELATIVE_URI);
        const char      *full = get(s, ENV_AWS_CONTAINER_CREDENTIALS_FULL_URI);
        struct url_parts p;

        if (relative == NULL && full == NULL)
                return NULL;
        if (relative != NULL && relative[0] != '/')
                return error_new_text(
                        ERR_INVALID_ARG,
                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
        if (relative == NULL && (!url_parts_read(str_of(full), &p) || !is_container_host(&p)))
                return error_new_text(
                        ERR_INVALID_ARG,
                        "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor an address "
                        "of this machine");
        s->setup.source = AWS_CONTAINER;
        s->setup.container_url =
                relative != NULL ? mem_printf(CONTAINER_HOST "%s", relative) : secret_copy(full);
        s->setup.container_token = secret_copy(get(s, ENV_AWS_CONTAINER_AUTHORIZATION_TOKEN));
        s->setup.container_token_file =
                secret_copy(get(s, ENV_AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE));
        s->is_found = true;
        return NULL;
}

static void try_instance(struct search *s) {
        const char *disabled = get(s, ENV_AWS_EC2_METADATA_DISABLED);

        s->setup.source = AWS_INSTANCE;
        if (disabled != NULL && strcasecmp(disabled, "true") == 0)
                s->setup.source = AWS_ANONYMOUS;
        s->is_found = true;
}

/* ---- all together -------------------------------------------------------------------------- */

static struct error *try_all(struct search *s) {
        TRY(s->entry != NULL ? try_entry(s) : try_variables(s));
        TRY(try_profile(s));
        if (!s->is_found)
                TRY(try_web_identity(s));
        if (!s->is_found)
                TRY(try_container(s));
        if (!s->is_found)
                try_instance(s);
        return NULL;
}

/* Takes `url`, which may be NULL. */
static char *cut_slash(char *url) {
        size_t len = url != NULL ? strlen(url) : 0;

        while (len > 0 && url[len - 1] == '/')
                url[--len] = '\0';
        return url;
}

static void take_urls(struct search *s) {
        const char *instance = get(s, ENV_AWS_EC2_METADATA_SERVICE_ENDPOINT);

        s->setup.s3_url =
                secret_copy(store_environment_get_first(s->environment, ENV_AWS_ENDPOINT_URL_S3,
                                                        ENV_AWS_ENDPOINT_URL));
        s->setup.sts_url =
                secret_copy(store_environment_get_first(s->environment, ENV_AWS_ENDPOINT_URL_STS,
                                                        ENV_AWS_ENDPOINT_URL));
        s->setup.instance_url = cut_slash(secret_copy(instance != NULL ? instance : INSTANCE_HOST));
        s->setup.is_required = instance != NULL;
}

/* AWS's names of hosts: those in China have a domain of their own. */
static char *own_url(const char *service, const char *region) {
        const char *end = strncmp(region, "cn-", 3) == 0 ? ".cn" : "";

        return mem_printf("https://%s.%s.amazonaws.com%s", service, region, end);
}

static bool is_region(const char *text) {
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

        return n > 0 && n <= 64 && text[n] == '\0';
}

static struct error *complete(struct search *s) {
        struct aws_setup *a = &s->setup;

        if (a->region == NULL)
                a->region = mem_strdup(DEFAULT_REGION);
        if (!is_region(a->region))
                return error_new_text(ERR_INVALID_ARG,
                                      "the region of AWS (AWS_DEFAULT_REGION, AWS_REGION, or "
                                      "'region' of a file) has other characters than "
                                      "letters, digits and '-'");
        if (a->s3_url == NULL)
                a->s3_url = own_url("s3", a->region);
        if (a->sts_url == NULL)
                a->sts_url = own_url("sts", a->region);
        if (a->role_session_name == NULL)
                a->role_session_name = mem_strdup(DEFAULT_SESSION_NAME);
        cut_slash(a->s3_url);
        cut_slash(a->sts_url);
        TRY(url_check(a->s3_url, "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL"));
        TRY(url_check(a->sts_url, "AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL"));
        return url_check(a->instance_url, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
}

static struct error *search(struct search *s) {
        TRY(aws_files_open(s->environment, &s->files));
        take_urls(s);
        if (s->entry == NULL || s->entry->region[0] == '\0')
                s->setup.region = secret_copy(store_environment_get_first(s->environment,
                                                                          ENV_AWS_DEFAULT_REGION,
                                                                          ENV_AWS_REGION));
        TRY(try_all(s));
        return complete(s);
}

struct error *aws_setup_read(const struct store_environment *e,
                             const struct credential_entry *entry, bool has_host,
                             struct aws_setup *ret) {
        struct search s = { .environment = e, .entry = entry, .has_host = has_host };
        struct error *err = search(&s);

        aws_files_done(&s.files);
        if (err != NULL) {
                aws_setup_done(&s.setup);
                return err;
        }
        *ret = s.setup;
        return NULL;
}

void aws_setup_done(struct aws_setup *s) {
        char **texts[] = {
                &s->key_id,
                &s->secret,
                &s->token,
                &s->role_arn,
                &s->role_session_name,
                &s->external_id,
                &s->duration,
                &s->web_token_file,
                &s->web_token_from,
                &s->container_url,
                &s->container_token,
                &s->container_token_file,
                &s->instance_url,
                &s->region,
                &s->s3_url,
                &s->sts_url,
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                secret_free(*texts[i]);
        *s = (struct aws_setup){ .source = AWS_ANONYMOUS };
}
