/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_credentials.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/aws_keys.h"
#include "store/aws_setup.h"
#include "store/azure_setup.h"
#include "store/azure_token.h"
#include "store/credential_file.h"
#include "store/gcs_setup.h"
#include "store/gcs_token.h"
#include "store/secret.h"
#include "store/sign_aws.h"
#include "store/sign_azure.h"
#include "store/store_credentials_private.h"
#include "store/store_environment.h"
#include "store/store_keys.h"
#include "store/url_parts.h"

#include <stdatomic.h>

struct store_credentials {
        struct store_environment environment;
        struct store_url         url;
        char                    *origin; /* owned */
        char                    *region; /* owned; "" but for S3 */
        uint64_t (*now)(void);           /* the wall clock */
        const atomic_bool *is_cancelled; /* borrowed; NULL: nothing ends requests for keys */
        atomic_uint        n_renewals;   /* that gave other keys */

        struct mutex       lock; /* rank LOCK_LEAF; guards everything below */
        struct cond        renewed;
        bool               is_renewing; /* by a thread that does not hold the lock */
        unsigned           n_attempts;
        struct error      *failure;  /* owned; of the last attempt */
        struct store_keys *keys;     /* ref; NULL: never fetched */
        uint64_t           renew_ns; /* when to renew the keys; CLOCK_NEVER */
        uint64_t refused_ns; /* when keys were last renewed because of a refusal; 0: never */
};

/* ---- where keys come from ------------------------------------------------------------------ */

/* The setup of the store's kind. It is read again for each renewal, since files change. */
struct setup {
        enum store_kind    kind;
        struct aws_setup   aws;
        struct gcs_setup   gcs;
        struct azure_setup azure;
};

static void setup_done(struct setup *s) {
        aws_setup_done(&s->aws);
        gcs_setup_done(&s->gcs);
        azure_setup_done(&s->azure);
}

static struct error *setup_read_kind(const struct store_credentials *c,
                                     const struct credential_entry *entry, struct setup *s) {
        switch (c->url.kind) {
        case STORE_S3:
                return aws_setup_read(&c->environment, entry, c->url.host[0] != '\0', &s->aws);
        case STORE_GS: return gcs_setup_read(&c->environment, entry, &s->gcs);
        case STORE_AS: return azure_setup_read(&c->environment, entry, &c->url, &s->azure);
        case STORE_WEB: break;
        }
        return NULL;
}

static struct error *setup_read(const struct store_credentials *c, struct setup *ret) {
        const char *file = store_environment_get(&c->environment, ENV_TRITON_CLOUD_CREDENTIAL_PATH);
        struct credential_entry entry;
        struct error           *err;

        *ret = (struct setup){ .kind = c->url.kind };
        if (file == NULL || c->url.kind == STORE_WEB)
                return setup_read_kind(c, NULL, ret);
        TRY(credential_file_find(file, &c->url, &entry));
        err = setup_read_kind(c, &entry, ret);
        credential_entry_done(&entry);
        return err;
}

/* True when the setup contains the keys, so no server issues them. */
static bool setup_is_static(const struct setup *s) {
        switch (s->kind) {
        case STORE_S3:
                return !s->aws.is_role &&
                       (s->aws.source == AWS_STATIC || s->aws.source == AWS_ANONYMOUS);
        case STORE_GS: return s->gcs.source == GCS_ANONYMOUS;
        case STORE_AS: return s->azure.source != AZURE_WORKLOAD && s->azure.source != AZURE_MANAGED;
        case STORE_WEB: break;
        }
        return true;
}

static struct error *get_keys(const struct setup *s, uint64_t now_ns, struct store_keys **ret) {
        switch (s->kind) {
        case STORE_S3: return aws_keys_get(&s->aws, now_ns, ret);
        case STORE_GS: return gcs_token_get(&s->gcs, now_ns, ret);
        case STORE_AS: return azure_token_get(&s->azure, now_ns, ret);
        case STORE_WEB: break;
        }
        *ret = store_keys_anonymous();
        return NULL;
}

static struct error *setup_get_keys(const struct setup *s, uint64_t now_ns,
                                    struct store_keys **ret) {
        struct store_keys *k;
        struct error      *err;

        TRY(get_keys(s, now_ns, &k));
        err = store_keys_check(k);
        if (err == NULL)
                *ret = k;
        else
                store_keys_unref(k);
        return err;
}

/* Logged once, so that a user who expects keys finds the reason of a refusal. */
static void report_anonymous(const struct store_credentials *c, const struct store_keys *keys) {
        if (keys->kind == STORE_KEYS_NONE && c->url.kind != STORE_WEB)
                log_info("%s: no credentials were found; requests are anonymous", c->url.text);
}

/* A service that has issued keys is there: when it does not answer, it is not one without keys. */
static void require_answer(struct setup *s) {
        s->aws.is_required = s->gcs.is_required = s->azure.is_required = true;
}

