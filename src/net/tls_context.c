/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS contexts: reading of certificates and keys, settings, ALPN. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/tls_types.h"

#include <string.h>

/* Four times the size of a bundle of all public authorities. */
#define MAX_FILE_BYTES ((size_t)1 << 20)

/* Suites with forward secrecy and authenticated encryption; every suite of TLS 1.3 has both. The
 * server's order applies: 128-bit keys come first, since they are secure and need ten rounds of AES
 * instead of fourteen. A client that puts ChaCha20 first has no AES instructions, and gets ChaCha20. */
#define SUITES_OF_1_2 "ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20"
#define SUITES_OF_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* ---- files ---- */

struct pem {
        const char   *what; /* "server certificate" */
        const char   *path;
        struct strbuf text;
        BIO          *bio;
};

static void pem_done(struct pem *p) {
        BIO_free(p->bio);
        if (p->text.ptr != NULL)
                OPENSSL_cleanse(p->text.ptr, p->text.len);
        strbuf_done(&p->text);
        ERR_clear_error();
}
#define AUTO_PEM CLEANUP(pem_done) struct pem

static struct error *pem_open(struct pem *p) {
        struct error *err = file_read(p->path, MAX_FILE_BYTES, &p->text);

        if (err != NULL)
                return error_wrap(err, "%s", p->what);
        p->bio = BIO_new_mem_buf(strbuf_cstr(&p->text), (int)p->text.len);
        if (p->bio == NULL)
                return error_new(ERR_INTERNAL, "%s '%s': out of memory", p->what, p->path);
        return NULL;
}

static struct error *pem_error(const struct pem *p, const char *wrong) {
        return error_new(ERR_INVALID_ARG, "%s '%s': %s", p->what, p->path, wrong);
}

/* After a failed read: true at the end of the file, false at an entry that is not a valid certificate. */
static bool is_at_end(void) {
        unsigned long code = ERR_peek_last_error();

        return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

static struct error *certificate_error(const struct pem *p) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());

        if (is_at_end())
                return pem_error(p, "no PEM certificate in it");
        return error_new(ERR_INVALID_ARG, "%s '%s': no valid PEM certificate: %s", p->what, p->path,
                         reason != NULL ? reason : "unknown reason");
}

static void warn_of_dates(const struct pem *p, const X509 *cert) {
        if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
                log_warn("%s '%s' has expired", p->what, p->path);
        else if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
                log_warn("%s '%s' is not yet valid", p->what, p->path);
}

static struct error *read_chain(SSL_CTX *native, const struct pem *p) {
        X509 *cert;

        while ((cert = PEM_read_bio_X509(p->bio, NULL, NULL, NULL)) != NULL)
                if (SSL_CTX_add0_chain_cert(native, cert) != 1) {
                        X509_free(cert);
                        return pem_error(p, "a certificate behind the first one is refused");
                }
        return is_at_end() ? NULL : certificate_error(p);
}

static struct error *read_certificate(SSL_CTX *native, const char *what, const char *path) {
        AUTO_PEM p = { .what = what, .path = path };
        X509    *cert;
        int      rc;

        TRY(pem_open(&p));
        cert = PEM_read_bio_X509_AUX(p.bio, NULL, NULL, NULL);
        if (cert == NULL)
                return certificate_error(&p);
        warn_of_dates(&p, cert);
        rc = SSL_CTX_use_certificate(native, cert);
        X509_free(cert);
        if (rc != 1) {
                const char *reason = ERR_reason_error_string(ERR_peek_last_error());

                return pem_error(&p, reason != NULL ? reason : "refused");
        }
        return read_chain(native, &p);
}

/* Called for an encrypted key. Refuses: there is no user to type a pass phrase. */
static int on_passphrase(char *to, int size, int rwflag, void *was_asked) {
        (void)to;
        (void)size;
        (void)rwflag;
        *(bool *)was_asked = true;
        return -1;
}

static struct error *read_key(SSL_CTX *native, const char *what, const char *path) {
        AUTO_PEM  p = { .what = what, .path = path };
        bool      was_asked = false;
        EVP_PKEY *key;
        int       rc;

