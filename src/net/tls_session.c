/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS sessions: handshake, reading and writing of records. */
#include "base/mem.h"
#include "net/tls_types.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

/* New keys cost some ten microseconds for a record of 27 bytes. A peer may ask for them so often, and once more for
 * each KEY_UPDATE_BYTES that it has sent; RFC 8446, 5.5 needs them after some hundreds of gigabytes. */
#define MAX_KEY_UPDATES 32
#define KEY_UPDATE_BYTES ((uint64_t)1 << 20)

struct tls_session {
        SSL            *native; /* owned; holds the settings with which it began */
        struct str      in;     /* borrowed: unread part of the input */
        struct tls_out *out;    /* borrowed */
        bool            is_client;
        bool            is_refused;    /* the peer has asked for new keys too often */
        uint64_t        n_key_updates; /* that the peer has asked for */
        uint64_t        read_bytes;    /* decrypted */
        char           *reason;        /* owned: why the session failed; NULL: it has not */
};

/* ---- the BIO through which OpenSSL reads and writes ---- */

static int bio_read(BIO *bio, char *to, size_t len, size_t *ret_n) {
        struct tls_session *s = BIO_get_data(bio);
        size_t              n = MIN(len, s->in.len);

        BIO_clear_retry_flags(bio);
        if (s->is_refused) /* without a retry, OpenSSL gives up */
                return -1;
        if (n == 0) {
                BIO_set_retry_read(bio);
                return -1;
        }
        memcpy(to, s->in.ptr, n);
        s->in = str_range(s->in.ptr + n, s->in.len - n);
        *ret_n = n;
        return 1;
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *ret_n) {
        struct tls_session *s = BIO_get_data(bio);
        size_t              n = s->out != NULL ? MIN(len, sizeof(s->out->bytes) - s->out->len) : 0;

        BIO_clear_retry_flags(bio);
        if (n == 0) {
                BIO_set_retry_write(bio);
                return -1;
        }
        memcpy(s->out->bytes + s->out->len, bytes, n);
        s->out->len += n;
        *ret_n = n;
        return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
        (void)bio;
        (void)number;
        (void)pointer;
        /* Nothing is buffered here, so a flush succeeds. No other command is supported. */
        return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_bio_method_new(void) {
        BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "neso wire");

        if (method == NULL)
                return NULL;
        BIO_meth_set_read_ex(method, bio_read);
        BIO_meth_set_write_ex(method, bio_write);
        BIO_meth_set_ctrl(method, bio_ctrl);
        return method;
}

/* Called by OpenSSL between the steps of its handshakes, and of what belongs to them later. */
static void on_step(const SSL *native, int where, int value) {
        struct tls_session *s;

        (void)value;
        if ((where & SSL_CB_LOOP) == 0 || SSL_get_state(native) != TLS_ST_SR_KEY_UPDATE)
                return;
        s = BIO_get_data(SSL_get_rbio(native));
        s->n_key_updates++;
        s->is_refused = s->n_key_updates > MAX_KEY_UPDATES + s->read_bytes / KEY_UPDATE_BYTES;
}

/* ---- the session ---- */

bool tls_is_address(const char *host) {
        unsigned char room[sizeof(struct in6_addr)];

        return inet_pton(AF_INET, host, room) == 1 || inet_pton(AF_INET6, host, room) == 1;
}

static SSL_CTX *ref_native(struct tls_context *t) {
        MUTEX_GUARD(&t->lock);

        SSL_CTX_up_ref(t->native);
        return t->native;
}

struct tls_session *tls_session_new(struct tls_context *t) {
        struct tls_session *s = try_zalloc(sizeof(*s));
        SSL_CTX            *native;
        BIO                *bio;

        if (s == NULL)
                return NULL;
        native = ref_native(t);
        s->native = SSL_new(native);
        SSL_CTX_free(native);
        bio = BIO_new(t->bio_method);
        if (s->native == NULL || bio == NULL) {
                BIO_free(bio);
                tls_session_free(s);
                ERR_clear_error();
                return NULL;
        }
        BIO_set_data(bio, s);
        BIO_set_init(bio, 1);
        SSL_set_bio(s->native, bio, bio);
        SSL_set_info_callback(s->native, on_step);
        s->is_client = t->host != NULL;
        if (!s->is_client) {
                SSL_set_accept_state(s->native);
        } else {
                SSL_set_connect_state(s->native);
                if (!tls_is_address(t->host))
                        SSL_set_tlsext_host_name(s->native, t->host); /* without it: no SNI */
        }
        return s;
}