static struct error *fetch(const struct store_credentials *c, bool has_issued, uint64_t now_ns,
                           struct store_keys **ret) {
        struct setup  s;
        struct error *err;

        TRY(setup_read(c, &s));
        if (has_issued)
                require_answer(&s);
        s.aws.is_cancelled = s.gcs.is_cancelled = s.azure.is_cancelled = c->is_cancelled;
        err = setup_get_keys(&s, now_ns, ret);
        setup_done(&s);
        return err;
}

/* ---- open and close ------------------------------------------------------------------------ */

static void copy_url(const struct store_url *from, struct store_url *to) {
        *to = (struct store_url){
                .kind = from->kind,
                .is_tls = from->is_tls,
                .host = mem_strdup(from->host),
                .bucket = mem_strdup(from->bucket),
                .path = mem_strdup(from->path),
                .text = mem_strdup(from->text),
        };
}

static char *make_origin(const struct store_url *url, const struct setup *s) {
        switch (url->kind) {
        case STORE_GS: return mem_strdup(s->gcs.origin);
        case STORE_AS: return mem_strdup(s->azure.origin);
        case STORE_S3:
                if (url->host[0] == '\0')
                        return mem_strdup(s->aws.s3_url);
                break;
        case STORE_WEB: break;
        }
        return mem_printf("%s://%s", url->is_tls ? "https" : "http", url->host);
}

static void install(struct store_credentials *c, struct store_keys *keys, uint64_t now_ns) {
        uint64_t end = keys->expires_ns;

        store_keys_unref(c->keys);
        c->keys = keys;
        c->renew_ns = CLOCK_NEVER;
        if (end != CLOCK_NEVER && end > now_ns)
                c->renew_ns = MAX(now_ns + (end - now_ns) / 2,
                                  end > CREDENTIALS_RENEW_S * NS_PER_S
                                          ? end - CREDENTIALS_RENEW_S * NS_PER_S
                                          : 0);
        else if (end != CLOCK_NEVER)
                c->renew_ns = now_ns;
}

static struct error *set_up(struct store_credentials *c) {
        struct setup       s;
        struct store_keys *keys;
        struct error      *err;

        TRY(setup_read(c, &s));
        c->origin = make_origin(&c->url, &s);
        c->region = mem_strdup(s.aws.region != NULL ? s.aws.region : "");
        err = setup_is_static(&s) ? setup_get_keys(&s, 0, &keys) : NULL;
        if (err == NULL && setup_is_static(&s)) {
                report_anonymous(c, keys);
                install(c, keys, 0);
        }
        setup_done(&s);
        return err;
}

struct error *store_credentials_open(const struct store_url *url, struct store_credentials **ret) {
        struct store_credentials *c = mem_zalloc(sizeof(*c));
        struct error             *err;

        mutex_init(&c->lock, LOCK_LEAF);
        cond_init(&c->renewed);
        c->now = clock_wall_ns;
        store_environment_read(&c->environment);
        copy_url(url, &c->url);
        err = set_up(c);
        if (err != NULL) {
                store_credentials_free(c);
                return err;
        }
        *ret = c;
        return NULL;
}

void store_credentials_free(struct store_credentials *c) {
        if (c == NULL)
                return;
        store_keys_unref(c->keys);
        error_free(c->failure);
        store_environment_done(&c->environment);
        store_url_done(&c->url);
        free(c->origin);
        free(c->region);
        cond_done(&c->renewed);
        mutex_done(&c->lock);
        free(c);
}

const char *store_credentials_origin(const struct store_credentials *c) {
        return c->origin;
}

void store_credentials_set_end(struct store_credentials *c, const atomic_bool *is_cancelled) {
        c->is_cancelled = is_cancelled;
}

void store_credentials_set_clock(struct store_credentials *c, uint64_t (*now)(void)) {
        c->now = now;
}

/* ---- renewing ------------------------------------------------------------------------------ */

static bool is_valid_locked(const struct store_credentials *c, uint64_t now_ns) {
        return c->keys != NULL &&
               (c->keys->expires_ns == CLOCK_NEVER || now_ns < c->keys->expires_ns);
}

/* True when the keys are of a server: those of a variable or a file do not expire. */
static bool has_issued_locked(const struct store_credentials *c) {
        return c->keys != NULL && c->keys->expires_ns != CLOCK_NEVER;
}

/* Fetches keys, without the lock meanwhile. */
static struct error *renew_locked(struct store_credentials *c, uint64_t now_ns) {
        struct store_keys *keys = NULL;
        bool               is_first = c->keys == NULL;
        bool               has_issued = has_issued_locked(c);
        struct error      *err;

        c->is_renewing = true;
        mutex_unlock(&c->lock);
        err = fetch(c, has_issued, now_ns, &keys);
        if (err == NULL && is_first)
                report_anonymous(c, keys);
        mutex_lock(&c->lock);
        c->is_renewing = false;
        c->n_attempts++;
        error_free(c->failure);
        c->failure = err != NULL ? error_copy(err) : NULL;
        if (err == NULL && c->keys != NULL && !store_keys_equal(c->keys, keys))
                atomic_fetch_add(&c->n_renewals, 1);
        if (err == NULL)
                install(c, keys, now_ns);
        else
                c->renew_ns = now_ns + CREDENTIALS_RETRY_S * NS_PER_S;
        cond_broadcast(&c->renewed);
        return err;
}