        TRY(pem_open(&p));
        key = PEM_read_bio_PrivateKey(p.bio, NULL, on_passphrase, &was_asked);
        if (key == NULL)
                return pem_error(&p, was_asked ? "the key is encrypted; one without a pass phrase "
                                                 "is needed"
                                               : "no valid PEM private key in it");
        rc = X509_check_private_key(SSL_CTX_get0_certificate(native), key);
        if (rc == 1)
                rc = SSL_CTX_use_PrivateKey(native, key);
        else
                rc = -1;
        EVP_PKEY_free(key);
        if (rc == -1)
                return pem_error(&p, "the key does not match the server certificate");
        return rc == 1 ? NULL : pem_error(&p, "the key is refused");
}

static struct error *read_roots(SSL_CTX *native, const char *path) {
        AUTO_PEM    p = { .what = "root certificate", .path = path };
        X509_STORE *store = SSL_CTX_get_cert_store(native);
        size_t      n = 0;
        X509       *cert;

        TRY(pem_open(&p));
        while ((cert = PEM_read_bio_X509(p.bio, NULL, NULL, NULL)) != NULL) {
                bool is_added = X509_STORE_add_cert(store, cert) == 1 &&
                                SSL_CTX_add_client_CA(native, cert) == 1;

                X509_free(cert);
                if (!is_added)
                        return pem_error(&p, "a certificate is refused");
                n++;
        }
        if (n == 0 || !is_at_end())
                return certificate_error(&p);
        /* An intermediate authority is sufficient: the file need not contain its root. */
        X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
        SSL_CTX_set_verify(native, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        return NULL;
}

/* ---- settings ---- */

static int on_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                   const unsigned char *offered, unsigned n_offered, void *owner) {
        const struct tls_context *t = owner;
        unsigned char            *chosen; /* points into one of the two lists */
        int                       rc;

        (void)ssl;
        rc = SSL_select_next_proto(&chosen, ret_len, (const unsigned char *)t->protocols.ptr,
                                   (unsigned)t->protocols.len, offered, n_offered);
        *ret = chosen;
        return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool apply_settings(SSL_CTX *native, struct tls_context *t) {
        static const unsigned char session_context[] = "neso";

        SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                            SSL_OP_CIPHER_SERVER_PREFERENCE |
                                            SSL_OP_PRIORITIZE_CHACHA);
        SSL_CTX_set_mode(native,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        /* Clients keep their sessions, in encrypted tickets; the server keeps none. */
        SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_max_early_data(native, 0);
        SSL_CTX_set_alpn_select_cb(native, on_alpn, t);
        return SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) == 1 &&
               SSL_CTX_set_cipher_list(native, SUITES_OF_1_2) == 1 &&
               SSL_CTX_set_ciphersuites(native, SUITES_OF_1_3) == 1 &&
               SSL_CTX_set_session_id_context(native, session_context,
                                              sizeof(session_context) - 1) == 1;
}

static struct error *read_files(SSL_CTX *native, const struct tls_context *t) {
        TRY(read_certificate(native, "server certificate", t->cert_path));
        TRY(read_key(native, "server key", t->key_path));
        return t->root_path != NULL ? read_roots(native, t->root_path) : NULL;
}

static struct error *make_native(struct tls_context *t, SSL_CTX **ret) {
        SSL_CTX      *native = SSL_CTX_new(TLS_server_method());
        struct error *err;

        if (native == NULL || !apply_settings(native, t)) {
                SSL_CTX_free(native);
                ERR_clear_error();
                return error_new(ERR_INTERNAL, "unable to set TLS up");
        }
        err = read_files(native, t);
        if (err != NULL) {
                SSL_CTX_free(native);
                return err;
        }
        *ret = native;
        return NULL;
}

struct error *tls_context_new(const struct tls_options *o, struct tls_context **ret) {
        struct tls_context *t = mem_zalloc(sizeof(*t));
        struct error       *err;