bool tls_session_is_client(const struct tls_session *s) {
        return s->is_client;
}

void tls_session_free(struct tls_session *s) {
        if (s == NULL)
                return;
        SSL_free(s->native);
        free(s->reason);
        free(s);
}

void tls_session_feed(struct tls_session *s, struct str records) {
        s->in = records;
}

size_t tls_session_unread_bytes(const struct tls_session *s) {
        return s->in.len;
}

bool tls_session_has_input(const struct tls_session *s) {
        return s->in.len > 0 || SSL_pending(s->native) > 0;
}

void tls_session_lend(struct tls_session *s, struct tls_out *out) {
        s->out = out;
}

/* Plain texts for errors whose OpenSSL text is unclear. */
static const char *plain_reason(unsigned long code) {
        if (ERR_GET_LIB(code) != ERR_LIB_SSL)
                return NULL;
        switch (ERR_GET_REASON(code)) {
        case SSL_R_HTTP_REQUEST:
        case SSL_R_HTTPS_PROXY_REQUEST: return "plain HTTP came where TLS is spoken";
        case SSL_R_WRONG_VERSION_NUMBER:
        case SSL_R_PACKET_LENGTH_TOO_LONG:
        case SSL_R_BAD_PACKET_LENGTH: return "what came is no TLS";
        case SSL_R_NO_APPLICATION_PROTOCOL:
                return "none of the client's application protocols (ALPN) is served here";
        default: return NULL;
        }
}

static void keep_reason(struct tls_session *s) {
        long          verdict = SSL_get_verify_result(s->native);
        unsigned long code = ERR_peek_error();
        const char   *text = plain_reason(code);

        free(s->reason);
        if (s->is_refused)
                s->reason = mem_strdup("the peer asks for new keys too often");
        else if (verdict != X509_V_OK)
                s->reason = mem_printf("%s certificate: %s", s->is_client ? "server" : "client",
                                       X509_verify_cert_error_string(verdict));
        else if (text != NULL || (text = ERR_reason_error_string(code)) != NULL)
                s->reason = mem_strdup(text);
        else
                s->reason = mem_strdup("unknown reason");
}

/* Maps OpenSSL's return code of a failed call to a result, and keeps the reason. OpenSSL requires that
 * its error queue is empty before each call. */
static enum tls_result result_of(struct tls_session *s, int rc) {
        switch (SSL_get_error(s->native, rc)) {
        case SSL_ERROR_WANT_READ: return TLS_WANTS_INPUT;
        case SSL_ERROR_WANT_WRITE: return TLS_WANTS_OUTPUT;
        case SSL_ERROR_ZERO_RETURN: return TLS_ENDED;
        default:
                keep_reason(s);
                ERR_clear_error();
                return TLS_FAILED;
        }
}

enum tls_result tls_session_handshake(struct tls_session *s) {
        int rc = SSL_do_handshake(s->native);

        return rc == 1 ? TLS_DONE : result_of(s, rc);
}

enum tls_result tls_session_read(struct tls_session *s, char *to, size_t len, size_t *ret_n) {
        int rc = SSL_read_ex(s->native, to, len, ret_n);

        if (rc != 1)
                return result_of(s, rc);
        s->read_bytes += *ret_n;
        return TLS_DONE;
}

bool tls_session_write(struct tls_session *s, const char *bytes, size_t len) {
        size_t n;
        int    rc;

        assert(len > 0 && len <= TLS_RECORD_BYTES);
        rc = SSL_write_ex(s->native, bytes, len, &n);
        if (rc == 1 && n == len)
                return true;
        if (rc != 1)
                result_of(s, rc);
        return false;
}

void tls_session_close(struct tls_session *s) {
        if (SSL_shutdown(s->native) < 0)
                ERR_clear_error();
}

/* A part of a record's header alone is only pending; later the state is that of its body. */
bool tls_session_is_within_record(const struct tls_session *s) {
        return SSL_has_pending(s->native) || strcmp(SSL_rstate_string(s->native), "RH") != 0;
}

/* Frees only between two records: some versions of OpenSSL also discard a record header whose body has
 * not arrived (CVE-2024-4741). */
void tls_session_free_buffers(struct tls_session *s) {
        if (strcmp(SSL_rstate_string(s->native), "RH") == 0)
                SSL_free_buffers(s->native);
}

const char *tls_session_reason(const struct tls_session *s) {
        return s->reason != NULL ? s->reason : "";
}