/* Waits for the attempt of another thread, and returns its failure. */
static struct error *wait_locked(struct store_credentials *c) {
        unsigned n = c->n_attempts;

        while (c->n_attempts == n)
                cond_wait(&c->renewed, &c->lock);
        return c->failure != NULL ? error_copy(c->failure) : NULL;
}

static struct error *freshen_locked(struct store_credentials *c, uint64_t now_ns) {
        bool is_valid = is_valid_locked(c, now_ns);

        if (is_valid && now_ns < c->renew_ns)
                return NULL;
        if (!c->is_renewing)
                return renew_locked(c, now_ns);
        return is_valid ? NULL : wait_locked(c);
}

static struct error *take_keys(struct store_credentials *c, struct store_keys **ret) {
        uint64_t      now_ns = c->now();
        struct error *err;

        mutex_lock(&c->lock);
        err = freshen_locked(c, now_ns);
        *ret = err == NULL || is_valid_locked(c, now_ns) ? store_keys_ref(c->keys) : NULL;
        mutex_unlock(&c->lock);
        if (*ret == NULL)
                return err;
        if (err != NULL)
                log_warn("%s: the keys could not be renewed and are used until they expire: %s",
                         c->url.text, err->message);
        error_free(err);
        return NULL;
}

unsigned store_credentials_renewals(const struct store_credentials *c) {
        return atomic_load(&c->n_renewals);
}

static struct error *renew_refused_locked(struct store_credentials *c) {
        uint64_t now_ns = c->now();

        if (c->refused_ns != 0 && now_ns < c->refused_ns + CREDENTIALS_REFUSAL_S * NS_PER_S)
                return NULL;
        c->refused_ns = now_ns;
        return renew_locked(c, now_ns);
}

bool store_credentials_renew(struct store_credentials *c, unsigned n_renewals) {
        struct error *err = NULL;

        mutex_lock(&c->lock);
        if (c->is_renewing)
                error_free(wait_locked(c));
        else if (atomic_load(&c->n_renewals) == n_renewals)
                err = renew_refused_locked(c);
        mutex_unlock(&c->lock);
        if (err != NULL)
                log_warn("%s: the keys were refused, and new ones could not be fetched: %s",
                         c->url.text, err->message);
        error_free(err);
        return atomic_load(&c->n_renewals) != n_renewals;
}

/* ---- signing ------------------------------------------------------------------------------- */

/* Keys never go to another host, whatever a redirect or a mistake makes of the URL. */
static struct error *check_host(const struct store_credentials *c, const struct store_request *r) {
        struct url_parts own, p;

        if (!url_parts_read(str_of(c->origin), &own) || !url_parts_read(strbuf_str(&r->url), &p))
                return error_new_text(ERR_INVALID_ARG,
                                      "the URL of a request is not http:// or https://");
        if (str_equal_nocase(own.host, p.host) && own.is_tls == p.is_tls)
                return NULL;
        return error_new(ERR_INVALID_ARG, "%s: no keys are sent to another host, '%.*s'",
                         c->url.text, STR_ARG(p.origin));
}

static void add_parameters(const char *parameters, struct store_request *r) {
        bool has_query = strchr(strbuf_cstr(&r->url), '?') != NULL;

        strbuf_printf(&r->url, "%c%s", has_query ? '&' : '?', parameters);
}

static struct error *add_signature(const struct store_credentials *c, const struct store_keys *k,
                                   struct store_request *r) {
        const struct aws_signer signer = {
                .keys = k, .region = c->region, .service = "s3", .now_ns = c->now()
        };
        AUTO_SECRET bearer = NULL;

        if (c->url.kind == STORE_AS)
                store_request_set(r, "x-ms-version", AZURE_VERSION);
        switch (k->kind) {
        case STORE_KEYS_AWS: return sign_aws(&signer, r);
        case STORE_KEYS_AZURE_SHARED: return sign_azure(k, signer.now_ns, r);
        case STORE_KEYS_AZURE_SAS: add_parameters(k->secret, r); break;
        case STORE_KEYS_BEARER:
                bearer = mem_printf("Bearer %s", k->secret);
                store_request_set(r, "authorization", bearer);
                break;
        case STORE_KEYS_NONE: break;
        }
        return strbuf_check(&r->url, "the URL of a request");
}

struct error *store_credentials_sign(struct store_credentials *c, struct store_request *r) {
        struct store_keys *keys;
        struct error      *err;

        TRY(check_host(c, r));
        TRY(take_keys(c, &keys));
        err = add_signature(c, keys, r);
        store_keys_unref(keys);
        return err;
}
