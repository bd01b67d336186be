/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and sessions on bytes in memory: files, refusals, records of all sizes. */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "net/tls.h"
#include "tls_files.h"

#include <openssl/ssl.h>
#include <string.h>

static struct tls_files files;

#define HTTP                                                                                       \
        STR_LIT("\x08"                                                                             \
                "http/1.1")

static struct tls_context *new_context(void) {
        const struct tls_options o = { .cert_path = files.cert,
                                       .key_path = files.key,
                                       .protocols = HTTP };
        struct tls_context      *t;

        assert_null(tls_context_new(&o, &t));
        return t;
}

static void test_files(void **state) {
        const struct {
                const char *cert, *key, *root;
                const char *want; /* NULL: it is fine */
        } rows[] = {
                { files.cert, files.key, NULL, NULL },
                { files.cert, files.key, files.other_cert, NULL },
                { "/no/such", files.key, NULL, "server certificate: " },
                { files.text, files.key, NULL, "text': no PEM certificate in it" },
                { files.empty, files.key, NULL, "empty': no PEM certificate in it" },
                { files.key, files.key, NULL, "key': no PEM certificate in it" },
                { files.half, files.key, NULL, "half': no valid PEM certificate: " },
                { files.cert, "/no/such", NULL, "server key: " },
                { files.cert, files.text, NULL, "text': no valid PEM private key in it" },
                { files.cert, files.cert, NULL, "cert': no valid PEM private key in it" },
                { files.cert, files.other_key, NULL,
                  "other_key': the key does not match the server certificate" },
                { files.cert, files.locked_key, NULL,
                  "locked_key': the key is encrypted; one without a pass phrase is needed" },
                { files.cert, files.key, "/no/such", "root certificate: " },
                { files.cert, files.key, files.text, "text': no PEM certificate in it" },
                { files.cert, files.key, files.half, "half': no valid PEM certificate: " },
                { files.cert, files.key, "/dev", "root certificate: " },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct tls_options o = { rows[i].cert, rows[i].key, rows[i].root, HTTP };
                struct tls_context      *t = NULL;
                AUTO_ERROR               err = tls_context_new(&o, &t);

                if (rows[i].want == NULL) {
                        assert_null(err);
                        assert_null(tls_context_reload(t));
                        tls_context_free(t);
                        continue;
                }
                assert_non_null(err);
                if (strstr(err->message, rows[i].want) == NULL)
                        fail_msg("want \"%s\", got: %s", rows[i].want, err->message);
        }
        tls_context_free(NULL);
}

/* ---- a client's context against a server's ---- */

struct side {
        struct tls_session *session;
        struct tls_out      out;
        char                in[64 << 10];
        size_t              n_in;
};

static struct side client_side, server_side; /* too large for a stack */

/* Feeds what the other side has written, and does a step. */
static enum tls_result side_step(struct side *s, struct side *other) {
        size_t          left = s->n_in;
        enum tls_result rc;

        memcpy(s->in + left, other->out.bytes, other->out.len);
        s->n_in = left + other->out.len;
        other->out.len = 0;
        tls_session_feed(s->session, str_range(s->in, s->n_in));
        tls_session_lend(s->session, &s->out);
        rc = tls_session_handshake(s->session);
        left = tls_session_unread_bytes(s->session);
        memmove(s->in, s->in + s->n_in - left, left);
        s->n_in = left;
        return rc;
}

/* Returns the client's last result. */
static enum tls_result handshake(struct tls_context *client, struct tls_context *server) {
        enum tls_result rc = TLS_WANTS_INPUT;

        client_side = (struct side){ .session = tls_session_new(client) };
        server_side = (struct side){ .session = tls_session_new(server) };
        assert_true(tls_session_is_client(client_side.session));
        assert_false(tls_session_is_client(server_side.session));
        for (int i = 0; i < 5 && rc == TLS_WANTS_INPUT; i++) {
                rc = side_step(&client_side, &server_side);
                side_step(&server_side, &client_side);
        }
        return rc;
}