        t->cert_path = mem_strdup(o->cert_path);
        t->key_path = mem_strdup(o->key_path);
        t->root_path = mem_strdup(o->root_path);
        t->protocols = o->protocols;
        mutex_init(&t->lock, LOCK_LEAF);
        t->bio_method = tls_bio_method_new();
        err = t->bio_method != NULL ? make_native(t, &t->native)
                                    : error_new(ERR_INTERNAL, "unable to set TLS up");
        if (err != NULL) {
                tls_context_free(t);
                return err;
        }
        *ret = t;
        return NULL;
}

struct error *tls_context_reload(struct tls_context *t) {
        SSL_CTX *fresh = NULL, *old;

        TRY(make_native(t, &fresh));
        mutex_lock(&t->lock);
        old = t->native;
        t->native = fresh;
        mutex_unlock(&t->lock);
        SSL_CTX_free(old); /* connections hold it as long as they need it */
        return NULL;
}

/* ---- clients ---- */

static struct error *read_trusted(SSL_CTX *native, const struct tls_client_options *o) {
        if (o->root_path == NULL) {
                SSL_CTX_set_default_verify_paths(
                        native); /* without them every certificate is refused */
                return NULL;
        }
        AUTO_PEM    p = { .what = "root certificate", .path = o->root_path };
        X509_STORE *store = SSL_CTX_get_cert_store(native);
        X509       *cert;
        size_t      n = 0;

        TRY(pem_open(&p));
        for (; (cert = PEM_read_bio_X509(p.bio, NULL, NULL, NULL)) != NULL; n++) {
                X509_STORE_add_cert(store, cert); /* fails for a duplicate, which is harmless */
                X509_free(cert);
        }
        if (n == 0 || !is_at_end())
                return certificate_error(&p);
        X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
        return NULL;
}

static bool set_host(SSL_CTX *native, const char *host) {
        X509_VERIFY_PARAM *param = SSL_CTX_get0_param(native);

        return (tls_is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(param, host)
                                     : X509_VERIFY_PARAM_set1_host(param, host, 0)) == 1;
}

static struct error *set_client(SSL_CTX *native, const struct tls_client_options *o) {
        SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        SSL_CTX_set_mode(native,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
        if (SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1 ||
            SSL_CTX_set_alpn_protos(native, (const unsigned char *)o->protocols.ptr,
                                    (unsigned)o->protocols.len) != 0 ||
            (!o->accepts_any_host && !set_host(native, o->host)))
                return error_new(ERR_INTERNAL, "unable to set TLS up");
        SSL_CTX_set_verify(native, o->accepts_any_certificate ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
                           NULL);
        if (!o->accepts_any_certificate)
                TRY(read_trusted(native, o));
        if (o->cert_path != NULL && o->key_path == NULL)
                return error_new(ERR_INVALID_ARG, "the client certificate '%s' needs a private key",
                                 o->cert_path);
        if (o->cert_path == NULL)
                return NULL;
        TRY(read_certificate(native, "client certificate", o->cert_path));
        return read_key(native, "client key", o->key_path);
}

struct error *tls_client_context_new(const struct tls_client_options *o, struct tls_context **ret) {
        struct tls_context *t = mem_zalloc(sizeof(*t));
        struct error       *err;

        t->host = mem_strdup(o->host);
        mutex_init(&t->lock, LOCK_LEAF);
        t->bio_method = tls_bio_method_new();
        t->native = SSL_CTX_new(TLS_client_method());
        err = t->bio_method != NULL && t->native != NULL
                      ? set_client(t->native, o)
                      : error_new(ERR_INTERNAL, "unable to set TLS up");
        ERR_clear_error();
        if (err != NULL) {
                tls_context_free(t);
                return err;
        }
        *ret = t;
        return NULL;
}

void tls_context_free(struct tls_context *t) {
        if (t == NULL)
                return;
        SSL_CTX_free(t->native);
        BIO_meth_free(t->bio_method);
        mutex_done(&t->lock);
        free(t->cert_path);
        free(t->key_path);
        free(t->root_path);
        free(t->host);
        free(t);
}