static void test_client(void **state) {
        static const struct {
                bool            trusts, any_certificate, any_host;
                const char     *host;
                enum tls_result want;
                const char     *reason;
        } rows[] = {
                { true, false, false, "localhost", TLS_DONE, "" },
                { true, false, false, "elsewhere", TLS_FAILED,
                  "server certificate: hostname mismatch" },
                { true, false, true, "elsewhere", TLS_DONE, "" },
                { false, false, false, "localhost", TLS_FAILED, "server certificate: " },
                { false, true, false, "localhost", TLS_DONE, "" },
        };
        struct tls_context *server = new_context();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct tls_client_options o = { .root_path = rows[i].trusts ? files.cert : NULL,
                                                .host = rows[i].host,
                                                .accepts_any_certificate = rows[i].any_certificate,
                                                .accepts_any_host = rows[i].any_host,
                                                .protocols = STR_LIT("\x08"
                                                                     "http/1.1") };
                struct tls_context       *client;
                enum tls_result           rc;

                assert_null(tls_client_context_new(&o, &client));
                rc = handshake(client, server);
                if (rc != rows[i].want ||
                    strstr(tls_session_reason(client_side.session), rows[i].reason) == NULL)
                        fail_msg("row %zu: %d %s", i, rc, tls_session_reason(client_side.session));
                tls_session_free(client_side.session);
                tls_session_free(server_side.session);
                tls_context_free(client);
        }
        tls_context_free(server);
}

/* ---- a server and a client in memory ---- */

struct pair {
        struct tls_context *context;
        struct tls_session *server;
        struct tls_out      out;
        SSL_CTX            *client_context;
        SSL                *client;
        BIO                *to_client, *from_client;
        char                wire[1 << 20]; /* on its way to the server */
        size_t              wire_len;
};

static void pair_init(struct pair *p) {
        p->context = new_context();
        p->server = tls_session_new(p->context);
        assert_non_null(p->server);
        p->out.len = 0;
        p->wire_len = 0;
        p->client_context = SSL_CTX_new(TLS_client_method());
        p->client = SSL_new(p->client_context);
        p->to_client = BIO_new(BIO_s_mem());
        p->from_client = BIO_new(BIO_s_mem());
        BIO_set_mem_eof_return(p->to_client, -1);
        SSL_set_bio(p->client, p->to_client, p->from_client);
        SSL_set_connect_state(p->client);
}

static void pair_done(struct pair *p) {
        SSL_free(p->client);
        SSL_CTX_free(p->client_context);
        tls_session_free(p->server);
        tls_context_free(p->context);
}

/* What the server has said reaches the client. */
static void deliver(struct pair *p) {
        if (p->out.len > 0)
                assert_int_equal(BIO_write(p->to_client, p->out.bytes, (int)p->out.len),
                                 p->out.len);
        p->out.len = 0;
}

/* What the client has said is fed to the server, behind what it has not read. */
static void collect(struct pair *p) {
        size_t left = tls_session_unread_bytes(p->server);
        int    n;

        memmove(p->wire, p->wire + p->wire_len - left, left);
        n = BIO_read(p->from_client, p->wire + left, (int)(sizeof(p->wire) - left));
        p->wire_len = left + (size_t)MAX(n, 0);
        tls_session_feed(p->server, str_range(p->wire, p->wire_len));
}

static void shake_hands(struct pair *p) {
        enum tls_result rc = TLS_WANTS_INPUT;

        tls_session_lend(p->server, &p->out);
        for (int i = 0; i < 5 && rc == TLS_WANTS_INPUT; i++) {
                SSL_do_handshake(p->client);
                collect(p);
                rc = tls_session_handshake(p->server);
                deliver(p);
        }
        assert_int_equal(rc, TLS_DONE);
        assert_int_equal(SSL_do_handshake(p->client), 1);
}

static struct pair pair; /* too large for a stack */

static void test_records_of_all_sizes(void **state) {
        static const size_t sizes[] = { 1, 2, 100, 16383, 16384, 16385, 100000 };
        static char         said[100000], got[100000];

        (void)state;
        for (size_t i = 0; i < sizeof(said); i++)
                said[i] = (char)(i * 7 % 251);
        pair_init(&pair);
        shake_hands(&pair);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                size_t at = 0, n;

                assert_int_equal(SSL_write(pair.client, said, (int)sizes[i]), sizes[i]);
                collect(&pair);
                while (tls_session_has_input(pair.server)) { /* in odd pieces */
                        assert_int_equal(tls_session_read(pair.server, got + at, 1 + at % 5000, &n),
                                         TLS_DONE);
                        at += n;
                }
                assert_int_equal(at, sizes[i]);
                assert_memory_equal(got, said, sizes[i]);
                assert_int_equal(tls_session_read(pair.server, got, 1, &n), TLS_WANTS_INPUT);
                assert_int_equal(tls_session_unread_bytes(pair.server), 0);

                at = 0;
                while (at < sizes[i]) {
                        size_t record = MIN(sizes[i] - at, TLS_RECORD_BYTES);

                        assert_true(tls_session_write(pair.server, said + at, record));
                        assert_true(pair.out.len <= TLS_ENCRYPTED_BYTES);
                        deliver(&pair);
                        at += record;
                }
                for (at = 0; at < sizes[i]; at += n)
                        assert_int_equal(SSL_read_ex(pair.client, got + at, sizes[i] - at, &n), 1);
                assert_memory_equal(got, said, sizes[i]);
        }
        pair_done(&pair);
}

/* A byte at a time; between any two the session may be told to rest. */
static void test_rest_within_a_record(void **state) {
        char   got[100];
        size_t n, at;

        (void)state;
        pair_init(&pair);
        shake_hands(&pair);
        for (int round = 0; round < 3; round++) {
                assert_int_equal(SSL_write(pair.client, "0123456789", 10), 10);
                collect(&pair);
                for (at = 0; at < pair.wire_len; at++) {
                        enum tls_result rc;

                        tls_session_free_buffers(pair.server);
                        tls_session_feed(pair.server, str_range(pair.wire + at, 1));
                        rc = tls_session_read(pair.server, got, sizeof(got), &n);
                        assert_int_equal(rc, at + 1 < pair.wire_len ? TLS_WANTS_INPUT : TLS_DONE);
                }
                assert_int_equal(n, 10);
                assert_memory_equal(got, "0123456789", 10);
                tls_session_free_buffers(pair.server);
                assert_true(tls_session_write(pair.server, "abc", 3));
                deliver(&pair);
                assert_int_equal(SSL_read(pair.client, got, sizeof(got)), 3);
        }
        pair_done(&pair);
}

/* The answer to it needs no room of its own: it goes before the next record. */
static void test_key_update(void **state) {
        char   got[100];
        size_t n;

        (void)state;
        pair_init(&pair);
        shake_hands(&pair);
        assert_int_equal(SSL_key_update(pair.client, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_write(pair.client, "new key", 7), 7);
        collect(&pair);
        tls_session_lend(pair.server, NULL);
        assert_int_equal(tls_session_read(pair.server, got, sizeof(got), &n), TLS_DONE);
        assert_int_equal(n, 7);
        tls_session_lend(pair.server, &pair.out);
        assert_true(tls_session_write(pair.server, "too", 3));
        deliver(&pair);
        assert_int_equal(SSL_read(pair.client, got, sizeof(got)), 3);
        assert_memory_equal(got, "too", 3);
        pair_done(&pair);
}

static void test_no_room(void **state) {
        (void)state;
        pair_init(&pair);
        SSL_do_handshake(pair.client);
        collect(&pair);
        assert_int_equal(tls_session_handshake(pair.server), TLS_WANTS_OUTPUT);
        assert_int_equal(tls_session_handshake(pair.server), TLS_WANTS_OUTPUT);
        shake_hands(&pair);
        tls_session_lend(pair.server, NULL);
        assert_false(tls_session_write(pair.server, "lost", 4));
        pair_done(&pair);
}

static void test_end(void **state) {
        char   got[100];
        size_t n;

        (void)state;
        pair_init(&pair);
        shake_hands(&pair);
        SSL_shutdown(pair.client);
        collect(&pair);
        assert_int_equal(tls_session_read(pair.server, got, sizeof(got), &n), TLS_ENDED);
        assert_true(tls_session_write(pair.server, "last", 4));
        tls_session_close(pair.server);
        deliver(&pair);
        assert_int_equal(SSL_read(pair.client, got, sizeof(got)), 4);
        assert_int_equal(SSL_shutdown(pair.client), 1);
        pair_done(&pair);
}

static void test_forged_record(void **state) {
        char   got[100];
        size_t n;

        (void)state;
        pair_init(&pair);
        shake_hands(&pair);
        assert_int_equal(SSL_write(pair.client, "hello", 5), 5);
        collect(&pair);
        pair.wire[pair.wire_len - 1] ^= 1;
        assert_int_equal(tls_session_read(pair.server, got, sizeof(got), &n), TLS_FAILED);
        assert_string_equal(tls_session_reason(pair.server), "decryption failed or bad record mac");
        assert_true(pair.out.len > 0); /* the peer is told */
        tls_session_close(pair.server);
        pair_done(&pair);
}

static void test_first_bytes(void **state) {
        const struct {
                struct str      said;
                enum tls_result want;
                const char     *reason;
        } rows[] = {
                { STR_LIT(""), TLS_WANTS_INPUT, "" },
                { STR_LIT("\x16"), TLS_WANTS_INPUT, "" },
                { STR_LIT("\x16\x03\x01\x02\x00\x01"), TLS_WANTS_INPUT, "" },
                { STR_LIT("GET / HTTP/1.1\r\n\r\n"), TLS_FAILED,
                  "plain HTTP came where TLS is spoken" },
                { STR_LIT("CONNECT a:1 HTTP/1.1\r\n\r\n"), TLS_FAILED,
                  "plain HTTP came where TLS is spoken" },
                { STR_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), TLS_FAILED, "what came is no TLS" },
                { STR_LIT("\0\0\0\0\0\0\0\0\0\0\0\0"), TLS_FAILED, "what came is no TLS" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                pair_init(&pair);
                tls_session_lend(pair.server, &pair.out);
                tls_session_feed(pair.server, rows[i].said);
                assert_int_equal(tls_session_handshake(pair.server), rows[i].want);
                assert_string_equal(tls_session_reason(pair.server), rows[i].reason);
                pair_done(&pair);
        }
}

/* A session goes on with what it began with. */
static void test_reload_leaves_sessions(void **state) {
        char   got[10];
        size_t n;

        (void)state;
        pair_init(&pair);
        shake_hands(&pair);
        assert_null(tls_context_reload(pair.context));
        assert_int_equal(SSL_write(pair.client, "still", 5), 5);
        collect(&pair);
        assert_int_equal(tls_session_read(pair.server, got, sizeof(got), &n), TLS_DONE);
        assert_memory_equal(got, "still", 5);
        pair_done(&pair);
}

static void test_memory_is_short(void **state) {
        struct tls_context *t = new_context();

        (void)state;
        mem_fail_after(1);
        assert_null(tls_session_new(t));
        mem_fail_after(0);
        tls_context_free(t);
}

static int set_up(void **state) {
        (void)state;
        tls_files_make(&files);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        tls_files_remove(&files);
        return 0;
}

SUITE(tls) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_client),
                cmocka_unit_test(test_records_of_all_sizes),
                cmocka_unit_test(test_rest_within_a_record),
                cmocka_unit_test(test_key_update),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_end),
                cmocka_unit_test(test_forged_record),
                cmocka_unit_test(test_first_bytes),
                cmocka_unit_test(test_reload_leaves_sessions),
                cmocka_unit_test(test_memory_is_short),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
